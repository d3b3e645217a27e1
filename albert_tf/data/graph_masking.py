"""Masks tokens of a batch of rows: the half that reads dynamic records.

Data flow: unmasked pairs -> [this file] -> batch of the pretraining task.
Floor: data. TensorFlow, for `tf.data` on the host.

Masking is implemented twice. This file, with `graph_spans.py`, masks records
in the TensorFlow graph each time they are read, because the input pipeline of
a TPU pod cannot call Python; `masking.py`, with `spans.py`, masks in NumPy
when static records are built. Functions of the same name do the same step
(`masking.py` lists the steps), and tests hold both halves to the same
distribution.

The draws need no state: what a row gets depends on (seed, epoch, example
index) alone, so it is the same in any batch, on any replica and after a
restart. A draw is a pure function of a key and a counter. Keys are uint64;
`absorb` folds a number into one:

    key = example_keys(seed, epochs, indices)              # [b]
    bits = absorb(absorb(key, STREAM)[:, None], counters)  # [b, n]

Source: Lan et al. 2020, section 3.1 and equation 1 (n-gram lengths);
google-research/albert, `create_masked_lm_predictions`. Random numbers: Steele,
Lea and Flood 2014, "Fast splittable pseudorandom number generators";
`absorb(key, c)` is output c of their SplitMix64 started at `key`.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.data import graph_spans, masking, sidecar
from albert_tf.data.pretraining_config import PretrainingDataConfig

# Streams of random numbers, one for each kind of draw.
_SWAP, _PRIORITY, _SPAN_LENGTH, _TREATMENT, _REPLACEMENT = range(5)

_SWAP_PROBABILITY = 0.5

# Steele et al. 2014, figure 16: the golden ratio in 64 bits, and the
# multipliers and shifts of Stafford's variant 13 of the MurmurHash3 finalizer.
_GAMMA = 0x9E3779B97F4A7C15
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_SHIFTS = (30, 27, 31)

_DOUBLE_BITS = 53


class Segments(NamedTuple):
    """Where the segments of each row come from; int32 `[b]` each.

    `first_from` and `second_from` are positions in the pair; the sizes count
    tokens. `second_size` is 0 in a row without a second segment.
    """

    first_from: tf.Tensor
    first_size: tf.Tensor
    second_from: tf.Tensor
    second_size: tf.Tensor

    @property
    def separator(self) -> tf.Tensor:
        """Position of the `[SEP]` after the first segment."""
        return self.first_size + 1

    @property
    def length(self) -> tf.Tensor:
        """Tokens of the row, special tokens included."""
        second = tf.where(self.second_size > 0, self.second_size + 1, 0)
        return self.separator + 1 + second


class Words(NamedTuple):
    """Words and special tokens of each row; W is the number of the longest row.

    `start` `[b, W]` is the position of the first token; `num_left` `[b, W]`
    counts the words from here (included) to the end of the segment, 0 for a
    special token; `of_token` `[b, S]` is the word of each position.
    """

    start: tf.Tensor
    num_left: tf.Tensor
    of_token: tf.Tensor


def draw_batch(
    pairs: Mapping[str, tf.Tensor | tf.RaggedTensor],
    *,
    epochs: tf.Tensor,
    indices: tf.Tensor,
    seed: int,
    facts: sidecar.Sidecar,
) -> dict[str, tf.Tensor]:
    """Draws segment order and masks for a batch of unmasked pairs.

    Args:
        pairs: The fields of `features.dynamic_pretraining_features`:
            `pair_ids` and `token_boundary` int64 ragged `[b, (n)]`,
            `segment_a_length` and `pair_label` int64 `[b, 1]`.
        epochs: int64 `[b]`, how often each example was seen before.
        indices: int64 `[b]`, which example each row is.
        seed: Seed of the run.
        facts: The sidecar of the records.

    Returns:
        `input_ids`, `input_mask`, `segment_ids` int32 `[b, S]`;
        `masked_lm_positions` (ascending) and `masked_lm_ids` int32 `[b, P]`,
        `masked_lm_weights` float32 `[b, P]`; `sentence_order_labels` int32
        `[b]`. Padding and unused slots are 0.
    """
    config = facts.config
    keys = example_keys(seed, epochs, indices)
    labels = tf.cast(tf.squeeze(pairs["pair_label"], 1), tf.int32)
    swapped = _draw_swaps(labels, keys, config.pair_objective)
    segments = _order_segments(pairs, swapped)
    input_ids, is_start = lay_out(pairs, segments, facts)
    position = tf.range(config.max_seq_length)[None]
    is_real = position < segments.length[:, None]
    is_second = is_real & (position > segments.separator[:, None])
    return {
        "input_mask": tf.cast(is_real, tf.int32),
        "segment_ids": tf.cast(is_second, tf.int32),
        "sentence_order_labels": labels + tf.cast(swapped, tf.int32),
        **mask_rows(input_ids, is_start, segments, keys, facts),
    }


def _draw_swaps(
    labels: tf.Tensor, keys: tf.Tensor, pair_objective: str
) -> tf.Tensor:
    """Returns bool `[b]`: whether the second segment comes first."""
    if pair_objective != "sop":
        return tf.zeros_like(labels, tf.bool)
    draws = uniform(_draw(keys, _SWAP, 0))
    # Segments of two documents have no order; such a pair keeps its label 1.
    return (labels == 0) & (draws < _SWAP_PROBABILITY)


def _order_segments(
    pairs: Mapping[str, tf.Tensor | tf.RaggedTensor], swapped: tf.Tensor
) -> Segments:
    size_a = tf.cast(tf.squeeze(pairs["segment_a_length"], 1), tf.int32)
    size = tf.cast(pairs["pair_ids"].row_lengths(), tf.int32)
    size_b = size - size_a
    return Segments(
        first_from=tf.where(swapped, size_a, 0),
        first_size=tf.where(swapped, size_b, size_a),
        second_from=tf.where(swapped, 0, size_a),
        second_size=tf.where(swapped, size_a, size_b),
    )


def lay_out(
    pairs: Mapping[str, tf.Tensor | tf.RaggedTensor],
    segments: Segments,
    facts: sidecar.Sidecar,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Writes `[CLS] first [SEP] second [SEP]`, or `[CLS] first [SEP]`.

    Returns:
        `(input_ids, is_start)`: int32 `[b, S]`; and bool `[b, S]`, True where
        a word or a special token starts.
    """
    position = tf.range(facts.config.max_seq_length)[None]
    separator = segments.separator[:, None]
    is_first = (position > 0) & (position < separator)
    is_real = position < segments.length[:, None]
    is_second = (position > separator) & (
        position < segments.length[:, None] - 1
    )
    is_maskable = is_first | is_second
    source = tf.where(
        is_first,
        segments.first_from[:, None] + position - 1,
        segments.second_from[:, None] + position - separator - 1,
    )
    row_starts = pairs["pair_ids"].row_starts()[:, None]
    source = tf.where(is_maskable, tf.cast(source, tf.int64) + row_starts, 0)
    ids = tf.cast(tf.gather(pairs["pair_ids"].flat_values, source), tf.int32)
    special = tf.where(
        position == 0, facts.special_ids.cls, facts.special_ids.sep
    )
    is_start = is_real
    if facts.config.do_whole_word_mask:
        # Truncation may have cut a word; its rest counts as a word.
        is_start &= ~is_maskable | (position == 1) | (position == separator + 1)
        boundary = tf.gather(pairs["token_boundary"].flat_values, source)
        is_start |= is_maskable & (boundary > 0)
    # Padding is 0 in every vocabulary, as in the original's records.
    special_or_padding = tf.where(is_real, special, 0)
    return tf.where(is_maskable, ids, special_or_padding), is_start


def mask_rows(
    input_ids: tf.Tensor,
    is_start: tf.Tensor,
    segments: Segments,
    keys: tf.Tensor,
    facts: sidecar.Sidecar,
) -> dict[str, tf.Tensor]:
    """Masks tokens of a batch of rows.

    Args:
        input_ids: int32 `[b, S]`.
        is_start: bool `[b, S]`, True where a word or a special token starts.
        segments: The segments of the rows.
        keys: uint64 `[b]`, see `example_keys`.
        facts: The sidecar of the records.

    Returns:
        `input_ids`, masked, and the three `masked_lm` entries of the batch.
    """
    words = find_words(is_start, segments)
    budget = num_to_predict(segments.length, facts.config)
    chosen = choose_words(words, budget, keys, facts.config)
    masked = tf.gather(chosen, words.of_token, batch_dims=1)
    places = tf.where(masked)  # [m, 2], m tokens of the whole batch
    ids = tf.gather_nd(input_ids, places)
    shown = replace_tokens(
        ids, tf.gather(keys, places[:, 0]), places[:, 1], facts
    )
    position = tf.cast(places[:, 1], tf.int32)
    targets = tf.RaggedTensor.from_row_lengths(
        tf.stack([position, ids, tf.ones_like(ids)], axis=1),
        tf.math.count_nonzero(masked, axis=1),
        validate=False,
    )
    num_slots = facts.config.num_prediction_slots
    slots = targets.to_tensor(shape=[None, num_slots, 3])  # [b, P, 3]
    return {
        "input_ids": tf.tensor_scatter_nd_update(input_ids, places, shown),
        "masked_lm_positions": slots[..., 0],
        "masked_lm_ids": slots[..., 1],
        "masked_lm_weights": tf.cast(slots[..., 2], tf.float32),
    }


def find_words(is_start: tf.Tensor, segments: Segments) -> Words:
    """Groups the tokens of each row into words; arguments as `mask_rows`."""
    width = tf.shape(is_start)[1]
    positions = tf.broadcast_to(tf.range(width), tf.shape(is_start))
    start = tf.ragged.boolean_mask(positions, is_start).to_tensor()
    of_token = tf.cumsum(tf.cast(is_start, tf.int32), axis=1) - 1
    ends = tf.stack([segments.separator, segments.length - 1], axis=1)
    segment_ends = tf.gather(of_token, ends, batch_dims=1)
    first_end, second_end = segment_ends[:, :1], segment_ends[:, 1:]
    word = tf.range(tf.shape(start)[1])[None]
    num_left = tf.where(word <= first_end, first_end, second_end) - word
    return Words(
        start=start,
        num_left=tf.where(word > 0, tf.maximum(num_left, 0), 0),
        of_token=of_token,
    )


def num_to_predict(
    lengths: tf.Tensor, config: PretrainingDataConfig
) -> tf.Tensor:
    """Returns int32 `[b]`: how many tokens to mask in rows of these lengths."""
    # TF1: as Python's round, `tf.round` rounds halves to the even number.
    share = tf.cast(lengths, tf.float64) * config.masked_lm_prob
    wanted = tf.cast(tf.round(share), tf.int32)
    return tf.clip_by_value(wanted, 1, config.max_predictions_per_seq)


def choose_words(
    words: Words,
    budget: tf.Tensor,
    keys: tf.Tensor,
    config: PretrainingDataConfig,
) -> tf.Tensor:
    """Chooses words, in spans of random length and in random order.

    Args:
        words: The words of the rows.
        budget: int32 `[b]`, most tokens to choose.
        keys: uint64 `[b]`, see `example_keys`.
        config: Gives the distribution of the span lengths.

    Returns:
        bool `[b, W]`, True for chosen words.
    """
    word = tf.range(tf.shape(words.start)[1])[None]
    lengths = draw_span_lengths(keys[:, None], word, config)
    priority = _draw(keys[:, None], _PRIORITY, word)
    return graph_spans.choose_spans(
        graph_spans.Spans(
            start=words.start,
            num_words=tf.minimum(lengths, words.num_left),
            # Without the lowest bit it fits into int64.
            priority=tf.cast(
                tf.bitwise.right_shift(priority, tf.constant(1, tf.uint64)),
                tf.int64,
            ),
            max_words=config.ngram,
        ),
        budget,
    )


def draw_span_lengths(
    keys: tf.Tensor, word: tf.Tensor, config: PretrainingDataConfig
) -> tf.Tensor:
    """Draws span lengths in words, 1 to `config.ngram`; int32 `[b, W]`."""
    draws = uniform(_draw(keys, _SPAN_LENGTH, word))
    lengths = tf.ones_like(draws, tf.int32)
    for bound in masking.span_length_bounds(config).tolist():
        lengths += tf.cast(draws >= bound, tf.int32)
    return lengths


def replace_tokens(
    ids: tf.Tensor,
    keys: tf.Tensor,
    position: tf.Tensor,
    facts: sidecar.Sidecar,
) -> tf.Tensor:
    """Returns int32 `[m]`: what replaces each masked token, 80/10/10.

    `ids` int32, `keys` (of their examples) uint64 and `position` (in their
    rows) int64 describe the m masked tokens of the whole batch.
    """
    treatment = uniform(_draw(keys, _TREATMENT, position))
    draws = uniform(_draw(keys, _REPLACEMENT, position))
    replacements = masking.replacement_ids(
        facts.vocab_size, np.array(facts.forbidden_ids, np.int32)
    )
    choice = tf.cast(draws * len(replacements), tf.int32)
    kept_below = masking.MASK_PROBABILITY + masking.KEEP_PROBABILITY
    kept_or_replaced = tf.where(
        treatment < kept_below,
        ids,
        tf.gather(tf.constant(replacements, tf.int32), choice),
    )
    return tf.where(
        treatment < masking.MASK_PROBABILITY,
        facts.special_ids.mask,
        kept_or_replaced,
    )


def _draw(keys: tf.Tensor, stream: int, counters: tf.Tensor | int) -> tf.Tensor:
    return absorb(absorb(keys, stream), counters)


def absorb(keys: tf.Tensor, numbers: tf.Tensor | int) -> tf.Tensor:
    """Folds numbers into keys; different numbers give different keys.

    Args:
        keys: uint64, any shape.
        numbers: Integers of a shape that broadcasts with `keys`.

    Returns:
        uint64; every bit of it depends on every bit of both.
    """
    counters = tf.cast(numbers, tf.uint64) + tf.constant(1, tf.uint64)
    bits = keys + counters * tf.constant(_GAMMA, tf.uint64)
    for shift, multiplier in zip(_SHIFTS[:2], _MULTIPLIERS, strict=True):
        bits = _fold(bits, shift) * tf.constant(multiplier, tf.uint64)
    return _fold(bits, _SHIFTS[2])


def _fold(bits: tf.Tensor, shift: int) -> tf.Tensor:
    shifted = tf.bitwise.right_shift(bits, tf.constant(shift, tf.uint64))
    return tf.bitwise.bitwise_xor(bits, shifted)


def example_keys(seed: int, epochs: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
    """Returns one key per example.

    Args:
        seed: Seed of the run; any integer of at most 63 bits.
        epochs: int64 `[b]`, how often the example was seen before.
        indices: int64 `[b]`, which example it is.

    Returns:
        uint64 `[b]`.
    """
    run_key = absorb(tf.constant(0, tf.uint64), tf.constant(seed, tf.int64))
    return absorb(absorb(run_key, epochs), indices)


def uniform(bits: tf.Tensor) -> tf.Tensor:
    """Turns uint64 bits into float64 from 0 to below 1, same shape."""
    high = tf.bitwise.right_shift(
        bits, tf.constant(64 - _DOUBLE_BITS, tf.uint64)
    )
    return tf.cast(high, tf.float64) * 2.0**-_DOUBLE_BITS
