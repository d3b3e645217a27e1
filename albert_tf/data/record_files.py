"""Writes and reads record files: TFRecord framing and `tf.train.Example`.

Data flow: arrays -> [this file] -> record file -> [this file] -> arrays.

A record is `length (uint64) | checksum of length | bytes | checksum of bytes`,
little-endian; a checksum is CRC-32C, rotated and shifted. Its bytes are a
serialized `tf.train.Example`, which is `{1: Features}`, where Features is
`{1: map<1: string, 2: Feature>}` and Feature is `{2: FloatList | 3:
Int64List}`, each with the values in field 1, packed or one by one.

The codec is our own because `tf.train.Example` is two to three times slower,
and would import TensorFlow in every worker of a build. It writes the
variable-length integers of a whole batch at once.

Source: TensorFlow, `tsl/lib/io/record_writer.cc` and
`core/example/{example,feature}.proto`; protocol buffers encoding specification.
"""

import functools
import hashlib
import itertools
import mmap
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf import features as record_features
from albert_tf import files
from albert_tf.data import record_index
from albert_tf.data.record_index import (
    CHECKSUM,
    ENTRY,
    ENTRY_AND_NEXT,
    HEADER_SIZE,
    LENGTH,
    masked_checksum,
)

# A record file and its index take two descriptors, of the 1,024 that a
# process has by default.
MAX_OPEN_FILES = 128

# Protocol buffers: wire types, numbers of fields, variable-length integers.
_VARINT, _LENGTH_DELIMITED, _FIXED32 = 0, 2, 5
_FIXED_SIZES = {1: 8, _FIXED32: 4}
_FLOAT_LIST, _INT64_LIST = 2, 3
_VARINT_BITS = 7
_CONTINUES = 0x80
_VARINT_MASK = 0x7F
_MAX_VARINT_BYTES = 10


def frame_records(records: Iterable[bytes]) -> bytes:
    """Returns the records as the bytes of a TFRecord file."""
    parts: list[bytes] = []
    for record in records:
        length = LENGTH.pack(len(record))
        parts += (
            length,
            CHECKSUM.pack(masked_checksum(length)),
            record,
            CHECKSUM.pack(masked_checksum(record)),
        )
    return b"".join(parts)


class RecordFile:
    """The records of an uncompressed TFRecord file.

    If the file has an index of this size and `sha256`, it is opened without
    reading it; otherwise the lengths and checksums of all records are read.
    Each record is checked when it is read. The file is memory-mapped, so that
    the system keeps in memory what is used. A process keeps at most
    `MAX_OPEN_FILES` record files open, however many it reads.

    Args:
        path: The file.
        sha256: Hexadecimal digest of what was written to the file; None if it
            is not known.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is not a TFRecord file, or it was cut short; the
            message names the file and the byte.
    """

    def __init__(self, path: files.Path, *, sha256: str | None = None) -> None:
        self.path = files.check_local(path)
        if not os.path.isfile(self.path):
            raise FileNotFoundError(
                f"There is no record file {self.path!r}. Check the path."
            )
        status = os.stat(self.path)
        self.num_bytes = status.st_size
        footer = record_index.read_footer(self.path, self.num_bytes, sha256)
        # A file that replaces this one under its name has another key.
        self._key = (self.path, status.st_ino, status.st_mtime_ns, footer)
        self._entries = b"" if footer else record_index.scan(self.path)
        self._num_records = (
            footer.num_records
            if footer
            else len(self._entries) // ENTRY.size - 1
        )

    def __len__(self) -> int:
        return self._num_records

    @property
    def digest(self) -> str:
        """Digest of the lengths and checksums of all records in their order."""
        entries = self._entries or _open(*self._key).entries
        size = (len(self) + 1) * ENTRY.size
        return hashlib.sha256(entries[:size]).hexdigest()

    def get(self, number: int) -> bytes:
        """Returns a record, numbered from 0.

        Raises:
            ValueError: It does not agree with its checksum; the message names
                file and record.
        """
        opened = _open(*self._key)
        start, checksum, end = ENTRY_AND_NEXT.unpack_from(
            self._entries or opened.entries, number * ENTRY.size
        )
        record = opened.data[start + HEADER_SIZE : end - CHECKSUM.size]
        if (
            len(record) == end - start - HEADER_SIZE - CHECKSUM.size
            and masked_checksum(record) == checksum
        ):
            return record
        cause = "is not the file that its index describes"
        if self._entries:
            cause = "was changed after it was opened"
        raise ValueError(
            f"{self.path!r} is damaged, or {cause}: record {number}, at byte "
            f"{start}, does not agree with its checksum. Build the file again, "
            "or copy it again with its sidecar and index."
        )

    def check_size(self) -> None:
        """Checks that the file still has all of its bytes.

        The system ends a process that reads what is no longer there.

        Raises:
            ValueError: It has not.
        """
        if _open(*self._key).data.size() < self.num_bytes:
            raise ValueError(
                f"{self.path!r} was cut short after it was opened. Build or "
                "copy the file again."
            )

    def check_index(self) -> None:
        """Checks its index, if it was opened with one.

        Raises:
            ValueError: It does not say where the records are.
        """
        if footer := self._key[-1]:
            record_index.check_entries(self.path, footer)

    def sha256(self) -> str:
        """Returns the hexadecimal digest of the whole file."""
        with open(self.path, "rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()

    def verified(self) -> Iterator[bytes]:
        """Yields the records in order; raises as `get`."""
        return map(self.get, range(len(self)))


class RecordFiles(NamedTuple):
    """Files in their order, of whose records the numbers are counted up.

    Args:
        paths: Their paths.
        counts: The number of records of each, at least one.
        first_numbers: The number of the first record of each.
    """

    paths: list[str]
    counts: list[int]
    first_numbers: list[int]


class _OpenFile(NamedTuple):
    """A record file and its index, mapped into memory until the last use."""

    data: mmap.mmap
    entries: mmap.mmap | bytes


@functools.lru_cache(maxsize=MAX_OPEN_FILES)
def _open(
    path: str, _inode: int, _modified: int, footer: record_index.Footer | None
) -> _OpenFile:
    entries = record_index.map_entries(path, footer) if footer else b""
    return _OpenFile(record_index.map_file(path), entries)


class Ragged(NamedTuple):
    """Rows of different lengths: row `i` is `values[starts[i]:starts[i + 1]]`.

    `values` has one dimension; `starts` is int64 `[rows + 1]`.
    """

    values: np.ndarray
    starts: np.ndarray


def encode_examples(
    features: Sequence[record_features.Feature],
    columns: Mapping[str, np.ndarray | Ragged],
) -> list[bytes]:
    """Serializes a batch of records.

    Args:
        features: The fields of a record.
        columns: For the name of each feature an array `[N, length]`, or
            `Ragged` rows.

    Returns:
        N serialized `tf.train.Example`, fields under their record names.

    Raises:
        ValueError: An integer is negative.
    """
    fields = [
        _encode_column(feature, _to_ragged(columns[feature.name]))
        for feature in features
    ]
    messages = (
        b"".join(itertools.chain.from_iterable(row))
        for row in zip(*fields, strict=True)
    )
    return [_tag(1) + _varint(len(m)) + m for m in messages]


def decode_example(data: bytes) -> dict[str, np.ndarray]:
    """Parses one serialized `tf.train.Example`.

    Returns:
        Int64 or float32 arrays, one-dimensional, by record name.

    Raises:
        ValueError: The bytes are not an Example of numbers.
    """
    values = {}
    try:
        for features in _messages(data, 1):
            for entry in _messages(features, 1):
                (name,), (feature,) = _messages(entry, 1), _messages(entry, 2)
                values[bytes(name).decode("utf-8")] = _decode_feature(feature)
    except (ValueError, IndexError) as error:
        raise ValueError(
            "The record is not a serialized tf.train.Example of numbers "
            f"({error}). Pass records that create_pretraining_data.py wrote."
        ) from error
    return values


def _to_ragged(column: np.ndarray | Ragged) -> Ragged:
    if isinstance(column, Ragged):
        return column
    num_rows, length = column.shape
    return Ragged(column.ravel(), np.arange(num_rows + 1) * length)


def _encode_column(
    feature: record_features.Feature, column: Ragged
) -> Iterator[tuple[bytes, bytes]]:
    """Yields, for each row, the bytes before the packed values, and those."""
    if feature.dtype == "float32":
        payload = column.values.astype("<f4").tobytes()
        starts = column.starts * np.dtype(np.float32).itemsize
        kind = _FLOAT_LIST
    else:
        payload, starts = _encode_varints(feature.name, column)
        kind = _INT64_LIST
    borders = starts.tolist()
    for begin, end in zip(borders[:-1], borders[1:], strict=True):
        prefix = _field_prefix(feature.record_name, kind, end - begin)
        yield prefix, payload[begin:end]


def _encode_varints(name: str, column: Ragged) -> tuple[bytes, np.ndarray]:
    """Returns the packed integers of all rows, and where each row starts."""
    values, starts = column
    if values.min(initial=0) < 0:
        raise ValueError(
            f"`{name}` must not be negative. Received: {values.min()}."
        )
    largest = int(values.max(initial=0))
    if largest <= _VARINT_MASK:
        return values.astype(np.uint8).tobytes(), starts
    num_bytes = np.ones(len(values), np.int64)
    for bits in range(_VARINT_BITS, largest.bit_length(), _VARINT_BITS):
        num_bytes += values >= (1 << bits)
    ends = np.zeros(len(values) + 1, np.int64)
    np.cumsum(num_bytes, out=ends[1:])
    encoded = np.empty(ends[-1], np.uint8)
    for index in range(int(num_bytes.max())):
        here = np.nonzero(num_bytes > index)[0]
        septet = values[here] >> (index * _VARINT_BITS) & _VARINT_MASK
        is_last = num_bytes[here] == index + 1
        encoded[ends[here] + index] = septet | np.where(is_last, 0, _CONTINUES)
    return encoded.tobytes(), ends[starts]


@functools.cache
def _field_prefix(record_name: str, kind: int, num_bytes: int) -> bytes:
    """Returns the bytes of a map entry before its packed values."""
    values = _tag(1) + _varint(num_bytes)
    feature = _tag(kind) + _varint(len(values) + num_bytes) + values
    name = record_name.encode("utf-8")
    key = _tag(1) + _varint(len(name)) + name
    length = _varint(len(feature) + num_bytes)
    entry = key + _tag(2) + length + feature
    return _tag(1) + _varint(len(entry) + num_bytes) + entry


def _tag(field: int) -> bytes:
    return bytes([field << 3 | _LENGTH_DELIMITED])


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > _VARINT_MASK:
        encoded.append(value & _VARINT_MASK | _CONTINUES)
        value >>= _VARINT_BITS
    encoded.append(value)
    return bytes(encoded)


def _values(data: bytes, field: int) -> list[tuple[int, bytes]]:
    """Returns the values of a field of a message, each with its wire type."""
    found, position = [], 0
    while position < len(data):
        tag, position = _read_varint(data, position)
        wire_type, size = tag & 7, 0
        if wire_type == _VARINT:
            size = _read_varint(data, position)[1] - position
        elif wire_type == _LENGTH_DELIMITED:
            size, position = _read_varint(data, position)
        elif wire_type in _FIXED_SIZES:
            size = _FIXED_SIZES[wire_type]
        else:
            raise ValueError(f"unexpected tag {tag} at byte {position}")
        if position + size > len(data):
            raise ValueError(f"field of {size} bytes is cut short")
        if tag >> 3 == field:
            found.append((wire_type, data[position : position + size]))
        position += size
    return found


def _messages(data: bytes, field: int) -> list[bytes]:
    """Returns the values of a length-delimited field of a message."""
    return _of_types(data, field, _LENGTH_DELIMITED)


def _of_types(data: bytes, field: int, *wire_types: int) -> list[bytes]:
    values = _values(data, field)
    if any(wire_type not in wire_types for wire_type, _ in values):
        raise ValueError(f"field {field} has an unexpected type")
    return [value for _, value in values]


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value, shift = 0, 0
    while data[position] & _CONTINUES:
        value |= (data[position] & _VARINT_MASK) << shift
        shift += _VARINT_BITS
        position += 1
    return value | data[position] << shift, position + 1


def _decode_feature(feature: bytes) -> np.ndarray:
    # A packed list is the bytes of its values; one that is not holds each in a
    # field of its own, and both may occur together.
    for values in _messages(feature, _INT64_LIST):
        parts = _of_types(values, 1, _LENGTH_DELIMITED, _VARINT)
        return _decode_varints(b"".join(parts))
    for values in _messages(feature, _FLOAT_LIST):
        parts = _of_types(values, 1, _LENGTH_DELIMITED, _FIXED32)
        return np.frombuffer(b"".join(parts), "<f4").astype(np.float32)
    if feature:
        raise ValueError("a field holds text")
    return np.zeros(0, np.int64)


def _decode_varints(packed: bytes) -> np.ndarray:
    data = np.frombuffer(packed, np.uint8)
    ends = np.nonzero(data < _CONTINUES)[0]
    starts = np.concatenate(([0], ends + 1))[:-1]
    values = np.zeros(len(ends), np.uint64)
    for index in range(_MAX_VARINT_BYTES):
        here = np.nonzero(starts + index <= ends)[0]
        septet = data[starts[here] + index].astype(np.uint64) & _VARINT_MASK
        values[here] |= septet << np.uint64(index * _VARINT_BITS)
    return values.view(np.int64)
