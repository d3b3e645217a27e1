"""Fine-tuning records as columns: all values of a field one after the other.

Data flow: records of a task -> [this file] -> columns -> batches, cache file.
Floor: data. NumPy.

Columns hold their values in the smallest type that loses none, so that the
windows of a whole SQuAD fit in memory, or a file of them is quickly mapped.
"""

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from albert_tf.features import ArraySpec

# Records that are gathered before their values are put into columns.
_CHUNK_SIZE = 1024
_SMALL_TYPES = (np.uint8, np.uint16)


@dataclasses.dataclass(frozen=True)
class RecordColumns:
    """Records by number.

    Args:
        specs: The arrays of a record.
        lengths: int32 `[N]`, the length s of each record.
        values: By name of spec, the values of all records, flat.
    """

    specs: tuple[ArraySpec, ...]
    lengths: np.ndarray
    values: Mapping[str, np.ndarray]

    @property
    def num_records(self) -> int:
        """N."""
        return len(self.lengths)

    def padded(
        self, indices: Sequence[int] | np.ndarray, length: int
    ) -> dict[str, np.ndarray]:
        """Returns a batch.

        Args:
            indices: Numbers of its records, B.
            length: S; no record in the batch is longer.

        Returns:
            For each spec an array `[B, *shape]` or `[B, *shape, S]` of the
            spec's type.
        """
        return {
            spec.name: self._pad(spec, indices, length) for spec in self.specs
        }

    def field(self, name: str) -> np.ndarray:
        """Returns an array that is no sequence, of all records: `[N, ...]`."""
        (spec,) = (spec for spec in self.specs if spec.name == name)
        values = self.values[name].reshape(self.num_records, *spec.shape)
        return values.astype(spec.dtype)

    def _pad(
        self, spec: ArraySpec, indices: Sequence[int] | np.ndarray, length: int
    ) -> np.ndarray:
        values = self.values[spec.name]
        size = int(np.prod(spec.shape, dtype=np.int64))
        if not spec.is_sequence:
            rows = values.reshape(self.num_records, *spec.shape)
            return rows[np.asarray(indices)].astype(spec.dtype)
        shape = (len(indices), *spec.shape, length)
        batch = np.full(shape, spec.pad_value, spec.dtype)
        for row, index in enumerate(indices):
            own = int(self.lengths[index])
            start = int(self._starts[index]) * size
            record = values[start : start + own * size]
            batch[row, ..., :own] = record.reshape(*spec.shape, own)
        return batch

    @functools.cached_property
    def _starts(self) -> np.ndarray:
        return np.cumsum(self.lengths, dtype=np.int64) - self.lengths


def collect(
    records: Iterable[Mapping[str, np.ndarray]],
    specs: tuple[ArraySpec, ...],
    *,
    max_seq_length: int,
) -> RecordColumns:
    """Puts records into columns.

    Args:
        records: As a task makes them.
        specs: Their arrays; at least one is a sequence.
        max_seq_length: Which no record may exceed.

    Raises:
        ValueError: There is no record; or one is not as the specs say.
    """
    chunks: dict[str, list[np.ndarray]] = {spec.name: [] for spec in specs}
    lengths: list[int] = []
    waiting: list[dict[str, np.ndarray]] = []
    for number, record in enumerate(records):
        length = _check_record(number, record, specs, max_seq_length)
        lengths.append(length)
        waiting.append(dict(record))
        if len(waiting) == _CHUNK_SIZE:
            _flush(waiting, specs, chunks)
    _flush(waiting, specs, chunks)
    if not lengths:
        raise ValueError(
            "The examples give no record. Check that the files hold examples."
        )
    return RecordColumns(
        specs=specs,
        lengths=np.array(lengths, np.int32),
        # Of the smallest type that holds what all the parts hold.
        values={name: np.concatenate(p) for name, p in chunks.items()},
    )


def _flush(
    waiting: list[dict[str, np.ndarray]],
    specs: tuple[ArraySpec, ...],
    chunks: dict[str, list[np.ndarray]],
) -> None:
    for spec in specs if waiting else ():
        rows = [np.ravel(record[spec.name]) for record in waiting]
        values = np.concatenate(rows).astype(spec.dtype)
        chunks[spec.name].append(_smallest(values))
    waiting.clear()


def _smallest(values: np.ndarray) -> np.ndarray:
    """Returns the values in the smallest type that holds them exactly."""
    for dtype in _SMALL_TYPES:
        limits = np.iinfo(dtype)
        low, high = values.min(initial=0), values.max(initial=0)
        if limits.min <= low and high <= limits.max:
            small = values.astype(dtype)
            if np.array_equal(small, values):
                return small
    return values


def _check_record(
    number: int,
    record: Mapping[str, np.ndarray],
    specs: tuple[ArraySpec, ...],
    max_seq_length: int,
) -> int:
    """Returns the length of a record that is as the specs say."""
    names = {spec.name for spec in specs}
    if set(record) != names:
        raise ValueError(
            f"Record {number} has the arrays {', '.join(sorted(record))}; "
            f"wanted: {', '.join(sorted(names))}."
        )
    length = None
    for spec in specs:
        shape = np.shape(record[spec.name])
        wanted: tuple[int | None, ...] = spec.shape
        if spec.is_sequence:
            if length is None and shape:
                length = shape[-1]
            wanted = (*spec.shape, length)
        if shape != wanted:
            raise ValueError(
                f"Record {number}: {spec.name!r} has the shape {shape}, "
                f"wanted {wanted}."
            )
    if not 1 <= (length or 0) <= max_seq_length:
        raise ValueError(
            f"Record {number} has {length} pieces; wanted 1 to "
            f"max_seq_length={max_seq_length}."
        )
    return int(length or 0)
