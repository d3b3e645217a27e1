"""Fine-tuning records as columns.

Data flow: records of a task -> [this file] -> columns -> batches.

A column holds the values of one array of all records, one record after the
other (ragged), in the smallest type that holds them exactly, so that the
windows of a whole SQuAD fit in memory.
"""

import dataclasses
import functools
import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from albert_tf.features import ArraySpec

# Records that are collected before their values are put into columns.
_CHUNK_SIZE = 1024
_SMALL_TYPES = (np.uint8, np.uint16)


@dataclasses.dataclass(frozen=True)
class RecordColumns:
    """Fine-tuning records in columns.

    `lengths`, int32 `[N]`, has the length s of each record; `values`, for the
    name of each spec, the values of all records, flat.
    """

    specs: tuple[ArraySpec, ...]
    lengths: np.ndarray
    values: Mapping[str, np.ndarray]

    @property
    def num_records(self) -> int:
        """The number of records, N."""
        return len(self.lengths)

    def padded(
        self, indices: Sequence[int] | np.ndarray, length: int
    ) -> dict[str, np.ndarray]:
        """Returns the records with these B numbers as a batch.

        Returns:
            For each spec an array `[B, *shape]` or `[B, *shape, S]` of the
            spec's type. S is `length`; no record in the batch is longer.
        """
        return {
            spec.name: self._pad(spec, indices, length) for spec in self.specs
        }

    def field(self, name: str) -> np.ndarray:
        """Returns the values of a non-sequence array: `[N, *shape]`."""
        (spec,) = (spec for spec in self.specs if spec.name == name)
        values = self.values[name].reshape(self.num_records, *spec.shape)
        return values.astype(spec.dtype)

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
    """Puts records into columns; at least one of their arrays is a sequence.

    Raises:
        ValueError: There is no record, or a record disagrees with the specs.
    """
    chunks: dict[str, list[np.ndarray]] = {spec.name: [] for spec in specs}
    lengths: list[int] = []
    checked = (
        (_length_of(number, record, specs, max_seq_length), record)
        for number, record in enumerate(records)
    )
    while chunk := list(itertools.islice(checked, _CHUNK_SIZE)):
        lengths += (length for length, _ in chunk)
        for spec in specs:
            rows = [np.ravel(record[spec.name]) for _, record in chunk]
            values = np.concatenate(rows).astype(spec.dtype)
            chunks[spec.name].append(_smallest(values))
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
    for dtype in _SMALL_TYPES:
        if values.min(initial=0) >= 0 and (
            values.max(initial=0) <= np.iinfo(dtype).max
        ):
            small = values.astype(dtype)
            if np.array_equal(small, values):
                return small
    return values


def _length_of(
    number: int,
    record: Mapping[str, np.ndarray],
    specs: tuple[ArraySpec, ...],
    max_seq_length: int,
) -> int:
    """Returns the length of a record, which all its sequences have."""
    lengths = {
        np.shape(record[spec.name])[-1] for spec in specs if spec.is_sequence
    }
    if len(lengths) != 1 or not 1 <= min(lengths) <= max_seq_length:
        raise ValueError(
            f"Record {number} has {sorted(lengths)} tokens; expected one "
            f"length of 1 to max_seq_length={max_seq_length}."
        )
    return int(min(lengths))
