"""Records of a task stored once: a file named by everything that made them.

Data flow: examples -> task -> [this file] -> columns, and their file.
Floor: data. NumPy.

A file is one line of JSON (key, columns, checksums), then the columns' bytes.
Its name ends in the key: a digest of the task's settings, of the examples, and
of this format. So what was made otherwise is not found, and what is found can
be used.
"""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import google_crc32c
import numpy as np

from albert_tf import files
from albert_tf.data import record_columns
from albert_tf.data.record_columns import RecordColumns
from albert_tf.features import ArraySpec

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
    return record_columns.RecordColumns(specs, lengths, arrays)


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
