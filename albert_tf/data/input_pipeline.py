"""Reads records as batches of pretraining examples.

Data flow: record source -> [this file] -> batches for the training loop.
`tf.data`. Letters: b rows, S tokens, P prediction slots.

`example_order.py` has the order of the examples; `graph_reading.py` has another
one, by operations of the graph alone. Nothing here has a state: a dataset that
starts at an example delivers the batches of a dataset that reached it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf import features, registry
from albert_tf.data import example_order, graph_masking
from albert_tf.data.example_order import InputShard
from albert_tf.data.record_source import RecordSource

Batch = dict[str, tf.Tensor]


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
        start_example: Position in the stream of the first example to deliver.
        num_packed: Number of equal parts of a replica's batch whose sequences
            share rows; 0 if none do.
        by_files: Whether files are read one after the other, by operations of
            the graph alone; see `graph_reading.py`.

    Returns:
        A dataset of batches for one replica each: replica 0, 1, ... of the
        first step, then of the next step. A batch is a dict of
        `input_ids`, `input_mask`, `segment_ids` int32 `[b, S]`,
        `masked_lm_positions`, `masked_lm_ids` int32 `[b, P]`,
        `masked_lm_weights` float32 `[b, P]`, and `sentence_order_labels`
        int32 `[b]`, where b is B divided by the number of replicas; with
        `num_packed` also `packed_at`, see `packing.py`.
    """

    def to_batch(read: Batch) -> Batch:
        batch = _to_batch(source, seed, read)
        if num_packed:
            packing = registry.load(registry.RECORD_READING["packed"])
            places = packing.packed_at(batch["input_mask"], num_packed)
            batch["packed_at"] = places
        return batch

    if by_files:
        examples = _graph_reading().training_examples(
            source,
            shard,
            batch_size=global_batch_size,
            seed=seed,
            start_example=start_example,
        )
    else:
        order = example_order.TrainingOrder(source.num_records, seed)
        examples = _examples(
            source, order, shard, global_batch_size, start_example
        )
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

    Dynamic masks are always drawn for epoch 0 and seed 0, so that evaluations
    can be compared.

    For arguments and batches, see `training_dataset`. At most `max_steps` are
    delivered; the batches are the same `by_files`. They have one more key,
    `example_weights` float32 `[b]`, 1 for an example and 0 for a row that fills
    up the last step. The `masked_lm_weights` of such a row are 0, too.
    """
    num_steps = -(-source.num_records // batch_size)
    if max_steps is not None:
        num_steps = min(num_steps, max_steps)

    def in_file_order(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.divmod(positions, source.num_records)

    if by_files:
        examples = _graph_reading().evaluation_examples(
            source, shard, batch_size=batch_size, num_steps=num_steps
        )
    else:
        examples = _examples(
            source, in_file_order, shard, batch_size, end_step=num_steps
        )

    def to_weighted_batch(read: Batch) -> Batch:
        batch = _to_batch(source, 0, read)
        # After the last record, the step is filled up from the first one on.
        weights = tf.cast(read["epochs"] == 0, tf.float32)
        batch["masked_lm_weights"] *= weights[:, None]
        return batch | {"example_weights": weights}

    return _make_batches(examples, to_weighted_batch)


def _graph_reading() -> Any:
    return registry.load(registry.RECORD_READING["by_files"])


def _examples(
    source: RecordSource,
    order: example_order.Order,
    shard: InputShard,
    batch_size: int,
    start_example: int = 0,
    end_step: int | None = None,
) -> tf.data.Dataset:
    """Returns serialized examples, their epochs and numbers, all `[b]`."""

    def read(delivery: int) -> dict[str, np.ndarray]:
        positions = shard.positions(delivery, batch_size) + start_example
        epochs, indices = order(positions)
        records = np.array(source.get(indices), object)
        return {"records": records, "epochs": epochs, "indices": indices}

    types = {"records": tf.string, "epochs": tf.int64, "indices": tf.int64}
    rows = [shard.num_rows(batch_size)]
    specs = {name: tf.TensorSpec(rows, dtype) for name, dtype in types.items()}
    return example_order.deliver(shard, read, specs, end_step=end_step)


def _make_batches(
    examples: tf.data.Dataset, to_batch: Callable[[Batch], Batch]
) -> tf.data.Dataset:
    # Autograph finds nothing to convert, in seconds.
    to_batch = tf.autograph.experimental.do_not_convert(to_batch)
    return example_order.ahead(
        examples.map(to_batch, num_parallel_calls=tf.data.AUTOTUNE)
    )


def _to_batch(source: RecordSource, seed: int, read: Batch) -> Batch:
    settings = source.shard.settings
    static_features = features.static_pretraining_features(
        max_seq_length=settings.max_seq_length,
        max_predictions=settings.num_prediction_slots,
    )
    records = read["records"]
    if settings.masking == "dynamic":
        batch = graph_masking.draw_batch(
            _parse(records, features.dynamic_pretraining_features()),
            epochs=read["epochs"],
            indices=read["indices"],
            seed=seed,
            shard=source.shard,
        )
    else:
        batch = _parse(records, static_features)
    rows, shaped = records.shape[0], {}
    for feature in static_features:
        if feature.is_read:
            is_label = feature.name == "sentence_order_labels"
            shape = [rows] if is_label else [rows, feature.length]
            dtype = tf.int32 if feature.dtype == "int64" else tf.float32
            tensor = tf.reshape(batch[feature.name], shape)
            shaped[feature.name] = tf.cast(tensor, dtype)
    return shaped


def _parse(records: tf.Tensor, fields: Sequence[features.Feature]) -> Batch:
    """Parses serialized examples; fields of variable length become ragged."""
    read = [field for field in fields if field.is_read]
    kinds = {
        field.record_name: tf.io.RaggedFeature(
            field.dtype, row_splits_dtype=tf.int64
        )
        if field.length is None
        else tf.io.FixedLenFeature([field.length], field.dtype)
        for field in read
    }
    parsed = tf.io.parse_example(records, kinds)
    return {field.name: parsed[field.record_name] for field in read}
