"""Makes batches of dynamic records in the graph: draws segment order and masks.

Data flow: parsed records -> [this file] -> batch of `input_pipeline.py`.
TensorFlow, for `tf.data` on the host. Letters: b rows, S tokens, W words of
the longest row, P targets, m masked tokens of all rows.

`masking.py`, which masks static records, lists the steps and their sources, and
says why there are two halves; functions of the same name do the same step.

The draws need no state: the masks of a row depend on (seed, epoch, example
index) alone, so it is the same in any batch, on any replica and after a
restart. A draw is a pure function of a key and a counter. Keys are uint64;
`absorb` folds a number into one:

    key = example_keys(seed, epochs, indices)              # [b]
    bits = absorb(absorb(key, STREAM)[:, None], counters)  # [b, n]

Source of the random numbers: Steele, Lea and Flood 2014, "Fast splittable
pseudorandom number generators"; `absorb(key, c)` is output c of their
SplitMix64 started at `key`.
"""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from albert_tf.data import masking
from albert_tf.data.shards import RecordSettings, Shard

# Streams of random numbers, one for each kind of draw.
_SWAP, _PRIORITY, _SPAN_LENGTH, _TREATMENT, _REPLACEMENT = range(5)
_SWAP_PROBABILITY = 0.5

# Steele et al. 2014, figure 16: the golden ratio in 64 bits, and the
# multipliers and shifts of Stafford's variant 13 of the MurmurHash3 finalizer.
_GAMMA = 0x9E3779B97F4A7C15
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_SHIFTS = (30, 27, 31)


def draw_batch(
    records: Mapping[str, tf.Tensor | tf.RaggedTensor],
    *,
    epochs: tf.Tensor,
    indices: tf.Tensor,
    seed: int,
    shard: Shard,
) -> dict[str, tf.Tensor]:
    """Draws segment order and masks for a batch of unmasked pairs.

    `records` has the fields of `features.dynamic_pretraining_features`:
    `pair_ids` and `token_boundary` int64 ragged `[b, (n)]`, `segment_a_length`
    and `pair_label` int64 `[b, 1]`. For `epochs`, `indices` and `seed`, see
    `example_keys`. Returns a batch as `training_dataset`:
    padding and unused slots are 0, positions ascend.
    """
    keys = example_keys(seed, epochs, indices)
    labels = tf.cast(tf.squeeze(records["pair_label"], 1), tf.int32)
    swapped = tf.zeros_like(labels, tf.bool)
    if shard.settings.pair_objective == "sop":
        draws = draw(keys, _SWAP, 0)
        # Segments of two documents have no order; their label 1 stays.
        swapped = (labels == 0) & (draws < _SWAP_PROBABILITY)
    size_a = tf.cast(tf.squeeze(records["segment_a_length"], 1), tf.int32)
    size_b = tf.cast(records["pair_ids"].row_lengths(), tf.int32) - size_a
    first = 1 + tf.where(swapped, size_b, size_a)
    second_size = tf.where(swapped, size_a, size_b)
    last = first + tf.where(second_size > 0, second_size + 1, 0)
    separators = tf.stack([first, last], axis=1)
    # Where the segments are in the pair.
    starts = tf.stack(
        [tf.where(swapped, size_a, 0), tf.where(swapped, 0, size_a)], axis=1
    )
    input_ids, is_start = _lay_out(records, starts, separators, shard)
    position = tf.range(shard.settings.max_seq_length)[None]
    cut = 1 - shard.special_ids.num_before
    is_real = position <= last[:, None] - 2 * cut
    return {
        "input_mask": tf.cast(is_real, tf.int32),
        "segment_ids": tf.cast(is_real & (position > first[:, None]), tf.int32),
        "sentence_order_labels": labels + tf.cast(swapped, tf.int32),
        **mask_rows(
            input_ids,
            is_start=is_start,
            separators=separators,
            keys=keys,
            shard=shard,
        ),
    }


def _lay_out(
    records: Mapping[str, tf.Tensor | tf.RaggedTensor],
    starts: tf.Tensor,
    separators: tf.Tensor,
    shard: Shard,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Writes `[CLS] first [SEP] second [SEP]`, or `[CLS] first [SEP]`.

    `starts` and `separators`, int32 `[b, 2]`, are where the segments begin in
    the pair, and end in the row. Returns `input_ids` and `is_start` as
    `mask_rows` takes them.
    """
    special_ids = shard.special_ids
    cut = 1 - special_ids.num_before
    position = tf.range(shard.settings.max_seq_length + 2 * cut)[None]
    first_from, second_from = tf.split(starts, 2, axis=1)
    separator, last = tf.split(separators, 2, axis=1)
    is_first = (position > 0) & (position < separator)
    is_maskable = is_first | (position > separator) & (position < last)
    place = tf.where(
        is_first,
        first_from + position - 1,
        second_from + position - separator - 1,
    )
    row_starts = records["pair_ids"].row_starts()[:, None]
    place = tf.where(is_maskable, tf.cast(place, tf.int64) + row_starts, 0)
    ids = tf.cast(tf.gather(records["pair_ids"].flat_values, place), tf.int32)
    cls_id, sep_id = special_ids.cls or 0, special_ids.sep or 0
    special = tf.where(position == 0, cls_id, sep_id)
    is_real = is_start = position <= last
    if shard.settings.do_whole_word_mask:
        # Truncation may have cut a word; its rest counts as a word.
        is_start &= ~is_maskable | (position == 1) | (position == separator + 1)
        boundary = tf.gather(records["token_boundary"].flat_values, place)
        is_start |= is_maskable & (boundary > 0)
    # Padding is 0 in every vocabulary, as in the original's records.
    special_or_padding = tf.where(is_real, special, 0)
    return tf.where(is_maskable, ids, special_or_padding), is_start


def mask_rows(
    input_ids: tf.Tensor,
    *,
    is_start: tf.Tensor,
    separators: tf.Tensor,
    keys: tf.Tensor,
    shard: Shard,
) -> dict[str, tf.Tensor]:
    """Masks tokens of a batch of rows.

    `input_ids` is int32 `[b, S]`; `is_start`, bool `[b, S]`, is True where a
    word or a special token starts; `separators`, int32 `[b, 2]`, is where the
    first `[SEP]` is and the last; for `keys`, see `example_keys`. Returns
    `input_ids`, masked, and the three `masked_lm` entries of the batch.
    """
    start, num_left, word = find_words(is_start, separators)
    # Room for `[CLS]` and `[SEP]` that this vocabulary has not is cut off.
    cut, size = 1 - shard.special_ids.num_before, shard.settings.max_seq_length
    lengths = separators[:, 1] + 1 - 2 * cut
    budget = num_to_predict(lengths, shard.settings)
    chosen = choose_words(start, num_left, budget, keys, shard.settings)
    masked = tf.gather(chosen, word, batch_dims=1)
    at = tf.where(masked)  # [m, 2], rows and positions of m tokens
    ids = tf.gather_nd(input_ids, at)
    shown = replace_tokens(ids, tf.gather(keys, at[:, 0]), at[:, 1], shard)
    position = tf.cast(at[:, 1], tf.int32) - cut
    targets = tf.RaggedTensor.from_row_lengths(
        tf.stack([position, ids, tf.ones_like(ids)], axis=1),
        tf.math.count_nonzero(masked, axis=1),
        validate=False,
    )
    num_slots = shard.settings.num_prediction_slots
    slots = targets.to_tensor(shape=[None, num_slots, 3])  # [b, P, 3]
    input_ids = tf.tensor_scatter_nd_update(input_ids, at, shown)
    return {
        "input_ids": input_ids[:, cut : cut + size],
        "masked_lm_positions": slots[..., 0],
        "masked_lm_ids": slots[..., 1],
        "masked_lm_weights": tf.cast(slots[..., 2], tf.float32),
    }


def find_words(
    is_start: tf.Tensor, separators: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Groups the tokens of each row into words; arguments as `mask_rows`.

    A special token counts as a word. Returns, int32, where each word starts,
    `[b, W]`; how many words are left from it (included) to the end of its
    segment, `[b, W]`, 0 for a special token; the word of each token, `[b, S]`.
    """
    width = tf.shape(is_start)[1]
    positions = tf.broadcast_to(tf.range(width), tf.shape(is_start))
    start = tf.ragged.boolean_mask(positions, is_start).to_tensor()
    of_token = tf.cumsum(tf.cast(is_start, tf.int32), axis=1) - 1
    segment_ends = tf.gather(of_token, separators, batch_dims=1)
    first_end, second_end = segment_ends[:, :1], segment_ends[:, 1:]
    word = tf.range(tf.shape(start)[1])[None]
    num_left = tf.where(word <= first_end, first_end, second_end) - word
    return start, tf.where(word > 0, tf.maximum(num_left, 0), 0), of_token


def num_to_predict(lengths: tf.Tensor, settings: RecordSettings) -> tf.Tensor:
    """Returns int32 `[b]`: how many tokens to mask in rows of these lengths."""
    # TF1: as Python's round, `tf.round` rounds halves to the even number.
    share = tf.cast(lengths, tf.float64) * settings.masked_lm_prob
    wanted = tf.cast(tf.round(share), tf.int32)
    return tf.clip_by_value(wanted, 1, settings.max_predictions_per_seq)


def choose_words(
    start: tf.Tensor,
    num_left: tf.Tensor,
    budget: tf.Tensor,
    keys: tf.Tensor,
    settings: RecordSettings,
) -> tf.Tensor:
    """Chooses words, in spans of random length and in random order.

    For `start` and `num_left`, see `find_words`; for `keys`, see
    `example_keys`; for `budget` and the result, see `choose_spans`.
    """
    word = tf.range(tf.shape(start)[1])[None]
    lengths = draw_span_lengths(keys[:, None], word, settings)
    priority = absorb(absorb(keys[:, None], _PRIORITY), word)
    # Without the lowest bit it fits into int64.
    priority = tf.bitwise.right_shift(priority, tf.constant(1, tf.uint64))
    return choose_spans(
        start,
        tf.minimum(lengths, num_left),
        tf.cast(priority, tf.int64),
        budget=budget,
    )


def draw_span_lengths(
    keys: tf.Tensor, word: tf.Tensor, settings: RecordSettings
) -> tf.Tensor:
    """Draws span lengths in words, 1 to `settings.ngram`; int32 `[b, W]`."""
    draws = draw(keys, _SPAN_LENGTH, word)
    lengths = tf.ones_like(draws, tf.int32)
    for bound in masking.span_length_bounds(settings).tolist():
        lengths += tf.cast(draws >= bound, tf.int32)
    return lengths


def choose_spans(
    start: tf.Tensor,
    num_words: tf.Tensor,
    priority: tf.Tensor,
    *,
    budget: tf.Tensor,
) -> tf.Tensor:
    """Chooses spans greedily within a budget; returns words, bool `[b, W]`.

    `start`, int32 `[b, W]`, is where each word begins, also the one after the
    last of a span; a word proposes itself and the `num_words - 1` words after
    it, int32 `[b, W]`, or nothing, in the order of `priority`, int64 `[b, W]`.
    At most `budget` tokens are chosen, int32 `[b]`.
    """
    order = tf.argsort(priority, axis=1)
    sizes = tf.gather(num_words, order, batch_dims=1)
    starts = tf.gather(start, order, batch_dims=1)
    turns = tf.transpose(tf.stack([order, sizes, starts]))  # [W, b, 3]
    ends = tf.pad(start[:, 1:], [[0, 0], [0, 1]])

    def take_turn(
        turn: tf.Tensor, chosen: tf.Tensor, left: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        # The next span of each row, shortened to the rest.
        word, size, start = tf.unstack(turns[turn][:, None], axis=2)  # [b, 1]
        offset = tf.range(tf.shape(ends)[1]) - word
        tokens = ends - start
        fits = (offset >= 0) & (offset < size) & (tokens <= left[:, None])
        added = fits & ~tf.reduce_any(chosen & fits, axis=1, keepdims=True)
        left -= tf.reduce_max(tf.where(added, tokens, 0), axis=1)
        return turn + 1, chosen | added, left

    return tf.while_loop(
        lambda turn, _, left: (
            (turn < tf.shape(turns)[0]) & tf.reduce_any(left > 0)
        ),
        take_turn,
        (tf.constant(0), tf.zeros_like(order, tf.bool), budget),
    )[1]


def replace_tokens(
    ids: tf.Tensor, keys: tf.Tensor, position: tf.Tensor, shard: Shard
) -> tf.Tensor:
    """Returns the replacement of each masked token, 80/10/10, int32 `[m]`.

    `ids` int32, `keys` (of their examples) uint64 and `position` (in their
    rows) int64 describe the m masked tokens of the whole batch.
    """
    treatment = draw(keys, _TREATMENT, position)
    draws = draw(keys, _REPLACEMENT, position)
    replacements = masking.replacement_ids(
        shard.vocab_size, np.array(shard.forbidden_ids, np.int32)
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
        shard.special_ids.mask,
        kept_or_replaced,
    )


def draw(keys: tf.Tensor, stream: int, counters: tf.Tensor | int) -> tf.Tensor:
    """Draws float64 numbers from 0 to below 1, one for each key and counter."""
    bits = absorb(absorb(keys, stream), counters)
    # The 53 bits of a float64.
    high = tf.bitwise.right_shift(bits, tf.constant(64 - 53, tf.uint64))
    return tf.cast(high, tf.float64) * 2.0**-53


def absorb(keys: tf.Tensor, numbers: tf.Tensor | int) -> tf.Tensor:
    """Folds numbers into keys; different numbers give different keys.

    Keys are uint64, numbers integers of a shape that broadcasts. Every bit of
    the result depends on every bit of both.
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

    The seed is any integer of at most 63 bits; `epochs`, int64 `[b]`, says
    how often the example was seen before; `indices`, int64 `[b]`, which it is.
    """
    run_key = absorb(tf.constant(0, tf.uint64), tf.constant(seed, tf.int64))
    return absorb(absorb(run_key, epochs), indices)
