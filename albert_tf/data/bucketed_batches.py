"""Batches records of similar length, to need little padding.

Data flow: columns of records -> [this file] -> batches for the loop.
NumPy and `tf.data`.

Training: the endless stream of `example_order.TrainingOrder` is cut into
windows of up to `WINDOW_SIZE` global batches, but no longer than an epoch. The
examples of a window are sorted by length and cut into batches, which come in a
random order. So the batch of a step is a pure function of seed and step, and
as long as its longest record, rounded up. Where two epochs meet in a window,
an example may occur twice, even in one batch.

Evaluation: all records are sorted by length and batched by a budget of tokens,
so that short records come in larger batches. Every record occurs once.
Unless shapes are compiled, a batch ends where shorter records begin.
"""

import collections
import dataclasses
import functools
import threading
import weakref

import numpy as np
import tensorflow as tf

from albert_tf.data import example_order
from albert_tf.data.example_order import InputShard
from albert_tf.data.record_columns import RecordColumns

WINDOW_SIZE = 32
_LARGEST_BUCKET_WIDTH = 8
# A batch of an evaluation uses at least a fourth of its budget.
_LEAST_PART = 4
# Separates the draws of windows from the draws of epochs.
_WINDOW_STREAM = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Padding:
    """The lengths that batches are padded to: multiples of `bucket_width`.

    Without one, the multiples grow with the length, from 1 to 8, so that no
    batch is more than a sixteenth longer than needed. Pass one of
    `max_seq_length` or more where shapes must not change, as on a TPU; and
    `is_compiled` where every shape is compiled, to have as many rows in all
    batches of a length.
    """

    max_seq_length: int
    bucket_width: int | None
    is_compiled: bool = False

    def length(self, longest: int) -> int:
        """Returns the padded length of a batch, given its longest record.

        >>> Padding(max_seq_length=50, bucket_width=16).length(17)
        32
        """
        width = self.bucket_width or min(
            1 << max(0, longest.bit_length() - 5), _LARGEST_BUCKET_WIDTH
        )
        return min(-(-longest // width) * width, self.max_seq_length)

    @property
    def static_length(self) -> int | None:
        """The length of all batches, or None if lengths differ."""
        width = self.bucket_width or 1
        return self.max_seq_length if width >= self.max_seq_length else None

    @property
    def rows_vary(self) -> bool:
        """Whether batches of a length may have different numbers of rows."""
        return not self.is_compiled and self.static_length is None


class BucketedOrder:
    """Decides which records a training step takes, from seed and step alone.

    Args:
        lengths: Lengths of the records, `[N]`.
        batch_size: B, examples of a step over all replicas.
        seed: Seed of the order.
    """

    def __init__(
        self, lengths: np.ndarray, *, batch_size: int, seed: int
    ) -> None:
        self._lengths = lengths
        self._seed = seed
        self.batch_size = batch_size
        self.window_size = min(WINDOW_SIZE, max(1, len(lengths) // batch_size))
        self._order = example_order.TrainingOrder(len(lengths), seed)
        self._lock = threading.Lock()
        self._window = functools.lru_cache(maxsize=2)(self._make_window)

    def batch(self, step: int) -> np.ndarray:
        """Returns the numbers of the records of a step, int64 `[B]`."""
        window, place = divmod(step, self.window_size)
        with self._lock:
            return self._window(window)[place]

    def _make_window(self, window: int) -> np.ndarray:
        size = self.window_size * self.batch_size
        places = np.arange(window * size, (window + 1) * size)
        _, indices = self._order(places)
        indices = indices[np.argsort(self._lengths[indices], kind="stable")]
        batches = indices.reshape(self.window_size, self.batch_size)
        rng = example_order.keyed_rng(self._seed, _WINDOW_STREAM << 32 | window)
        return rng.permutation(batches)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationBatch:
    """Records of a batch, by number; the rows beyond them fill it up.

    `length` is S, the length that the batch is padded to.
    """

    indices: np.ndarray
    num_rows: int
    length: int


class EvaluationPlan(list[EvaluationBatch]):
    """The batches of an evaluation, in their order."""

    # Unlike a list, it can be weakly referenced.


def plan_evaluation(
    lengths: np.ndarray,
    *,
    batch_size: int,
    padding: Padding,
    num_replicas: int = 1,
) -> EvaluationPlan:
    """Divides records into batches of similar lengths, the longest first.

    Args:
        lengths: Lengths of the records, `[N]`.
        batch_size: Rows of a batch of the largest length; shorter batches have
            more rows, with the same budget for rows times length.
        padding: How batches are padded.
        num_replicas: The rows of every batch are a multiple of it.

    Raises:
        ValueError: `batch_size` is not a multiple of `num_replicas`.
    """
    example_order.check_batch_size(batch_size, num_replicas)
    budget = batch_size * padding.max_seq_length
    order = np.argsort(-lengths.astype(np.int64), kind="stable")
    padded = [padding.length(length) for length in lengths[order].tolist()]
    num_left = collections.Counter(padded)
    batches, start = EvaluationPlan(), 0
    while start < len(order):
        length = padded[start]
        num_rows = budget // length // num_replicas * num_replicas
        if padding.rows_vary:
            least = num_rows // _LEAST_PART
            wanted = min(max(num_left[length], least), len(order) - start)
            num_rows = min(num_rows, -(-wanted // num_replicas) * num_replicas)
        indices = order[start : start + num_rows]
        batches.append(
            EvaluationBatch(indices=indices, num_rows=num_rows, length=length)
        )
        num_left.subtract(padded[start : start + num_rows])
        start += num_rows
    return batches


def training_dataset(
    columns: RecordColumns,
    order: BucketedOrder,
    shard: InputShard,
    *,
    padding: Padding,
    start_step: int = 0,
) -> tf.data.Dataset:
    """Returns the endless training batches from a step on.

    Steps are padded on all replicas alike.

    Returns:
        A dataset of batches for one replica each: replica 0, 1, ... of
        `start_step`, then those of the next step. A batch is a dict of the
        records' arrays, `[b, *shape]` or `[b, *shape, S]`, and
        `example_weights` float32 `[b]`, all 1.
    """
    num_rows = shard.num_rows(order.batch_size)

    def make(delivery: int) -> dict[str, np.ndarray]:
        step, replica = shard.step_and_replica(delivery)
        indices = order.batch(step)
        length = padding.length(int(columns.lengths[indices].max()))
        own = indices[replica * num_rows : (replica + 1) * num_rows]
        weights = np.ones(num_rows, np.float32)
        return columns.padded(own, length) | {"example_weights": weights}

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

    The caller keeps `columns` and `plan` until all batches are read. The
    dataset does not: TensorFlow keeps its functions until the program ends.

    Args:
        columns: The records.
        plan: The result of `plan_evaluation` with the same `padding`.
        shard: Which part of each batch this pipeline delivers.
        padding: How batches are padded.

    Returns:
        A dataset of batches for one replica each, as `training_dataset`
        delivers them; `example_weights` is 0 for a row that fills the batch
        up, which repeats the first record of the batch.
    """
    kept_columns, kept_plan = weakref.ref(columns), weakref.ref(plan)

    def make(delivery: int) -> dict[str, np.ndarray]:
        columns, plan = kept_columns(), kept_plan()
        if columns is None or plan is None:
            raise ValueError("The records were dropped before they were read.")
        number, replica = shard.step_and_replica(delivery)
        batch = plan[number]
        num_rows = shard.num_rows(batch.num_rows)
        places = np.arange(replica * num_rows, (replica + 1) * num_rows)
        is_real = places < len(batch.indices)
        indices = batch.indices[np.where(is_real, places, 0)]
        weights = is_real.astype(np.float32)
        padded = columns.padded(indices, batch.length)
        return padded | {"example_weights": weights}

    length = padding.static_length
    rows = shard.num_rows(plan[0].num_rows) if plan and length else None
    specs = _specs(columns, rows, length)
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
