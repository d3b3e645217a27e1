"""Fine-tuning records as columns, and the files that store them.

Data flow: records of a task -> [this file] -> columns -> batches, cache file.

A column holds the values of one array of all records, one record after the
other (ragged), in the smallest type that holds them exactly, so that the
windows of a whole SQuAD fit in memory.

A cache file stores columns in the safetensors format, with the fingerprint of
everything that made the records, their specs and a checksum in its metadata.
The fingerprint is part of the file's name, so a file that is found can be
used. The arrays are memory-mapped: several processes share them, and the
operating system can drop them from memory.
"""

import dataclasses
import functools
import hashlib
import itertools
import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import google_crc32c
import numpy as np
import safetensors
import safetensors.numpy

from albert_tf import files
from albert_tf.features import ArraySpec

_FORMAT_VERSION = 2

_LOGGER = logging.getLogger(__name__)

# Records that are collected before their values are put into columns.
_CHUNK_SIZE = 1024
_SMALL_TYPES = (np.uint8, np.uint16)
_LENGTHS = "lengths"
_FINGERPRINT_DIGITS = 16
_READ_SIZE = 1 << 20
# The types of columns, as safetensors names them. A file with others was made
# by something else, as its metadata tells.
_TYPES = {"U8": "<u1", "U16": "<u2", "I32": "<i4", "F32": "<f4"}


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
        (_check_record(number, record, specs, max_seq_length), record)
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


def _check_record(
    number: int,
    record: Mapping[str, np.ndarray],
    specs: tuple[ArraySpec, ...],
    max_seq_length: int,
) -> int:
    """Checks a record against the specs and returns its length."""
    names = {spec.name for spec in specs}
    if set(record) != names:
        raise ValueError(
            f"Record {number} has the arrays {', '.join(sorted(record))}; "
            f"expected: {', '.join(sorted(names))}."
        )
    length = None
    for spec in specs:
        shape = np.shape(record[spec.name])
        expected: tuple[int | None, ...] = spec.shape
        if spec.is_sequence:
            if length is None and shape:
                length = shape[-1]
            expected = (*spec.shape, length)
        if shape != expected:
            raise ValueError(
                f"Record {number}: {spec.name!r} has the shape {shape}, "
                f"expected {expected}."
            )
    if not 1 <= (length or 0) <= max_seq_length:
        raise ValueError(
            f"Record {number} has {length} tokens; expected 1 to "
            f"max_seq_length={max_seq_length}."
        )
    return int(length or 0)


def fingerprint(
    *,
    settings: Mapping[str, Any],
    examples: Iterable[Any],
    is_training: bool,
) -> str:
    """Returns a digest of everything that makes a set of records.

    Settings are JSON values. The `repr` of an example must show all that it
    holds, as that of a dataclass of texts and numbers does.
    """
    digest = hashlib.sha256()
    for example in examples:
        digest.update(f"{example!r}\n".encode())
    facts = {
        "format": _FORMAT_VERSION,
        "settings": dict(settings),
        "examples": digest.hexdigest(),
        "is_training": is_training,
    }
    text = json.dumps(facts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def load_or_make(
    folder: str,
    name: str,
    fingerprint: str,
    *,
    specs: tuple[ArraySpec, ...],
    make: Callable[[], RecordColumns],
) -> RecordColumns:
    """Returns stored records; makes and stores them if there are none.

    `name`, such as `cola-train`, begins the name of the file in `folder`.
    Damaged records are made again.
    """
    file_name = f"{name}-{fingerprint[:_FINGERPRINT_DIGITS]}.safetensors"
    path = os.path.join(files.check_local(folder), file_name)
    if os.path.exists(path):
        try:
            columns = read(path, fingerprint, specs)
        except (ValueError, OSError) as error:
            _LOGGER.warning("%s Making the records again.", error)
        else:
            _LOGGER.info("%d records from %s.", columns.num_records, path)
            return columns
    columns = make()
    write(path, fingerprint, columns)
    _LOGGER.info("%d records written to %s.", columns.num_records, path)
    return columns


def write(path: files.Path, fingerprint: str, columns: RecordColumns) -> None:
    """Writes records to a file, whole or not at all."""
    arrays = {_LENGTHS: columns.lengths, **columns.values}
    metadata = _metadata(fingerprint, columns.specs) | {
        "crc32c": _checksum(arrays)
    }
    # Runs that start together may write the same records.
    with files.atomic_write(path) as file:
        try:
            safetensors.numpy.save_file(arrays, file.name, metadata)
        except safetensors.SafetensorError as error:
            raise OSError(f"{os.fspath(path)}: {error}") from error


def read(
    path: files.Path, fingerprint: str, specs: tuple[ArraySpec, ...]
) -> RecordColumns:
    """Maps the records of a file into memory, after checking its checksum.

    Raises:
        ValueError: It is damaged, or was made from something else.
    """
    name = os.fspath(path)
    found, arrays = _map_arrays(name)
    for key, expected in _metadata(fingerprint, specs).items():
        if found.get(key) != expected:
            raise ValueError(f"{name!r} was made with another {key}.")
    if found.get("crc32c") != _checksum(arrays):
        raise ValueError(f"{name!r} is damaged: its checksum does not agree.")
    return RecordColumns(specs, arrays.pop(_LENGTHS), arrays)


def _metadata(fingerprint: str, specs: tuple[ArraySpec, ...]) -> dict[str, str]:
    return {
        "format version": str(_FORMAT_VERSION),
        "fingerprint": fingerprint,
        "array specs": json.dumps([dataclasses.asdict(spec) for spec in specs]),
    }


def _checksum(arrays: Mapping[str, np.ndarray]) -> str:
    """Returns the CRC-32C of all arrays, in the order of their names."""
    checksum = 0
    for name in sorted(arrays):
        values = arrays[name].view(np.uint8)
        for start in range(0, len(values), _READ_SIZE):
            block = bytes(values[start : start + _READ_SIZE])
            checksum = google_crc32c.extend(checksum, block)
    return f"{checksum:08x}"


def _map_arrays(name: str) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Returns the metadata of a file, and its arrays without reading them."""
    try:
        safetensors.safe_open(name, framework="numpy")
    except safetensors.SafetensorError as error:
        raise ValueError(f"{name!r} is damaged ({error}).") from error
    # The file is valid, but `safe_open` would copy the arrays.
    data = np.memmap(name, np.uint8, "r")
    # Format: size of the header (uint64), the header (JSON), the arrays.
    header_end = 8 + int(data[:8].view("<u8")[0])
    header = json.loads(bytes(data[8:header_end]))
    metadata = header.pop("__metadata__", {})
    arrays = {}
    for key, entry in header.items():
        start, end = (header_end + place for place in entry["data_offsets"])
        dtype = _TYPES.get(entry["dtype"], "u1")
        arrays[key] = np.frombuffer(data[start:end], dtype)
    return metadata, arrays
