"""Serializes and parses `tf.train.Example`, faster than TensorFlow's messages.

Data flow: arrays -> [this file] -> bytes of a record -> [this file] -> arrays.

A serialized Example is `{1: Features}`, where Features is `{1: map<1: string,
2: Feature>}` and Feature is `{2: FloatList | 3: Int64List}`, each with the
values in field 1, packed or one by one.

The codec is our own because `tf.train.Example` is two to three times slower,
and would import TensorFlow in every worker of a build. It writes the
variable-length integers of a whole batch at once.

Source: TensorFlow, `core/example/{example,feature}.proto`; protocol buffers
encoding specification.
"""

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf import features as record_features

# Protocol buffers: wire types, numbers of fields, variable-length integers.
_VARINT, _LENGTH_DELIMITED, _FIXED32 = 0, 2, 5
_FIXED_SIZES = {1: 8, _FIXED32: 4}
_FLOAT_LIST, _INT64_LIST = 2, 3
_VARINT_BITS = 7
_CONTINUES = 0x80
_VARINT_MASK = 0x7F


class Ragged(NamedTuple):
    """Rows of different lengths.

    Row `i` is `values[starts[i]:starts[i + 1]]`.
    """

    values: np.ndarray  # one dimension
    starts: np.ndarray  # int64 [rows + 1]


def encode_examples(
    features: Sequence[record_features.Feature],
    columns: Mapping[str, np.ndarray | Ragged],
) -> list[bytes]:
    """Serializes N records, with their fields under their record names.

    `columns` has, for the name of each feature, an array `[N, length]` or
    `Ragged` rows.
    """
    fields = [_encode_column(each, columns[each.name]) for each in features]
    rows = zip(*fields, strict=True)
    return [encode_field(1, b"".join(row)) for row in rows]


def decode_example(data: bytes) -> dict[str, np.ndarray]:
    """Parses one serialized `tf.train.Example`.

    Returns int64 or float32 arrays, one-dimensional, by record name. A field
    that holds text is empty.
    """
    columns = {}
    try:
        for features in values_of(data, 1):
            for entry in values_of(features, 1):
                (name,), (feature,) = values_of(entry, 1), values_of(entry, 2)
                columns[name.decode("utf-8")] = _decode_feature(feature)
    except (ValueError, LookupError, OverflowError) as error:
        raise ValueError(
            "The record is not a serialized tf.train.Example. Pass records "
            "that create_pretraining_data.py wrote."
        ) from error
    return columns


def _encode_column(
    feature: record_features.Feature, column: np.ndarray | Ragged
) -> Iterator[bytes]:
    """Yields the entry of each row in the map of features."""
    if isinstance(column, np.ndarray):
        num_rows, length = column.shape
        column = Ragged(column.ravel(), np.arange(num_rows + 1) * length)
    if feature.dtype == "float32":
        payload = column.values.astype("<f4").tobytes()
        starts = column.starts * np.dtype(np.float32).itemsize
        kind = _FLOAT_LIST
    else:
        payload, starts = _encode_varints(column)
        kind = _INT64_LIST
    for begin, end in itertools.pairwise(starts.tolist()):
        prefix = _field_prefix(feature.record_name, kind, end - begin)
        yield prefix + payload[begin:end]


def _encode_varints(column: Ragged) -> tuple[bytes, np.ndarray]:
    """Returns the packed integers of all rows, and where each row starts."""
    values, starts = column
    largest = int(values.max(initial=0))
    if largest <= _VARINT_MASK:
        return values.astype(np.uint8).tobytes(), starts
    num_bytes = np.ones(len(values), np.int64)
    for bits in range(_VARINT_BITS, largest.bit_length(), _VARINT_BITS):
        num_bytes += values >= (1 << bits)
    ends = np.concatenate(([0], np.cumsum(num_bytes)))
    encoded = np.empty(ends[-1], np.uint8)
    for index in range(int(num_bytes.max())):
        rows = np.nonzero(num_bytes > index)[0]
        septet = values[rows] >> (index * _VARINT_BITS) & _VARINT_MASK
        is_last = num_bytes[rows] == index + 1
        encoded[ends[rows] + index] = septet | np.where(is_last, 0, _CONTINUES)
    return encoded.tobytes(), ends[starts]


@functools.cache
def _field_prefix(record_name: str, kind: int, num_bytes: int) -> bytes:
    """Returns the bytes of a map entry before its packed values."""
    values = _tag(1) + _varint(num_bytes)
    feature = _tag(kind) + _varint(len(values) + num_bytes) + values
    key = encode_field(1, record_name.encode("utf-8"))
    length = _varint(len(feature) + num_bytes)
    entry = key + _tag(2) + length + feature
    return _tag(1) + _varint(len(entry) + num_bytes) + entry


def encode_field(number: int, content: bytes) -> bytes:
    """Returns a field of a message that is text, or a message itself."""
    return _tag(number) + _varint(len(content)) + content


def _tag(field: int) -> bytes:
    return bytes([field << 3 | _LENGTH_DELIMITED])


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > _VARINT_MASK:
        encoded.append(value & _VARINT_MASK | _CONTINUES)
        value >>= _VARINT_BITS
    encoded.append(value)
    return bytes(encoded)


def values_of(data: bytes, field: int) -> list[bytes]:
    """Returns the values of a field of a message."""
    values, position = [], 0
    while position < len(data):
        tag, position = read_varint(data, position)
        wire_type = tag & 7
        if wire_type == _VARINT:
            size = read_varint(data, position)[1] - position
        elif wire_type == _LENGTH_DELIMITED:
            size, position = read_varint(data, position)
        else:
            size = _FIXED_SIZES[wire_type]
        if tag >> 3 == field:
            values.append(data[position : position + size])
        position += size
    return values


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Returns the number that begins at a position, and where it ends."""
    value, shift = 0, 0
    while data[position] & _CONTINUES:
        value |= (data[position] & _VARINT_MASK) << shift
        shift += _VARINT_BITS
        position += 1
    return value | data[position] << shift, position + 1


def _decode_feature(feature: bytes) -> np.ndarray:
    # A packed list is the bytes of its values; one that is not holds each in a
    # field of its own, and both may occur together.
    for values in values_of(feature, _INT64_LIST):
        return decode_varints(b"".join(values_of(values, 1)))
    for values in values_of(feature, _FLOAT_LIST):
        packed = b"".join(values_of(values, 1))
        return np.frombuffer(packed, "<f4").astype(np.float32)
    return np.zeros(0, np.int64)


def decode_varints(packed: bytes) -> np.ndarray:
    """Returns numbers that follow each other, int64."""
    values, position = [], 0
    while position < len(packed):
        value, position = read_varint(packed, position)
        values.append(value)
    return np.array(values, np.uint64).view(np.int64)
