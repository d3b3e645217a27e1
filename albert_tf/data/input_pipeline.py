"""Reads records as batches of pretraining examples.

Data flow: record source -> [this file] -> batches for the training loop.
Floor: data. `tf.data`.

The order is that of `example_order.py`. Nothing here has a state: a dataset
that starts at step t delivers the same batches as one that reached step t.
"""

import functools
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from albert_tf import features
from albert_tf.data import example_order, graph_masking
from albert_tf.data.example_order import InputShard
from albert_tf.data.record_source import RecordSource

Batch = dict[str, tf.Tensor]

_PARALLEL_READS = 2
_EVALUATION_SEED = 0


def training_dataset(
    source: RecordSource,
    shard: InputShard,
    *,
    global_batch_size: int,
    seed: int,
    start_step: int = 0,
) -> tf.data.Dataset:
    """Returns the endless training batches from a step on.

    Args:
        source: The records.
        shard: Which part of each step this pipeline delivers.
        global_batch_size: B, examples of a step over all replicas.
        seed: Seed of the order and of dynamic masks.
        start_step: The first step to deliver.

    Returns:
        A dataset of batches for one replica each: replica 0, 1, ... of
        `start_step`, then those of the next step. A batch is a dict of
        `input_ids`, `input_mask`, `segment_ids` int32 `[b, S]`,
        `masked_lm_positions`, `masked_lm_ids` int32 `[b, P]`,
        `masked_lm_weights` float32 `[b, P]`, and `sentence_order_labels`
        int32 `[b]`, where b is B divided by the number of replicas.

    Raises:
        ValueError: B is not a multiple of the number of replicas.
    """
    deliveries = tf.data.Dataset.range(
        start_step * shard.replicas_per_shard, tf.int64.max
    )
    order = example_order.TrainingOrder(source.num_records, seed)
    examples = _read(deliveries, source, shard, global_batch_size, order)
    return _finish(examples, functools.partial(_to_batch, source, seed))


def evaluation_dataset(
    source: RecordSource,
    shard: InputShard,
    *,
    batch_size: int,
    max_steps: int | None = None,
) -> tf.data.Dataset:
    """Returns batches that contain every record once, in order.

    Dynamic masks are always those of epoch 0 and seed 0, so that evaluations
    can be compared.

    Args:
        source: The records.
        shard: Which part of each step this pipeline delivers.
        batch_size: B, examples of a step over all replicas.
        max_steps: Largest number of steps to deliver; None for all.

    Returns:
        A dataset of batches for one replica each, as `training_dataset`
        delivers them, with one more key: `example_weights` float32 `[b]`, 1
        for an example and 0 for a row that fills up the last step. The
        `masked_lm_weights` of such a row are 0, too.

    Raises:
        ValueError: B is not a multiple of the number of replicas.
    """
    num_steps = -(-source.num_records // batch_size)
    if max_steps is not None:
        num_steps = min(num_steps, max_steps)
    deliveries = tf.data.Dataset.range(num_steps * shard.replicas_per_shard)
    order = functools.partial(
        example_order.sequential_order, source.num_records
    )
    examples = _read(deliveries, source, shard, batch_size, order)

    def to_weighted_batch(
        records: tf.Tensor, epochs: tf.Tensor, indices: tf.Tensor
    ) -> Batch:
        batch = _to_batch(source, _EVALUATION_SEED, records, epochs, indices)
        # After the last record, the step is filled up from the first one on.
        weights = tf.cast(epochs == 0, tf.float32)
        batch["masked_lm_weights"] *= weights[:, None]
        return batch | {"example_weights": weights}

    return _finish(examples, to_weighted_batch)


def _read(
    deliveries: tf.data.Dataset,
    source: RecordSource,
    shard: InputShard,
    batch_size: int,
    order: example_order.Order,
) -> tf.data.Dataset:
    """Returns `(serialized examples, epochs, indices)` of each delivery."""
    num_rows = shard.num_rows(batch_size)

    def read(delivery: np.ndarray) -> tuple[np.ndarray, ...]:
        epochs, indices = order(shard.positions(int(delivery), batch_size))
        return np.array(source.get(indices), object), epochs, indices

    def read_in_graph(delivery: tf.Tensor) -> tuple[tf.Tensor, ...]:
        types = (tf.string, tf.int64, tf.int64)
        tensors = tf.numpy_function(read, [delivery], types)
        return tuple(tf.ensure_shape(t, [num_rows]) for t in tensors)

    return deliveries.map(
        read_in_graph, num_parallel_calls=_PARALLEL_READS, deterministic=True
    )


def _finish(
    examples: tf.data.Dataset, to_batch: Callable[..., Batch]
) -> tf.data.Dataset:
    """Converts records to batches, ahead of time and in order."""
    options = tf.data.Options()
    options.deterministic = True
    # Batches are made in parallel, so each needs only one thread.
    options.threading.max_intra_op_parallelism = 1
    # Each pipeline already reads its own share.
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.OFF
    )
    batches = examples.map(to_batch, num_parallel_calls=tf.data.AUTOTUNE)
    return batches.prefetch(tf.data.AUTOTUNE).with_options(options)


def _to_batch(
    source: RecordSource,
    seed: int,
    records: tf.Tensor,
    epochs: tf.Tensor,
    indices: tf.Tensor,
) -> Batch:
    layout = source.layout
    static_features = features.static_pretraining_features(
        max_seq_length=layout.max_seq_length,
        max_predictions=layout.num_prediction_slots,
    )
    if source.sidecar is not None and layout.masking == "dynamic":
        batch = graph_masking.draw_batch(
            _parse(records, features.dynamic_pretraining_features()),
            epochs=epochs,
            indices=indices,
            seed=seed,
            facts=source.sidecar,
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
        },
    )
    return {field.name: parsed[field.record_name] for field in fields}


def _to_static_batch(parsed: Batch) -> Batch:
    batch = {
        name: tf.cast(values, tf.int32) if values.dtype.is_integer else values
        for name, values in parsed.items()
        if name != "token_boundary"
    }
    labels = tf.squeeze(batch["sentence_order_labels"], axis=1)
    return batch | {"sentence_order_labels": labels}
