"""Records of a fine-tuning in columns, and batches of similar length of them.

Data flow: records of a task -> columns -> padded batches. NumPy.

A column holds the values of one array of all records, one record after the
other (ragged), in the smallest type that holds them exactly, so that large data
sets fit in memory. In an evaluation, every record occurs once, see
`plan_evaluation`; `bucketed_batches` has the batches of a training.
"""

import collections
import dataclasses
import functools
import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from albert_tf.features import ArraySpec

# Records that are collected before their values are put into columns.
_CHUNK_SIZE = 1024
_LARGEST_BUCKET_WIDTH = 8
# Tensor cores of a GPU multiply by eights.
GPU_BUCKET_WIDTH = 8
# A batch of an evaluation uses at least a fourth of its budget.
_LEAST_PART = 4


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

    def batch(
        self, planned: "EvaluationBatch", rows: slice = slice(None)
    ) -> dict[str, np.ndarray]:
        """Returns some rows of a planned batch, with `example_weights`.

        Weights are float32 `[B]`: 1, or 0 for a row that fills the batch up
        with a copy of its first record.
        """
        numbers = np.arange(planned.num_rows)[rows]
        is_real = numbers < len(planned.indices)
        indices = planned.indices[np.where(is_real, numbers, 0)]
        weights = is_real.astype(np.float32)
        padded = self.padded(indices, planned.length)
        return padded | {"example_weights": weights}

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
        column = self.values[spec.name]
        width = int(np.prod(spec.shape, dtype=np.int64))
        if not spec.is_sequence:
            rows = column.reshape(self.num_records, *spec.shape)
            return np.asarray(rows[np.asarray(indices)], spec.dtype)
        shape = (len(indices), *spec.shape, length)
        batch = np.full(shape, spec.pad_value, spec.dtype)
        for row, index in enumerate(indices):
            size = int(self.lengths[index])
            start = int(self._starts[index]) * width
            record = column[start : start + size * width]
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
    remaining = iter(records)
    while chunk := list(itertools.islice(remaining, _CHUNK_SIZE)):
        for record in chunk:
            sizes = {np.shape(record[name])[-1] for name in sequences}
            if len(sizes) != 1 or not 1 <= min(sizes) <= max_seq_length:
                raise ValueError(
                    f"Record {len(lengths)} has {sorted(sizes)} tokens; "
                    f"expected one length of 1 to {max_seq_length=}."
                )
            lengths += sizes
        for spec in specs:
            column = np.concatenate([np.ravel(r[spec.name]) for r in chunk])
            chunks[spec.name].append(_smallest(column.astype(spec.dtype)))
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

    Without a width, it grows with the length, from 1 to 8, so that no batch is
    more than a sixteenth longer than needed. A width of `max_seq_length` gives
    all batches the same shape, as TPUs need it. With `is_compiled`, batches of
    the same length have the same number of rows, because each shape is
    compiled; the rows of the last batch of a plan are a power of two.
    """

    max_seq_length: int
    bucket_width: int | None
    is_compiled: bool = False
    min_length: int = 1

    def length(self, longest: int) -> int:
        """Returns the padded length of a batch, given its longest record.

        >>> Padding(max_seq_length=50, bucket_width=16).length(17)
        32
        """
        longest = max(longest, self.min_length)
        width = self.bucket_width or min(
            1 << max(0, longest.bit_length() - 5), _LARGEST_BUCKET_WIDTH
        )
        return min(-(-longest // width) * width, self.max_seq_length)

    @property
    def static_length(self) -> int | None:
        """The length of all batches, or None if lengths differ."""
        width = self.bucket_width or 1
        return self.max_seq_length if width >= self.max_seq_length else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationBatch:
    """Indices of the records in a batch; up to `num_rows`, rows fill it up.

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

    `lengths`, `[N]`, has the length of each record; `batch_size` is for batches
    of the largest length: shorter batches have more rows, with the same budget
    for rows times length. All rows are multiples of `num_replicas`.
    """
    budget = batch_size * padding.max_seq_length
    order = np.argsort(-lengths.astype(np.int64), kind="stable")
    padded = [padding.length(length) for length in lengths[order].tolist()]
    num_left = collections.Counter(padded)
    batches, start = EvaluationPlan(), 0
    while start < len(order):
        length = padded[start]
        num_rows = budget // length // num_replicas * num_replicas
        wanted = len(order) - start
        if padding.is_compiled:
            wanted = 1 << (wanted - 1).bit_length()
        else:
            # Batches of a length may have different numbers of rows.
            least = num_rows // _LEAST_PART
            wanted = min(max(num_left[length], least), wanted)
        if padding.is_compiled or padding.static_length is None:
            num_rows = min(num_rows, -(-wanted // num_replicas) * num_replicas)
        indices = order[start : start + num_rows]
        batches.append(
            EvaluationBatch(indices=indices, num_rows=num_rows, length=length)
        )
        num_left.subtract(padded[start : start + num_rows])
        start += num_rows
    return batches
