"""Reads arrays of a TF1 checkpoint, without TensorFlow if they are numbers.

The index is a sorted table (`google/leveldb`, `doc/table_format.md`): a footer
that says where the index of the blocks is, the blocks, and in them a name and
an entry for each array: its type, shape, and place in a data file. Source:
tensorflow, `core/protobuf/tensor_bundle.proto`, `core/lib/io/table.cc`.
"""

import functools
import os
import struct
from collections.abc import Callable, Iterator

import numpy as np

from albert_tf.data import example_codec, record_files

INDEX = ".index"
# TF-Hub modules begin every name with this.
_MODULE = "module/"
_MAGIC = 0xDB4775248B80FB57
_FOOTER_SIZE = 48
# Types of weights and steps, by the number of a `tensorflow.DataType`.
_TYPES = {
    1: "float32",
    2: "float64",
    3: "int32",
    9: "int64",
    14: "bfloat16",
    19: "float16",
}
# Fields of a `BundleEntryProto`.
_TYPE, _SHAPE, _SHARD, _OFFSET, _SIZE, _CHECKSUM, _SLICES = range(1, 8)


def readers(prefix: str) -> dict[str, Callable[[], np.ndarray]]:
    """Returns a function for each array, by name, that reads it.

    Damaged files are a ValueError, and missing files an OSError.
    """
    with open(prefix + INDEX, "rb") as file:
        index = file.read()
    (_, header), *entries = _table(index)
    num_shards = _number(header, 1)
    return {
        key.decode().removeprefix(_MODULE): functools.partial(
            _array, prefix, key.decode(), num_shards, entry
        )
        for key, entry in entries
        if not key.startswith(b"\0")  # a part of an array
    }


def _table(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields keys and values of a table."""
    footer = data[-_FOOTER_SIZE:]
    if len(footer) < _FOOTER_SIZE or footer[-8:] != struct.pack("<Q", _MAGIC):
        raise ValueError("the end of the index is missing")
    place = 0
    for _ in range(2):  # The first place, of metadata, is not used.
        start, place = example_codec.read_varint(footer, place)
        size, place = example_codec.read_varint(footer, place)
    for _, handle in _block(data, start, size):
        start, place = example_codec.read_varint(handle, 0)
        size, _ = example_codec.read_varint(handle, place)
        yield from _block(data, start, size)


def _block(data: bytes, start: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Yields keys and values; a key repeats the beginning of the last key."""
    end = start + size
    kind, checksum = struct.unpack_from("<BI", data, end)
    # TensorFlow does not compress an index.
    if kind or checksum != record_files.masked_checksum(data[start : end + 1]):
        raise ValueError("a block of the index is damaged")
    (num_restarts,) = struct.unpack_from("<I", data, end - 4)
    end -= 4 * (num_restarts + 1)
    key = b""
    while start < end:
        shared, start = example_codec.read_varint(data, start)
        added, start = example_codec.read_varint(data, start)
        length, start = example_codec.read_varint(data, start)
        key = key[:shared] + data[start : start + added]
        start += added
        yield key, data[start : start + length]
        start += length


def _number(message: bytes, field: int) -> int:
    """Returns a field of a protocol buffer; a 0 is not stored."""
    values = example_codec.values_of(message, field)
    return int(example_codec.decode_varints(values[-1])[0]) if values else 0


def _array(prefix: str, name: str, num_shards: int, entry: bytes) -> np.ndarray:
    dtype = _TYPES.get(_number(entry, _TYPE))
    if dtype is None or example_codec.values_of(entry, _SLICES):
        # Of another type, or in several parts.
        import tensorflow as tf

        return np.asarray(tf.train.load_checkpoint(prefix).get_tensor(name))
    import ml_dtypes  # noqa: F401  NumPy then knows bfloat16.

    number = _number(entry, _SHARD)
    path = f"{prefix}.data-{number:05}-of-{num_shards:05}"
    with open(path, "rb") as file:
        file.seek(_number(entry, _OFFSET))
        data = file.read(_number(entry, _SIZE))
    [checksum] = example_codec.values_of(entry, _CHECKSUM)
    if struct.pack("<I", record_files.masked_checksum(data)) != checksum:
        raise ValueError(f"{os.path.basename(path)} is damaged")
    [shape] = example_codec.values_of(entry, _SHAPE)
    sizes = [_number(size, 1) for size in example_codec.values_of(shape, 2)]
    return np.frombuffer(data, dtype).reshape(sizes).copy()
