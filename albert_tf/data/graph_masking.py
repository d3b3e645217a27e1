"""Masks and segment order drawn while a record is read, a batch at a time.

The draws follow the law of `masking.py`, step by step, in the graph. What a
row gets depends on (seed, epoch, example index) and on nothing else, so it is
the same in any batch, on any replica and after a restart.

Data flow: unmasked pairs -> [this file] -> batch of the pretraining task.
Floor: data. TensorFlow, for `tf.data` on the host.

Source: Lan et al. 2020, section 3.1 and equation 1 (n-gram lengths);
google-research/albert, `create_masked_lm_predictions`.

Random numbers by key and counter: no state, the same at any batch size.

A draw is a pure function of its key, so what one example gets depends on
nothing around it. Keys are 64 bits; `absorb` folds a number into one, and a
draw is the key with a counter folded in:

    key = example_keys(seed, epochs, indices)              # [b]
    bits = absorb(absorb(key, STREAM)[:, None], counters)  # [b, n]

Floor: data. TensorFlow integer arithmetic, which wraps modulo 2**64.

Source: Steele, Lea and Flood 2014, "Fast splittable pseudorandom number
generators": `absorb(key, c)` is output c of their SplitMix64 started at `key`.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.data import graph_spans, masking, sidecar

# Streams of random numbers, one for each decision.
_SWAP, _PRIORITY, _SPAN_LENGTH, _TREATMENT, _REPLACEMENT = range(5)

_SWAP_PROBABILITY = 0.5


class _Segments(NamedTuple):
    """Where the segments of each row come from; int32 `[b]` each.

    `first_from` and `second_from` are places in the pair, and the sizes count
    its tokens. A row without a second segment has `second_size` 0.
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
        """Tokens of the row, special ones counted."""
        second = tf.where(self.second_size > 0, self.second_size + 1, 0)
        return self.separator + 1 + second


class _Words(NamedTuple):
    """Words and special tokens of each row in order; W of the longest row.

    `start` `[b, W]` is the position of the first token; `available` `[b, W]`
    counts the words from here to the end of the segment, 0 for a special
    token; `word_of_position` is `[b, S]`.
    """

    start: tf.Tensor
    available: tf.Tensor
    word_of_position: tf.Tensor


def draw_batch(
    pairs: Mapping[str, tf.Tensor | tf.RaggedTensor],
    *,
    epochs: tf.Tensor,
    indices: tf.Tensor,
    seed: int,
    settings: sidecar.Sidecar,
) -> dict[str, tf.Tensor]:
    """Draws order and masks for a batch of unmasked pairs.

    Args:
        pairs: The fields of `features.dynamic_pretraining_features`:
            `pair_ids` and `token_boundary` int64 ragged `[b, (n)]`,
            `segment_a_length` and `pair_label` int64 `[b, 1]`.
        epochs: int64 `[b]`, how often each example was seen before.
        indices: int64 `[b]`, which example each row is.
        seed: Of the run.
        settings: What the sidecar of the records says.

    Returns:
        `input_ids`, `input_mask`, `segment_ids` int32 `[b, S]`;
        `masked_lm_positions` (ascending) and `masked_lm_ids` int32 `[b, P]`,
        `masked_lm_weights` float32 `[b, P]`; `sentence_order_labels` int32
        `[b]`. Padding and unused slots are 0.
    """
    keys = example_keys(seed, epochs, indices)
    labels = tf.cast(tf.squeeze(pairs["pair_label"], 1), tf.int32)
    swapped = _draw_swaps(labels, keys, settings.pair_objective)
    segments = _order_segments(pairs, swapped)
    input_ids, starts = _lay_out(pairs, segments, settings)
    words = _find_words(starts, segments)
    masked = _draw_masked(words, segments.length, keys, settings)
    position = tf.range(settings.max_seq_length)[None]
    is_real = position < segments.length[:, None]
    is_second = is_real & (position > segments.separator[:, None])
    return {
        "input_mask": tf.cast(is_real, tf.int32),
        "segment_ids": tf.cast(is_second, tf.int32),
        "sentence_order_labels": labels + tf.cast(swapped, tf.int32),
        **_replace_masked(input_ids, masked, keys, settings),
    }


def _draw_swaps(
    labels: tf.Tensor, keys: tf.Tensor, pair_objective: str
) -> tf.Tensor:
    """Returns bool `[b]`: whether the second segment comes first."""
    if pair_objective != "sop":
        return tf.zeros_like(labels, tf.bool)
    draws = uniform(_draw(keys, _SWAP, 0))
    # A pair of two documents has no order, and keeps its label 1.
    return (labels == 0) & (draws < _SWAP_PROBABILITY)


def _order_segments(
    pairs: Mapping[str, tf.Tensor | tf.RaggedTensor], swapped: tf.Tensor
) -> _Segments:
    size_a = tf.cast(tf.squeeze(pairs["segment_a_length"], 1), tf.int32)
    size = tf.cast(pairs["pair_ids"].row_lengths(), tf.int32)
    size_b = size - size_a
    return _Segments(
        first_from=tf.where(swapped, size_a, 0),
        first_size=tf.where(swapped, size_b, size_a),
        second_from=tf.where(swapped, 0, size_a),
        second_size=tf.where(swapped, size_a, size_b),
    )


def _lay_out(
    pairs: Mapping[str, tf.Tensor | tf.RaggedTensor],
    segments: _Segments,
    settings: sidecar.Sidecar,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Writes `[CLS] first [SEP] second [SEP]`, or `[CLS] first [SEP]`.

    Returns:
        `(input_ids, starts)`: int32 `[b, S]`; and bool `[b, S]`, true where a
        word or a special token starts.
    """
    position = tf.range(settings.max_seq_length)[None]
    separator = segments.separator[:, None]
    is_first = (position > 0) & (position < separator)
    is_real = position < segments.length[:, None]
    is_second = (position > separator) & (
        position < segments.length[:, None] - 1
    )
    is_piece = is_first | is_second
    place = tf.where(
        is_first,
        segments.first_from[:, None] + position - 1,
        segments.second_from[:, None] + position - separator - 1,
    )
    row_starts = pairs["pair_ids"].row_starts()[:, None]
    place = tf.where(is_piece, tf.cast(place, tf.int64) + row_starts, 0)
    ids = tf.cast(tf.gather(pairs["pair_ids"].flat_values, place), tf.int32)
    special = tf.where(
        position == 0, settings.special_ids["cls"], settings.special_ids["sep"]
    )
    starts = is_real
    if settings.do_whole_word_mask:
        # Truncation may have cut a word; what is left of it is one too.
        starts &= ~is_piece | (position == 1) | (position == separator + 1)
        boundary = tf.gather(pairs["token_boundary"].flat_values, place)
        starts |= is_piece & (boundary > 0)
    # Padding is 0 in every vocabulary, as in the original's records.
    return tf.where(is_piece, ids, tf.where(is_real, special, 0)), starts


def _find_words(starts: tf.Tensor, segments: _Segments) -> _Words:
    """Turns flags at positions into lists of words."""
    width = tf.shape(starts)[1]
    positions = tf.broadcast_to(tf.range(width), tf.shape(starts))
    start = tf.ragged.boolean_mask(positions, starts).to_tensor()
    word_of_position = tf.cumsum(tf.cast(starts, tf.int32), axis=1) - 1
    ends = tf.stack([segments.separator, segments.length - 1], axis=1)
    segment_ends = tf.gather(word_of_position, ends, batch_dims=1)
    first_end, second_end = segment_ends[:, :1], segment_ends[:, 1:]
    word = tf.range(tf.shape(start)[1])[None]
    available = tf.where(word <= first_end, first_end, second_end) - word
    return _Words(
        start=start,
        available=tf.where(word > 0, tf.maximum(available, 0), 0),
        word_of_position=word_of_position,
    )


def _draw_masked(
    words: _Words,
    length: tf.Tensor,
    keys: tf.Tensor,
    settings: sidecar.Sidecar,
) -> tf.Tensor:
    """Returns bool `[b, S]`: the tokens to predict."""
    word = tf.range(tf.shape(words.start)[1])[None]
    spans = graph_spans.Spans(
        start=words.start,
        num_words=_span_lengths(
            uniform(_draw(keys[:, None], _SPAN_LENGTH, word)),
            words.available,
            settings,
        ),
        priority=tf.cast(
            tf.bitwise.right_shift(
                _draw(keys[:, None], _PRIORITY, word), tf.constant(1, tf.uint64)
            ),
            tf.int64,
        ),
        max_words=settings.ngram,
    )
    covered = graph_spans.choose_words(spans, _budget(length, settings))
    return tf.gather(covered, words.word_of_position, batch_dims=1)


def _budget(length: tf.Tensor, settings: sidecar.Sidecar) -> tf.Tensor:
    """Returns int32 `[b]`: how many tokens to predict, as the static masks.

    `tf.round`, as Python's `round` in the reference, rounds halves to even.
    """
    share = tf.cast(length, tf.float64) * settings.masked_lm_prob
    wanted = tf.cast(tf.round(share), tf.int32)
    least = 1 if settings.masked_lm_prob else 0
    return tf.clip_by_value(wanted, least, settings.max_predictions_per_seq)


def _span_lengths(
    draws: tf.Tensor, available: tf.Tensor, settings: sidecar.Sidecar
) -> tf.Tensor:
    """Draws the words of each span, cut at the end of its segment.

    Args:
        draws: float64 `[b, W]`, uniform.
        available: int32 `[b, W]`, the words that are left.
        settings: Has the longest n-gram and which end of it is likelier.

    Returns:
        int32 `[b, W]`, at most `available`.
    """
    probabilities = masking.ngram_length_probabilities(
        ngram=settings.ngram, favor_shorter_ngram=settings.favor_shorter_ngram
    )
    length = tf.ones_like(available)
    # The last bound is left out: rounding could put it below 1.
    for bound in np.cumsum(probabilities)[:-1].tolist():
        length += tf.cast(draws >= bound, tf.int32)
    return tf.minimum(length, available)


def _replace_masked(
    input_ids: tf.Tensor,
    masked: tf.Tensor,
    keys: tf.Tensor,
    settings: sidecar.Sidecar,
) -> dict[str, tf.Tensor]:
    """Hides the masked tokens and lists what they were."""
    places = tf.where(masked)  # [m, 2], m tokens of the whole batch
    ids = tf.gather_nd(input_ids, places)
    shown = _draw_shown(
        ids, tf.gather(keys, places[:, 0]), places[:, 1], settings
    )
    position = tf.cast(places[:, 1], tf.int32)
    slots = tf.RaggedTensor.from_row_lengths(
        tf.stack([position, ids, tf.ones_like(ids)], axis=1),
        tf.math.count_nonzero(masked, axis=1),
        validate=False,
    ).to_tensor(shape=[None, settings.num_prediction_slots, 3])  # [b, P, 3]
    return {
        "input_ids": tf.tensor_scatter_nd_update(input_ids, places, shown),
        "masked_lm_positions": slots[..., 0],
        "masked_lm_ids": slots[..., 1],
        "masked_lm_weights": tf.cast(slots[..., 2], tf.float32),
    }


def _draw_shown(
    ids: tf.Tensor,
    keys: tf.Tensor,
    position: tf.Tensor,
    settings: sidecar.Sidecar,
) -> tf.Tensor:
    """Draws what stands in the place of each masked token; int32 `[m]`."""
    treatment = uniform(_draw(keys, _TREATMENT, position))
    draws = uniform(_draw(keys, _REPLACEMENT, position))
    replacements = _replacement_ids(settings)
    choice = tf.cast(draws * len(replacements), tf.int32)
    kept_below = masking.MASK_PROBABILITY + masking.KEEP_PROBABILITY
    kept_or_replaced = tf.where(
        treatment < kept_below,
        ids,
        tf.gather(tf.constant(replacements, tf.int32), choice),
    )
    return tf.where(
        treatment < masking.MASK_PROBABILITY,
        settings.special_ids["mask"],
        kept_or_replaced,
    )


def _replacement_ids(settings: sidecar.Sidecar) -> np.ndarray:
    # Differs: the reference may put special and control tokens into a text.
    return np.setdiff1d(
        np.arange(settings.vocab_size), np.array(settings.forbidden_ids, int)
    )


def _draw(keys: tf.Tensor, stream: int, counters: tf.Tensor | int) -> tf.Tensor:
    return absorb(absorb(keys, stream), counters)


# Steele et al. 2014, figure 16: the golden ratio in 64 bits, and the
# multipliers and shifts of Stafford's variant 13 of the MurmurHash3 finalizer.
_GAMMA = 0x9E3779B97F4A7C15
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_SHIFTS = (30, 27, 31)

_DOUBLE_BITS = 53


def absorb(keys: tf.Tensor, numbers: tf.Tensor | int) -> tf.Tensor:
    """Folds numbers into keys; different numbers give different keys.

    Args:
        keys: uint64, any shape.
        numbers: Integers of a shape that broadcasts with `keys`.

    Returns:
        uint64, every bit of which depends on every bit of both.
    """
    counters = tf.cast(numbers, tf.uint64) + tf.constant(1, tf.uint64)
    bits = keys + counters * tf.constant(_GAMMA, tf.uint64)
    for shift, multiplier in zip(_SHIFTS[:2], _MULTIPLIERS, strict=True):
        bits = _fold(bits, shift) * tf.constant(multiplier, tf.uint64)
    return _fold(bits, _SHIFTS[2])


def example_keys(seed: int, epochs: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
    """Returns one key per example.

    Args:
        seed: Of the run; any integer of at most 63 bits.
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


def _fold(bits: tf.Tensor, shift: int) -> tf.Tensor:
    shifted = tf.bitwise.right_shift(bits, tf.constant(shift, tf.uint64))
    return tf.bitwise.bitwise_xor(bits, shifted)
