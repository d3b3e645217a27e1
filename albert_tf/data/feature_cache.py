"""Fine-tuning records as columns: all values of a field one after the other.

Data flow: records of a task -> [this file] -> columns -> batches, cache file.
Floor: data. NumPy.

Columns hold their values in the smallest type that loses none, so that the
windows of a whole SQuAD fit in memory, or a file of them is quickly mapped.

Records of a task stored once: a file named by everything that made them.

Data flow: examples -> task -> [this file] -> columns, and their file.
Floor: data. NumPy.

A file is one line of JSON (key, columns, checksums), then the columns' bytes.
Its name ends in the key: a digest of the task's settings, of the examples, and
of this format. So what was made otherwise is not found, and what is found can
be used.
"""

import dataclasses
import functools
import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import google_crc32c
import numpy as np

from albert_tf import files
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
            f"Record {number} has {length} tokens; wanted 1 to "
            f"max_seq_length={max_seq_length}."
        )
    return int(length or 0)


_LOGGER = logging.getLogger(__name__)

FORMAT_VERSION = 1
SUFFIX = ".records"
_LENGTHS = "lengths"
_READ_SIZE = 1 << 20
_NAME_DIGITS = 16
# A header beyond this is that of another file.
_MAX_HEADER_SIZE = 1 << 20


def cache_key(
    *,
    settings: Mapping[str, Any],
    examples: Iterable[Any],
    is_training: bool,
) -> str:
    """Returns the digest of everything that makes a set of records.

    Args:
        settings: The task's; JSON values.
        examples: In their order. Their `repr` must tell all that they hold,
            as that of a dataclass of texts and numbers does.
        is_training: Whether the records are to train on.
    """
    digest = hashlib.sha256()
    for example in examples:
        digest.update(f"{example!r}\n".encode())
    facts = {
        "format": FORMAT_VERSION,
        "settings": dict(settings),
        "examples": digest.hexdigest(),
        "is_training": is_training,
    }
    text = json.dumps(facts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def load_or_make(
    folder: str,
    name: str,
    key: str,
    *,
    specs: tuple[ArraySpec, ...],
    make: Callable[[], RecordColumns],
) -> RecordColumns:
    """Returns stored records, or makes and stores them.

    Args:
        folder: Where the files are.
        name: Of the set, such as `cola-train`; part of the file's name.
        key: As `cache_key` returns it.
        specs: The arrays of a record.
        make: Makes the records if there are none, or if they are damaged.

    Raises:
        OSError: The file cannot be written.
    """
    file_name = f"{name}-{key[:_NAME_DIGITS]}{SUFFIX}"
    path = os.path.join(files.check_local(folder), file_name)
    if os.path.exists(path):
        try:
            columns = read(path, key, specs)
        except (ValueError, OSError) as error:
            _LOGGER.warning("%s; making the records again.", error)
        else:
            _LOGGER.info("%d records from %s.", columns.num_records, path)
            return columns
    columns = make()
    write(path, key, columns)
    _LOGGER.info("%d records written to %s.", columns.num_records, path)
    return columns


def write(path: files.Path, key: str, columns: RecordColumns) -> None:
    """Writes records to a file, whole or not at all."""
    arrays = {_LENGTHS: columns.lengths, **columns.values}
    described = [
        {
            "name": name,
            "dtype": array.dtype.str,
            "size": array.size,
            "crc32c": _checksum(array.view(np.uint8)),
        }
        for name, array in arrays.items()
    ]
    header = {"version": FORMAT_VERSION, "key": key, "columns": described}
    # Runs that are started together may make the same records.
    with files.atomic_write(path, is_shared=True) as file:
        file.write(json.dumps(header).encode() + b"\n")
        for array in arrays.values():
            file.write(array.data)


def _checksum(data: np.ndarray) -> int:
    checksum = 0
    for start in range(0, len(data), _READ_SIZE):
        block = bytes(data[start : start + _READ_SIZE])
        checksum = google_crc32c.extend(checksum, block)
    return checksum


def read(
    path: files.Path, key: str, specs: tuple[ArraySpec, ...]
) -> RecordColumns:
    """Maps the records of a file, after checking its checksums.

    Raises:
        ValueError: It is damaged, or not of this key.
    """
    name = os.fspath(path)
    if not os.path.getsize(name):
        raise ValueError(f"{name!r} is empty")
    data = np.memmap(name, np.uint8, "r")
    header = _header_of(name, data)
    if header.get("key") != key:
        raise ValueError(f"{name!r} was made by other settings or files")
    arrays: dict[str, np.ndarray] = {}
    position = header["data_start"]
    for column in header["columns"]:
        dtype = np.dtype(column["dtype"])
        end = position + column["size"] * dtype.itemsize
        part = data[position:end]
        if len(part) < end - position or (_checksum(part) != column["crc32c"]):
            raise ValueError(f"{name!r} is damaged ({column['name']})")
        arrays[column["name"]] = np.frombuffer(part, dtype)
        position = end
    if set(arrays) != {_LENGTHS, *(spec.name for spec in specs)}:
        raise ValueError(f"{name!r} holds other arrays than this task has")
    lengths = arrays.pop(_LENGTHS)
    return RecordColumns(specs, lengths, arrays)


def _header_of(name: str, data: np.ndarray) -> dict[str, Any]:
    start = bytes(data[:_MAX_HEADER_SIZE])
    line, newline, _ = start.partition(b"\n")
    try:
        header = json.loads(line) if newline else None
    except ValueError:
        header = None
    if not isinstance(header, dict) or (
        header.get("version") != FORMAT_VERSION
    ):
        raise ValueError(f"{name!r} is damaged, or of another version")
    return header | {"data_start": len(line) + 1}
