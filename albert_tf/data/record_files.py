"""TFRecord files: framing, writing whole files, finding the records.

A record is `length (uint64) | checksum of length | bytes | checksum of bytes`,
little-endian; a checksum is CRC-32C, rotated and shifted.

Floor: data. Plain Python and NumPy, no TensorFlow, so that building records
does not pay for importing it.

Source: TensorFlow, `tsl/lib/io/record_writer.cc`.
"""

import contextlib
import hashlib
import mmap
import os
import struct
from collections.abc import Iterable, Iterator
from typing import IO

import google_crc32c
import numpy as np

from albert_tf import files

_CHECKSUM_DELTA = 0xA282EAD8
_UINT32 = 0xFFFFFFFF
_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_HEADER_SIZE = _LENGTH.size + _CHECKSUM.size
_FRAME_SIZE = _HEADER_SIZE + _CHECKSUM.size


def masked_checksum(data: bytes) -> int:
    """Returns the CRC-32C of `data` in the disguise that TFRecord wants."""
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


class FramedWriter:
    """Writes framed records and keeps count of what it wrote.

    Args:
        file: Open for binary writing.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.num_bytes = 0

    @property
    def sha256(self) -> str:
        """Checksum of everything written so far, in hexadecimal."""
        return self._digest.hexdigest()

    def write(self, framed: bytes) -> None:
        """Appends the output of `frame_records`."""
        self._file.write(framed)
        self._digest.update(framed)
        self.num_bytes += len(framed)


@contextlib.contextmanager
def open_writer(path: files.Path) -> Iterator[FramedWriter]:
    """Opens a record file that takes its name only when it is whole.

    Raises:
        OSError: It could not be written (no space, no permission); the error
            names `path`, and no half-written file is left.
    """
    with files.atomic_write(path) as file:
        yield FramedWriter(file)


def index_records(path: files.Path) -> tuple[np.ndarray, np.ndarray]:
    """Finds the records of a TFRecord file without reading them.

    Args:
        path: An uncompressed TFRecord file.

    Returns:
        `(offsets, lengths)`, int64 `[number of records]`: record `i` is the
        bytes from `offsets[i]` to `offsets[i] + lengths[i]`. Both are empty
        for an empty file.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is not a TFRecord file, or it was cut short; the
            message names the file and the byte.
    """
    offsets: list[int] = []
    lengths: list[int] = []
    with _mapped(path) as data:
        if len(data):
            _check_first_header(path, data)
        position = 0
        while position < len(data):
            length = _length_at(path, data, position)
            offsets.append(position + _HEADER_SIZE)
            lengths.append(length)
            position += length + _FRAME_SIZE
    return np.array(offsets, np.int64), np.array(lengths, np.int64)


def read_records(path: files.Path) -> Iterator[bytes]:
    """Yields the records of a file in order, checking their checksums.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is not a TFRecord file, was cut short, or a record does
            not agree with its checksum.
    """
    offsets, lengths = index_records(path)
    with _mapped(path) as data:
        for offset, length in zip(
            offsets.tolist(), lengths.tolist(), strict=True
        ):
            record = bytes(data[offset : offset + length])
            (checksum,) = _CHECKSUM.unpack_from(data, offset + length)
            if checksum != masked_checksum(record):
                raise ValueError(
                    f"{os.fspath(path)!r} is damaged: the record at byte "
                    f"{offset} does not agree with its checksum. Build or "
                    "copy the file again."
                )
            yield record


@contextlib.contextmanager
def _mapped(path: files.Path) -> Iterator[mmap.mmap | bytes]:
    name = files.check_local(path)
    if not os.path.isfile(name):
        raise FileNotFoundError(
            f"There is no record file {name!r}. Check the path."
        )
    with open(name, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            yield b""  # Nothing can be mapped.
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data


def _check_first_header(path: files.Path, data: mmap.mmap | bytes) -> None:
    header = data[:_HEADER_SIZE]
    length, checksum = header[: _LENGTH.size], header[_LENGTH.size :]
    if checksum != _CHECKSUM.pack(masked_checksum(length)):
        raise ValueError(
            f"{os.fspath(path)!r} is not a TFRecord file: the header at byte 0 "
            "does not agree with its checksum. Pass records that "
            "create_pretraining_data.py wrote, not text, and not compressed."
        )


def _length_at(path: files.Path, data: mmap.mmap | bytes, position: int) -> int:
    size = len(data)
    if position + _FRAME_SIZE <= size:
        (length,) = _LENGTH.unpack_from(data, position)
        if position + _FRAME_SIZE + length <= size:
            return length
    raise ValueError(
        f"{os.fspath(path)!r} was cut short: the record at byte {position} "
        f"goes beyond the end of the file, byte {size}. Build or copy the "
        "file again."
    )
