"""Batches records of similar length, to need little padding.

Data flow: records of a task -> columns -> [this file] -> batches for the loop.
NumPy and `tf.data`.

A column holds the values of one array of all records, one record after the
other (ragged), in the smallest type that holds them exactly, so that the
windows of a whole SQuAD fit in memory.

Training: the endless stream of `example_order.TrainingOrder` is cut into
pools of up to `POOL_SIZE` global batches, but no longer than an epoch. The
examples of a pool are sorted by length and cut into batches, which come in a
random order. So the batch of a step is a pure function of seed and step, and
as long as its longest record, rounded up. Where two epochs meet in a pool,
an example may occur twice, even in one batch.

Evaluation: every record occurs once, see `plan_evaluation`.
"""

import collections
import dataclasses
import functools
import hashlib
import itertools
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.data import example_order
from albert_tf.data.example_order import InputShard
from albert_tf.features import ArraySpec

# Records that are collected before their values are put into columns.
_CHUNK_SIZE = 1024
POOL_SIZE = 32
_LARGEST_BUCKET_WIDTH = 8
# Tensor cores of a GPU multiply by eights.
GPU_BUCKET_WIDTH = 8
# A batch of an evaluation uses at least a fourth of its budget.
_LEAST_PART = 4
# Separates the draws of pools from the draws of epochs.
_POOL_STREAM = 1


@dataclasses.dataclass(frozen=True)
class RecordColumns:
    """Fine-tuning records in columns."""

    specs: tuple[ArraySpec, ...]
    lengths: np.ndarray  # int32 [N], the length s of each record
    values: Mapping[str, np.ndarray]  # by the name of each spec, flat

    @property
    def num_records(self) -> int:
        """The number of records, N."""
        return len(self.lengths)

    def padded(
        self, indices: Sequence[int] | np.ndarray, length: int
    ) -> dict[str, np.ndarray]:
        """Returns the records with these B numbers as a batch.

        For each spec it has an array `[B, *shape]` or `[B, *shape, S]` of the
        spec's type. S is `length`; no record in the batch is longer.
        """
        return {
            spec.name: self._pad(spec, indices, length) for spec in self.specs
        }

    def field(self, name: str) -> np.ndarray:
        """Returns the values of a non-sequence array: `[N, *shape]`."""
        (spec,) = (spec for spec in self.specs if spec.name == name)
        return self._pad(spec, np.arange(self.num_records), length=0)

    @property
    def digest(self) -> str:
        """A digest of all records."""
        digest = hashlib.sha256(self.lengths.tobytes())
        for name in sorted(self.values):
            digest.update(name.encode())
            digest.update(self.values[name].tobytes())
        return digest.hexdigest()

    def _pad(
        self, spec: ArraySpec, indices: Sequence[int] | np.ndarray, length: int
    ) -> np.ndarray:
        values = self.values[spec.name]
        width = int(np.prod(spec.shape, dtype=np.int64))
        if not spec.is_sequence:
            rows = values.reshape(self.num_records, *spec.shape)
            return np.asarray(rows[np.asarray(indices)], spec.dtype)
        shape = (len(indices), *spec.shape, length)
        batch = np.full(shape, spec.pad_value, spec.dtype)
        for row, index in enumerate(indices):
            size = int(self.lengths[index])
            start = int(self._starts[index]) * width
            record = values[start : start + size * width]
            batch[row, ..., :size] = record.reshape(*spec.shape, size)
        return batch

    @functools.cached_property
    def _starts(self) -> np.ndarray:
        ends = np.cumsum(self.lengths, dtype=np.int64)
        return np.asarray(ends - self.lengths)


def collect(
    records: Iterable[Mapping[str, np.ndarray]],
    specs: tuple[ArraySpec, ...],
    *,
    max_seq_length: int,
) -> RecordColumns:
    """Puts records into columns; at least one of their arrays is a sequence."""
    chunks: dict[str, list[np.ndarray]] = {spec.name: [] for spec in specs}
    sequences = [spec.name for spec in specs if spec.is_sequence]
    lengths: list[int] = []
    left = iter(records)
    while chunk := list(itertools.islice(left, _CHUNK_SIZE)):
        for record in chunk:
            sizes = {np.shape(record[name])[-1] for name in sequences}
            if len(sizes) != 1 or not 1 <= min(sizes) <= max_seq_length:
                raise ValueError(
                    f"Record {len(lengths)} has {sorted(sizes)} tokens; "
                    f"expected one length of 1 to {max_seq_length=}."
                )
            lengths += sizes
        for spec in specs:
            values = np.concatenate([np.ravel(r[spec.name]) for r in chunk])
            chunks[spec.name].append(_smallest(values.astype(spec.dtype)))
    if not lengths:
        raise ValueError(
            "The examples give no record. Check that the files contain "
            "examples."
        )
    return RecordColumns(
        specs=specs,
        lengths=np.array(lengths, np.int32),
        # Concatenating gives the smallest type that holds all chunks.
        values={name: np.concatenate(p) for name, p in chunks.items()},
    )


def _smallest(values: np.ndarray) -> np.ndarray:
    """Returns the values in the smallest type that holds them exactly."""
    for dtype in (np.uint8, np.uint16):
        with np.errstate(invalid="ignore"):
            small = values.astype(dtype)
        if np.array_equal(small, values):
            return small
    return values


@dataclasses.dataclass(frozen=True, kw_only=True)
class Padding:
    """The lengths that batches are padded to: multiples of `bucket_width`.

    Without one, the multiples grow with the length, from 1 to 8, so that no
    batch is more than a sixteenth longer than needed. A width of
    `max_seq_length` gives all the same shape, as TPUs need it. With
    `is_compiled`, where shapes are compiled, all of a length have as many rows.
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


class BucketedOrder:
    """Decides which records a training step takes, from seed and step alone.

    `lengths` are those of the records, `[N]`; `batch_size` is B, the examples
    of a step over all replicas.
    """

    def __init__(
        self, lengths: np.ndarray, *, batch_size: int, seed: int
    ) -> None:
        self._lengths = lengths
        self._seed = seed
        self.batch_size = batch_size
        self.pool_size = min(POOL_SIZE, max(1, len(lengths) // batch_size))
        self._order = example_order.TrainingOrder(len(lengths), seed)
        self._lock = threading.Lock()
        self._pool = functools.lru_cache(maxsize=2)(self._make_pool)

    def batch(self, step: int) -> np.ndarray:
        """Returns the numbers of the records of a step, int64 `[B]`."""
        pool, position = divmod(step, self.pool_size)
        with self._lock:
            return np.asarray(self._pool(pool)[position])

    def _make_pool(self, pool: int) -> np.ndarray:
        size = self.pool_size * self.batch_size
        _, indices = self._order(np.arange(pool * size, (pool + 1) * size))
        indices = indices[np.argsort(self._lengths[indices], kind="stable")]
        batches = indices.reshape(self.pool_size, self.batch_size)
        rng = example_order.keyed_rng(self._seed, _POOL_STREAM << 32 | pool)
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

    `lengths` are those of the records, `[N]`; `batch_size` is for batches of
    the largest length: shorter batches have more rows, with the same budget for
    rows times length. All rows are multiples of `num_replicas`.
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
        if not padding.is_compiled and padding.static_length is None:
            # Batches of a length may have different numbers of rows.
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

    Its batches are for one replica each: replica 0, 1, ... of `start_step`,
    then those of the next step, padded alike on all replicas. A batch is a dict
    of the records' arrays, `[b, *shape]` or `[b, *shape, S]`, and
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

    They are as those of `training_dataset`, but `example_weights` is 0 for a
    row that fills the batch up, which repeats its first record. The `plan` was
    made with the same `padding`.

    The caller keeps `columns` and `plan` until all batches are read. The
    dataset does not: TensorFlow keeps its functions until the program ends.
    """
    weak_columns: RecordColumns = weakref.proxy(columns)
    weak_plan: EvaluationPlan = weakref.proxy(plan)

    def make(delivery: int) -> dict[str, np.ndarray]:
        step, replica = shard.step_and_replica(delivery)
        batch = weak_plan[step]
        num_rows = shard.num_rows(batch.num_rows)
        rows = np.arange(replica * num_rows, (replica + 1) * num_rows)
        is_real = rows < len(batch.indices)
        indices = batch.indices[np.where(is_real, rows, 0)]
        weights = is_real.astype(np.float32)
        padded = weak_columns.padded(indices, batch.length)
        return padded | {"example_weights": weights}

    length = padding.static_length
    num_rows = shard.num_rows(plan[0].num_rows) if plan and length else None
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
