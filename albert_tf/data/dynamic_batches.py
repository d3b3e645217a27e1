"""Makes batches of dynamic records: draws segment order and masks.

Data flow: parsed records -> [this file] -> batch of `input_pipeline.py`.
`tf.data`. Letters: b rows, S tokens.
"""

from collections.abc import Mapping

import tensorflow as tf

from albert_tf.data import graph_masking
from albert_tf.data.shards import Shard

DynamicRecords = Mapping[str, tf.Tensor | tf.RaggedTensor]

_SWAP_PROBABILITY = 0.5


def draw(
    records: DynamicRecords,
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
    `graph_masking.example_keys`. Returns a batch as that of `training_dataset`:
    padding and unused slots are 0, positions ascend.
    """
    keys = graph_masking.example_keys(seed, epochs, indices)
    labels = tf.cast(tf.squeeze(records["pair_label"], 1), tf.int32)
    swapped = tf.zeros_like(labels, tf.bool)
    if shard.settings.pair_objective == "sop":
        draws = graph_masking.draw(keys, graph_masking.SWAP_STREAM, 0)
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
        **graph_masking.mask_rows(
            input_ids,
            is_start=is_start,
            separators=separators,
            keys=keys,
            shard=shard,
        ),
    }


def _lay_out(
    records: DynamicRecords,
    starts: tf.Tensor,
    separators: tf.Tensor,
    shard: Shard,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Writes `[CLS] first [SEP] second [SEP]`, or `[CLS] first [SEP]`.

    `starts` and `separators`, int32 `[b, 2]`, are where the segments begin in
    the pair, and end in the row. Returns `input_ids` and `is_start` as
    `graph_masking.mask_rows` takes them.
    """
    special_ids = shard.special_ids
    cut = 1 - special_ids.num_before
    position = tf.range(shard.settings.max_seq_length + 2 * cut)[None]
    first_from, second_from = tf.split(starts, 2, axis=1)
    separator, last = tf.split(separators, 2, axis=1)
    is_first = (position > 0) & (position < separator)
    is_maskable = is_first | (position > separator) & (position < last)
    source = tf.where(
        is_first,
        first_from + position - 1,
        second_from + position - separator - 1,
    )
    row_starts = records["pair_ids"].row_starts()[:, None]
    source = tf.where(is_maskable, tf.cast(source, tf.int64) + row_starts, 0)
    ids = tf.cast(tf.gather(records["pair_ids"].flat_values, source), tf.int32)
    cls_id, sep_id = special_ids.cls or 0, special_ids.sep or 0
    special = tf.where(position == 0, cls_id, sep_id)
    is_real = is_start = position <= last
    if shard.settings.do_whole_word_mask:
        # Truncation may have cut a word; its rest counts as a word.
        is_start &= ~is_maskable | (position == 1) | (position == separator + 1)
        boundary = tf.gather(records["token_boundary"].flat_values, source)
        is_start |= is_maskable & (boundary > 0)
    # Padding is 0 in every vocabulary, as in the original's records.
    special_or_padding = tf.where(is_real, special, 0)
    return tf.where(is_maskable, ids, special_or_padding), is_start
