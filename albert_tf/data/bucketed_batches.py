"""Batches records of similar length, to need little padding.

Data flow: records of a task -> columns -> [this file] -> batches for the loop.
NumPy and `tf.data`; `record_columns` makes the columns.

Training: the endless stream of `example_order.TrainingOrder` is cut into
pools of up to `POOL_SIZE` global batches, but no longer than an epoch. The
examples of a pool are sorted by length and cut into batches, which come in a
random order. So the batch of a step is a pure function of seed and step, and
as long as its longest record, rounded up. Where two epochs meet in a pool,
an example may occur twice, even in one batch.
"""

import functools
import weakref

import numpy as np
import tensorflow as tf

from albert_tf.data import example_order
from albert_tf.data.example_order import InputShard
from albert_tf.data.record_columns import EvaluationPlan, Padding, RecordColumns

POOL_SIZE = 32
# Separates the draws of pools from the draws of epochs.
_POOL_STREAM = 1


class BucketedOrder:
    """Decides which records a training step takes, from seed and step alone.

    `lengths`, `[N]`, has the length of each record; `batch_size` is B, the
    examples of a step over all replicas.
    """

    def __init__(
        self, lengths: np.ndarray, *, batch_size: int, seed: int
    ) -> None:
        self._lengths = lengths
        self._seed = seed
        self.batch_size = batch_size
        self.pool_size = min(POOL_SIZE, max(1, len(lengths) // batch_size))
        self._order = example_order.TrainingOrder(len(lengths), seed)
        self._pool = functools.lru_cache(maxsize=2)(self._make_pool)

    def batch(self, step: int) -> np.ndarray:
        """Returns the numbers of the records of a step, int64 `[B]`."""
        pool, position = divmod(step, self.pool_size)
        return np.asarray(self._pool(pool)[position])

    def _make_pool(self, pool: int) -> np.ndarray:
        size = self.pool_size * self.batch_size
        _, indices = self._order(np.arange(pool * size, (pool + 1) * size))
        indices = indices[np.argsort(self._lengths[indices], kind="stable")]
        batches = indices.reshape(self.pool_size, self.batch_size)
        rng = example_order.keyed_rng(self._seed, _POOL_STREAM << 32 | pool)
        return rng.permutation(batches)


def training_dataset(
    columns: RecordColumns,
    order: BucketedOrder,
    shard: InputShard,
    *,
    padding: Padding,
    start_step: int = 0,
) -> tf.data.Dataset:
    """Returns the endless training batches from a step on.

    Each batch is for one replica: replica 0, 1, ... of `start_step`, then of
    the next step, padded alike on all replicas. A batch is a dict of the
    records' arrays, `[b, *shape]` or `[b, *shape, S]`, and
    `example_weights` float32 `[b]`, all 1.
    """
    num_rows = shard.num_rows(order.batch_size)

    def make(delivery: int) -> dict[str, np.ndarray]:
        step, replica = shard.step_and_replica(delivery)
        indices = order.batch(step)
        length = padding.length(int(columns.lengths[indices].max()))
        rows = indices[replica * num_rows : (replica + 1) * num_rows]
        weights = np.ones(num_rows, np.float32)
        return columns.padded(rows, length) | {"example_weights": weights}

    specs = _specs(columns, num_rows, padding.static_length)
    return example_order.ahead(
        example_order.deliver(shard, make, specs, start_step=start_step)
    )


def evaluation_dataset(
    columns: RecordColumns,
    plan: EvaluationPlan,
    shard: InputShard,
    *,
    padding: Padding,
) -> tf.data.Dataset:
    """Returns the batches of a plan, in its order.

    They have the form of batches of `training_dataset`; `RecordColumns.batch`
    makes them. The `plan` was made with the same `padding`.

    The caller keeps `columns` and `plan` until all batches are read. The
    dataset does not: TensorFlow keeps its functions until the program ends.
    """
    weak_columns: RecordColumns = weakref.proxy(columns)
    weak_plan: EvaluationPlan = weakref.proxy(plan)

    def make(delivery: int) -> dict[str, np.ndarray]:
        step, replica = shard.step_and_replica(delivery)
        batch = weak_plan[step]
        num_rows = shard.num_rows(batch.num_rows)
        rows = slice(replica * num_rows, (replica + 1) * num_rows)
        return weak_columns.batch(batch, rows)

    length = padding.static_length
    is_fixed = plan and length and not padding.is_compiled
    num_rows = shard.num_rows(plan[0].num_rows) if is_fixed else None
    specs = _specs(columns, num_rows, length)
    return example_order.ahead(
        example_order.deliver(shard, make, specs, end_step=len(plan))
    )


def _specs(
    columns: RecordColumns, rows: int | None, length: int | None
) -> dict[str, tf.TensorSpec]:
    """Returns types and shapes of a batch; None is a size that varies."""
    specs = {"example_weights": tf.TensorSpec([rows], tf.float32)}
    for spec in columns.specs:
        shape = [rows, *spec.shape, *([length] if spec.is_sequence else [])]
        specs[spec.name] = tf.TensorSpec(shape, spec.dtype)
    return specs
