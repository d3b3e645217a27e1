"""Writes and reads record files: TFRecord framing and `tf.train.Example`.

Data flow: arrays -> [this file] -> record file -> [this file] -> arrays.
Floor: data. Plain Python and NumPy.

A record is `length (uint64) | checksum of length | bytes | checksum of bytes`,
little-endian; a checksum is CRC-32C, rotated and shifted. Its bytes are a
serialized `tf.train.Example`, which is `{1: Features}`, where Features is
`{1: map<1: string, 2: Feature>}` and Feature is `{2: FloatList | 3:
Int64List}`, each with packed values in field 1.

The codec is our own because `tf.train.Example` is two to three times slower,
and would import TensorFlow in every worker of a build. It writes the
variable-length integers of a whole batch at once.

Source: TensorFlow, `tsl/lib/io/record_writer.cc` and
`core/example/{example,feature}.proto`; protocol buffers encoding specification.
"""

import functools
import itertools
import mmap
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import google_crc32c
import numpy as np

from albert_tf import features as record_features
from albert_tf import files

_CHECKSUM_DELTA = 0xA282EAD8
_UINT32 = 0xFFFFFFFF
_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_HEADER_SIZE = _LENGTH.size + _CHECKSUM.size
_FRAME_SIZE = _HEADER_SIZE + _CHECKSUM.size

# Protocol buffers: wire type, numbers of fields, variable-length integers.
_LENGTH_DELIMITED = 2
_FLOAT_LIST, _INT64_LIST = 2, 3
_VARINT_BITS = 7
_CONTINUES = 0x80
_VARINT_MASK = 0x7F
_MAX_VARINT_BYTES = 10


def masked_checksum(data: bytes) -> int:
    """Returns the CRC-32C of `data`, rotated and shifted as TFRecord does."""
    checksum = google_crc32c.value(data)
    rotated = (checksum >> 15) | (checksum << 17)
    return (rotated + _CHECKSUM_DELTA) & _UINT32


def frame_records(records: Iterable[bytes]) -> bytes:
    """Returns the records as the bytes of a TFRecord file."""
    parts: list[bytes] = []
    for record in records:
        length = _LENGTH.pack(len(record))
        parts += (
            length,
            _CHECKSUM.pack(masked_checksum(length)),
            record,
            _CHECKSUM.pack(masked_checksum(record)),
        )
    return b"".join(parts)


class RecordFile:
    """The records of an uncompressed TFRecord file, which is memory-mapped.

    The operating system keeps in memory what is used.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is not a TFRecord file, or it was cut short; the
            message names the file and the byte.
    """

    def __init__(self, path: files.Path) -> None:
        self.path = files.check_local(path)
        if not os.path.isfile(self.path):
            raise FileNotFoundError(
                f"There is no record file {self.path!r}. Check the path."
            )
        self._data: mmap.mmap | bytes = b""  # An empty file cannot be mapped.
        with open(self.path, "rb") as file:
            if os.fstat(file.fileno()).st_size:
                self._data = mmap.mmap(
                    file.fileno(), 0, access=mmap.ACCESS_READ
                )
        self._offsets = np.array(list(self._find_records()), np.int64)

    def __len__(self) -> int:
        return len(self._offsets)

    def get(self, number: int) -> bytes:
        """Returns a record, numbered from 0, without checking its checksum."""
        offset = int(self._offsets[number])
        (length,) = _LENGTH.unpack_from(self._data, offset - _HEADER_SIZE)
        return self._data[offset : offset + length]

    def verified(self) -> Iterator[bytes]:
        """Yields the records in order, checking their checksums.

        Raises:
            ValueError: A record disagrees with its checksum.
        """
        for number, offset in enumerate(self._offsets.tolist()):
            record = self.get(number)
            (checksum,) = _CHECKSUM.unpack_from(
                self._data, offset + len(record)
            )
            if checksum != masked_checksum(record):
                raise ValueError(
                    f"{self.path!r} is damaged: the record at byte {offset} "
                    "does not agree with its checksum. Build or copy the file "
                    "again."
                )
            yield record

    def _find_records(self) -> Iterator[int]:
        """Yields where each record begins, behind its length."""
        header, size = self._data[:_HEADER_SIZE], len(self._data)
        length, checksum = header[: _LENGTH.size], header[_LENGTH.size :]
        if size and checksum != _CHECKSUM.pack(masked_checksum(length)):
            raise ValueError(
                f"{self.path!r} is not a TFRecord file: the header at byte 0 "
                "does not agree with its checksum. Pass records that "
                "create_pretraining_data.py wrote, not text, and not "
                "compressed."
            )
        position = 0
        while position < size:
            end = position + _FRAME_SIZE
            if end <= size:
                end += _LENGTH.unpack_from(self._data, position)[0]
            if end > size:
                raise ValueError(
                    f"{self.path!r} was cut short: the record at byte "
                    f"{position} goes beyond the end of the file, byte "
                    f"{size}. Build or copy the file again."
                )
            yield position + _HEADER_SIZE
            position = end


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


def _messages(data: bytes, field: int) -> list[bytes]:
    """Returns the values of a length-delimited field of a message."""
    found, position = [], 0
    while position < len(data):
        tag, position = _read_varint(data, position)
        if tag & 7 != _LENGTH_DELIMITED:
            raise ValueError(f"unexpected tag {tag} at byte {position}")
        length, position = _read_varint(data, position)
        if position + length > len(data):
            raise ValueError(f"field of {length} bytes is cut short")
        if tag >> 3 == field:
            found.append(data[position : position + length])
        position += length
    return found


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value, shift = 0, 0
    while data[position] & _CONTINUES:
        value |= (data[position] & _VARINT_MASK) << shift
        shift += _VARINT_BITS
        position += 1
    return value | data[position] << shift, position + 1


def _decode_feature(feature: bytes) -> np.ndarray:
    for values in _messages(feature, _INT64_LIST):
        return _decode_varints(b"".join(_messages(values, 1)))
    for values in _messages(feature, _FLOAT_LIST):
        packed = b"".join(_messages(values, 1))
        return np.frombuffer(packed, "<f4").astype(np.float32)
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
