"""Makes batches of dynamic records: draws segment order and masks.

Data flow: parsed records -> [this file] -> batch of `input_pipeline.py`.
`tf.data`. Letters: b rows, S tokens.

Tokens are laid out in rows here, and masked by `graph_masking.py`.
"""

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from albert_tf.data import graph_masking
from albert_tf.data.shards import Shard

DynamicRecords = Mapping[str, tf.Tensor | tf.RaggedTensor]

_SWAP_PROBABILITY = 0.5


class _Segments(NamedTuple):
    """Where the segments of each row come from; int32 `[b]` each.

    `first_from` and `second_from` are positions in the pair; the sizes count
    tokens. `second_size` is 0 in a row without a second segment.
    """

    first_from: tf.Tensor
    first_size: tf.Tensor
    second_from: tf.Tensor
    second_size: tf.Tensor

    @property
    def separators(self) -> tf.Tensor:
        """Int32 `[b, 2]`: where each segment ends; the last `[SEP]` twice."""
        first = self.first_size + 1
        has_second = self.second_size > 0
        last = first + tf.where(has_second, self.second_size + 1, 0)
        return tf.stack([first, last], axis=1)


def draw(
    records: DynamicRecords,
    *,
    epochs: tf.Tensor,
    indices: tf.Tensor,
    seed: int,
    shard: Shard,
) -> dict[str, tf.Tensor]:
    """Draws segment order and masks for a batch of unmasked pairs.

    Args:
        records: The fields of `features.dynamic_pretraining_features`:
            `pair_ids` and `token_boundary` int64 ragged `[b, (n)]`,
            `segment_a_length` and `pair_label` int64 `[b, 1]`.
        epochs: int64 `[b]`, how often each example was seen before.
        indices: int64 `[b]`, which example each row is.
        seed: Seed of the run.
        shard: Describes the records.

    Returns:
        A batch as that of `training_dataset`. Padding and unused slots are 0,
        positions ascend.
    """
    keys = graph_masking.example_keys(seed, epochs, indices)
    labels = tf.cast(tf.squeeze(records["pair_label"], 1), tf.int32)
    swapped = _draw_swaps(labels, keys, shard.settings.pair_objective)
    segments = _order_segments(records, swapped)
    input_ids, is_start = _lay_out(records, segments, shard)
    position = tf.range(shard.settings.max_seq_length)[None]
    first, last = tf.split(segments.separators, 2, axis=1)
    is_real = position <= last
    return {
        "input_mask": tf.cast(is_real, tf.int32),
        "segment_ids": tf.cast(is_real & (position > first), tf.int32),
        "sentence_order_labels": labels + tf.cast(swapped, tf.int32),
        **graph_masking.mask_rows(
            input_ids,
            is_start=is_start,
            separators=segments.separators,
            keys=keys,
            shard=shard,
        ),
    }


def _draw_swaps(
    labels: tf.Tensor, keys: tf.Tensor, pair_objective: str | None
) -> tf.Tensor:
    """Returns bool `[b]`: whether the second segment comes first."""
    if pair_objective != "sop":
        return tf.zeros_like(labels, tf.bool)
    draws = graph_masking.draw(keys, graph_masking.SWAP_STREAM, 0)
    # Segments of two documents have no order; such a pair keeps its label 1.
    return (labels == 0) & (draws < _SWAP_PROBABILITY)


def _order_segments(records: DynamicRecords, swapped: tf.Tensor) -> _Segments:
    size_a = tf.cast(tf.squeeze(records["segment_a_length"], 1), tf.int32)
    size_b = tf.cast(records["pair_ids"].row_lengths(), tf.int32) - size_a
    return _Segments(
        first_from=tf.where(swapped, size_a, 0),
        first_size=tf.where(swapped, size_b, size_a),
        second_from=tf.where(swapped, 0, size_a),
        second_size=tf.where(swapped, size_a, size_b),
    )


def _lay_out(
    records: DynamicRecords, segments: _Segments, shard: Shard
) -> tuple[tf.Tensor, tf.Tensor]:
    """Writes `[CLS] first [SEP] second [SEP]`, or `[CLS] first [SEP]`.

    Returns:
        `(input_ids, is_start)`: int32 `[b, S]`; and bool `[b, S]`, True where
        a word or a special token starts.
    """
    position = tf.range(shard.settings.max_seq_length)[None]
    separator, last = tf.split(segments.separators, 2, axis=1)
    is_first = (position > 0) & (position < separator)
    is_maskable = is_first | (position > separator) & (position < last)
    source = tf.where(
        is_first,
        segments.first_from[:, None] + position - 1,
        segments.second_from[:, None] + position - separator - 1,
    )
    row_starts = records["pair_ids"].row_starts()[:, None]
    source = tf.where(is_maskable, tf.cast(source, tf.int64) + row_starts, 0)
    ids = tf.cast(tf.gather(records["pair_ids"].flat_values, source), tf.int32)
    special = tf.where(
        position == 0, shard.special_ids.cls, shard.special_ids.sep
    )
    is_real = is_start = position <= last
    if shard.settings.do_whole_word_mask:
        # Truncation may have cut a word; its rest counts as a word.
        is_start &= ~is_maskable | (position == 1) | (position == separator + 1)
        boundary = tf.gather(records["token_boundary"].flat_values, source)
        is_start |= is_maskable & (boundary > 0)
    # Padding is 0 in every vocabulary, as in the original's records.
    special_or_padding = tf.where(is_real, special, 0)
    return tf.where(is_maskable, ids, special_or_padding), is_start
