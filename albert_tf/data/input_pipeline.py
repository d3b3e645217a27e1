"""Reads records as batches of pretraining examples.

Data flow: record source -> [this file] -> batches for the training loop.
`tf.data`. Letters: b rows, S tokens, P prediction slots.

The order is that of `example_order.py`, or, by operations of the graph alone,
that of `graph_reading.py`. Nothing here has a state: a dataset that starts at
an example delivers the batches of one that reached it.
Static records are batches as they are; dynamic ones are laid out here, and
masked by `graph_masking.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf import features
from albert_tf.data import example_order, graph_masking, graph_reading
from albert_tf.data.example_order import InputShard
from albert_tf.data.record_source import RecordSource
from albert_tf.data.shards import Shard

Batch = dict[str, tf.Tensor]
Pairs = Mapping[str, tf.Tensor | tf.RaggedTensor]

_EVALUATION_SEED = 0
_SWAP_PROBABILITY = 0.5


def training_dataset(
    source: RecordSource,
    shard: InputShard,
    *,
    global_batch_size: int,
    seed: int,
    start_example: int = 0,
    num_packed: int = 0,
    by_files: bool = False,
) -> tf.data.Dataset:
    """Returns the endless training batches from an example on.

    Args:
        source: The records.
        shard: Which part of each step this pipeline delivers.
        global_batch_size: B, examples of a step over all replicas.
        seed: Seed of the order and of dynamic masks.
        start_example: Place in the stream of the first example to deliver.
        num_packed: Number of equal parts of a replica's batch whose sequences
            share rows; 0 if none do.
        by_files: Whether files are read one after the other, by operations of
            the graph alone; see `graph_reading.py`.

    Returns:
        A dataset of batches for one replica each: replica 0, 1, ... of the
        first step, then those of the next step. A batch is a dict of
        `input_ids`, `input_mask`, `segment_ids` int32 `[b, S]`,
        `masked_lm_positions`, `masked_lm_ids` int32 `[b, P]`,
        `masked_lm_weights` float32 `[b, P]`, and `sentence_order_labels`
        int32 `[b]`, where b is B divided by the number of replicas; with
        `num_packed` also `packed_at` int32 `[b]`, where in the rows of its
        part each sequence starts.
    """

    def to_batch(read: Batch) -> Batch:
        batch = _to_batch(source, seed, read)
        if num_packed:
            batch["packed_at"] = _packed_at(batch["input_mask"], num_packed)
        return batch

    if by_files:
        examples = graph_reading.training_examples(
            source,
            shard,
            batch_size=global_batch_size,
            seed=seed,
            start_example=start_example,
        )
        return _make_batches(examples, to_batch)
    order = example_order.TrainingOrder(source.num_records, seed)

    def from_start(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return order(places + start_example)

    examples = _examples(source, from_start, shard, global_batch_size)
    return _make_batches(examples, to_batch)


def evaluation_dataset(
    source: RecordSource,
    shard: InputShard,
    *,
    batch_size: int,
    max_steps: int | None = None,
    by_files: bool = False,
) -> tf.data.Dataset:
    """Returns batches that contain every record once, in order.

    Dynamic masks are always those of epoch 0 and seed 0, so that evaluations
    can be compared.

    For arguments, see `training_dataset`. At most `max_steps` are delivered;
    the batches are the same `by_files`.

    Returns:
        A dataset of batches for one replica each, as `training_dataset`
        delivers them, with one more key: `example_weights` float32 `[b]`, 1
        for an example and 0 for a row that fills up the last step. The
        `masked_lm_weights` of such a row are 0, too.
    """
    num_steps = -(-source.num_records // batch_size)
    if max_steps is not None:
        num_steps = min(num_steps, max_steps)

    def in_file_order(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.divmod(places, source.num_records)

    if by_files:
        examples = graph_reading.evaluation_examples(
            source, shard, batch_size=batch_size, num_steps=num_steps
        )
    else:
        examples = _examples(
            source, in_file_order, shard, batch_size, end_step=num_steps
        )

    def to_weighted_batch(read: Batch) -> Batch:
        batch = _to_batch(source, _EVALUATION_SEED, read)
        # After the last record, the step is filled up from the first one on.
        weights = tf.cast(read["epochs"] == 0, tf.float32)
        batch["masked_lm_weights"] *= weights[:, None]
        return batch | {"example_weights": weights}

    return _make_batches(examples, to_weighted_batch)


def _examples(
    source: RecordSource,
    order: example_order.Order,
    shard: InputShard,
    batch_size: int,
    end_step: int | None = None,
) -> tf.data.Dataset:
    """Returns serialized examples, their epochs and numbers, all `[b]`."""

    def read(delivery: int) -> dict[str, np.ndarray]:
        epochs, indices = order(shard.positions(delivery, batch_size))
        records = np.array(source.get(indices), object)
        return {"records": records, "epochs": epochs, "indices": indices}

    types = {"records": tf.string, "epochs": tf.int64, "indices": tf.int64}
    rows = [shard.num_rows(batch_size)]
    specs = {name: tf.TensorSpec(rows, dtype) for name, dtype in types.items()}
    return example_order.deliver(shard, read, specs, end_step=end_step)


def _make_batches(
    examples: tf.data.Dataset, to_batch: Callable[[Batch], Batch]
) -> tf.data.Dataset:
    options = tf.data.Options()
    # Batches are made in parallel, so each needs only one thread.
    options.threading.max_intra_op_parallelism = 1
    batches = examples.map(
        # Autograph finds nothing to convert, in seconds.
        tf.autograph.experimental.do_not_convert(to_batch),
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    return example_order.ahead(batches).with_options(options)


def _to_batch(source: RecordSource, seed: int, read: Batch) -> Batch:
    settings = source.shard.settings
    static_features = features.static_pretraining_features(
        max_seq_length=settings.max_seq_length,
        max_predictions=settings.num_prediction_slots,
    )
    records = read["records"]
    if settings.masking == "dynamic":
        batch = draw_batch(
            _parse(records, features.dynamic_pretraining_features()),
            epochs=read["epochs"],
            indices=read["indices"],
            seed=seed,
            shard=source.shard,
        )
    else:
        batch = _to_static_batch(_parse(records, static_features))
    rows = records.shape[0]
    return {
        feature.name: tf.ensure_shape(
            batch[feature.name],
            [rows]
            if feature.name == "sentence_order_labels"
            else [rows, feature.length],
        )
        for feature in static_features
        if feature.name in batch
    }


def _packed_at(input_mask: tf.Tensor, num_parts: int) -> tf.Tensor:
    rows, row_length = input_mask.shape
    lengths = tf.reduce_max(input_mask * tf.range(1, row_length + 1), axis=1)
    parts = tf.reshape(lengths, [num_parts, rows // num_parts])
    places = first_fit_decreasing(parts, row_length)
    return tf.reshape(places, [rows])


def first_fit_decreasing(lengths: tf.Tensor, row_length: int) -> tf.Tensor:
    """Places sequences in rows: the longest first, each in the first with room.

    Source: Johnson 1973, "Near-optimal bin packing algorithms": first-fit
    decreasing. Letters: n batches of m sequences each.

    Args:
        lengths: Int32 `[n, m]`, tokens of each sequence, 1 to `row_length`.
        row_length: S, tokens that a row has room for.

    Returns:
        Int32 `[n, m]`, the place of each sequence's first token among those of
        the rows of its batch, which are numbered row by row.
    """
    num_batches, num_sequences = lengths.shape
    order = tf.argsort(lengths, axis=1, direction="DESCENDING", stable=True)
    ordered = tf.gather(lengths, order, batch_dims=1)
    batches = tf.range(num_batches)

    def place(
        index: tf.Tensor, room: tf.Tensor, places: tf.TensorArray
    ) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray]:
        length = ordered[:, index]  # [n]
        fits = tf.cast(room >= length[:, None], tf.int32)
        row = tf.argmax(fits, axis=1, output_type=tf.int32)
        chosen = tf.stack([batches, row], axis=1)
        taken = row_length - tf.gather_nd(room, chosen)
        room = tf.tensor_scatter_nd_sub(room, chosen, length)
        places = places.write(index, row * row_length + taken)
        return index + 1, room, places

    _, _, places = tf.while_loop(
        lambda index, *_: index < num_sequences,
        place,
        (
            tf.constant(0),
            tf.fill([num_batches, num_sequences], row_length),
            tf.TensorArray(tf.int32, num_sequences),
        ),
    )
    by_length = tf.transpose(places.stack())  # [n, m]
    back = tf.argsort(order, axis=1)
    return tf.gather(by_length, back, batch_dims=1)


def _parse(records: tf.Tensor, fields: Sequence[features.Feature]) -> Batch:
    """Parses serialized examples; fields of variable length become ragged."""
    parsed = tf.io.parse_example(
        records,
        {
            field.record_name: tf.io.RaggedFeature(
                tf.as_dtype(field.dtype), row_splits_dtype=tf.int64
            )
            if field.length is None
            else tf.io.FixedLenFeature([field.length], tf.as_dtype(field.dtype))
            for field in fields
            if field.is_read
        },
    )
    return {
        field.name: parsed[field.record_name]
        for field in fields
        if field.is_read
    }


def _to_static_batch(parsed: Batch) -> Batch:
    batch = {
        name: tf.cast(values, tf.int32) if values.dtype.is_integer else values
        for name, values in parsed.items()
    }
    labels = tf.squeeze(batch["sentence_order_labels"], axis=1)
    return batch | {"sentence_order_labels": labels}


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


def draw_batch(
    pairs: Pairs,
    *,
    epochs: tf.Tensor,
    indices: tf.Tensor,
    seed: int,
    shard: Shard,
) -> Batch:
    """Draws segment order and masks for a batch of unmasked pairs.

    Args:
        pairs: The fields of `features.dynamic_pretraining_features`:
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
    labels = tf.cast(tf.squeeze(pairs["pair_label"], 1), tf.int32)
    swapped = _draw_swaps(labels, keys, shard.settings.pair_objective)
    segments = _order_segments(pairs, swapped)
    input_ids, is_start = _lay_out(pairs, segments, shard)
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


def _order_segments(pairs: Pairs, swapped: tf.Tensor) -> _Segments:
    size_a = tf.cast(tf.squeeze(pairs["segment_a_length"], 1), tf.int32)
    size_b = tf.cast(pairs["pair_ids"].row_lengths(), tf.int32) - size_a
    return _Segments(
        first_from=tf.where(swapped, size_a, 0),
        first_size=tf.where(swapped, size_b, size_a),
        second_from=tf.where(swapped, 0, size_a),
        second_size=tf.where(swapped, size_a, size_b),
    )


def _lay_out(
    pairs: Pairs, segments: _Segments, shard: Shard
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
    row_starts = pairs["pair_ids"].row_starts()[:, None]
    source = tf.where(is_maskable, tf.cast(source, tf.int64) + row_starts, 0)
    ids = tf.cast(tf.gather(pairs["pair_ids"].flat_values, source), tf.int32)
    special = tf.where(
        position == 0, shard.special_ids.cls, shard.special_ids.sep
    )
    is_real = is_start = position <= last
    if shard.settings.do_whole_word_mask:
        # Truncation may have cut a word; its rest counts as a word.
        is_start &= ~is_maskable | (position == 1) | (position == separator + 1)
        boundary = tf.gather(pairs["token_boundary"].flat_values, source)
        is_start |= is_maskable & (boundary > 0)
    # Padding is 0 in every vocabulary, as in the original's records.
    special_or_padding = tf.where(is_real, special, 0)
    return tf.where(is_maskable, ids, special_or_padding), is_start
