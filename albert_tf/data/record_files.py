"""Record files: their frames, their indexes, and access to single records.

Data flow: serialized examples -> [this file] -> record file, index -> [this
file] -> serialized examples by number.

A record is `length (uint64) | checksum of length | bytes | checksum of bytes`;
a checksum is CRC-32C, rotated and shifted. Beside a record file, `<record
file>.index` has an entry for each record: where its frame begins (uint64) and
its checksum (uint32); an entry for the end of the record file; and a footer: a
mark of 8 bytes, the number of records, the size of the record file (uint64
each), and its SHA-256. All are little-endian.

Remote files are not mapped into memory: each look at one is a request. So only
a few of their records are read here, and all others by `graph_reading.py`.

Source: TensorFlow, `tsl/lib/io/record_writer.cc`.
"""

import functools
import hashlib
import mmap
import os
import struct
from collections.abc import Iterable
from typing import NamedTuple

import google_crc32c

from albert_tf import files

# Endings of the names of sidecars, indexes and unfinished files.
OTHER_SUFFIXES = (".json", ".index", ".partial")

# A record file and its index take two descriptors, of the 1,024 that a
# process has by default.
MAX_OPEN_FILES = 128

# A frame: length, its checksum, the record, its checksum.
_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_HEADER_SIZE = _LENGTH.size + _CHECKSUM.size
_FRAME_SIZE = _HEADER_SIZE + _CHECKSUM.size
_CHECKSUM_DELTA = 0xA282EAD8
_UINT32 = 0xFFFFFFFF

# An entry, and an entry with the beginning of the next frame.
ENTRY = struct.Struct("<QI")
_ENTRY_AND_NEXT = struct.Struct("<QIQ")
_FOOTER = struct.Struct("<8sQQ32s")
_MARK = b"TFRINDX1"


class Footer(NamedTuple):
    """The end of an index, with the size and digest of the record file."""

    mark: bytes
    num_records: int
    num_bytes: int
    sha256: bytes


def masked_checksum(data: bytes) -> int:
    """Returns the CRC-32C of `data`, rotated and shifted as TFRecord does."""
    checksum = int(google_crc32c.value(data))
    rotated = (checksum >> 15) | (checksum << 17)
    return (rotated + _CHECKSUM_DELTA) & _UINT32


def index_path(record_path: files.Path) -> str:
    """Returns the path of the index of a record file."""
    return os.fspath(record_path) + ".index"


def frame_records(records: Iterable[bytes]) -> bytes:
    """Returns the records as the bytes of a TFRecord file."""
    parts: list[bytes] = []
    for record in records:
        length = _LENGTH.pack(len(record))
        for data in (length, record):
            parts += data, _CHECKSUM.pack(masked_checksum(data))
    return b"".join(parts)


def index_entries(
    framed: mmap.mmap | bytes, first: int = 0
) -> tuple[bytes, int]:
    """Returns the entries of framed records, and where the last whole one ends.

    The first one begins at byte `first` of the file.
    """
    entries, position, size = bytearray(), 0, len(framed)
    while position + _FRAME_SIZE <= size:
        end = position + _FRAME_SIZE + _LENGTH.unpack_from(framed, position)[0]
        if end > size:
            break
        (checksum,) = _CHECKSUM.unpack_from(framed, end - _CHECKSUM.size)
        entries += ENTRY.pack(first + position, checksum)
        position = end
    return bytes(entries), position


def index_end(num_records: int, num_bytes: int, sha256: bytes) -> bytes:
    """Returns the end of an index, after the entries of all records."""
    footer = _FOOTER.pack(_MARK, num_records, num_bytes, sha256)
    return ENTRY.pack(num_bytes, 0) + footer


class RecordFile:
    """The records of an uncompressed TFRecord file.

    If the file has an index of this size and `sha256`, the hexadecimal digest
    of its content, it is opened without reading it; otherwise the lengths and
    checksums of all records are read, and become `entries`. Each record is
    checked when it is read. The file is memory-mapped, so that the system keeps
    the used parts in memory. A process keeps at most `MAX_OPEN_FILES` open.
    """

    def __init__(self, path: files.Path, *, sha256: str | None = None) -> None:
        self.path = files.check_local(path)
        status = os.stat(self.path)
        self.num_bytes = status.st_size
        footer = _read_footer(index_path(self.path)) if sha256 else None
        expected = self.num_bytes, sha256
        if footer and (footer.num_bytes, footer.sha256.hex()) != expected:
            footer = None
        # A file that replaces this one under its name has another key.
        self._key = (self.path, status.st_ino, status.st_mtime_ns, footer)
        self.entries = b"" if footer else _scan(self.path)
        num_scanned = len(self.entries) // ENTRY.size - 1
        self._num_records = footer.num_records if footer else num_scanned

    def __len__(self) -> int:
        return self._num_records

    def get(self, number: int) -> bytes:
        """Returns a record, numbered from 0; refuses one that was changed."""
        start, checksum, end, record = self._read(number)
        if (
            len(record) != end - start - _FRAME_SIZE
            or masked_checksum(record) != checksum
        ):
            raise ValueError(
                f"{self.path!r} is damaged, or was changed after it was "
                "opened, or is not the file that its index describes: record "
                f"{number}, at byte {start}, does not agree with its checksum. "
                "Build the file again, or copy it again with its sidecar and "
                "index."
            )
        return record

    def verify(self, sha256: str | None) -> None:
        """Reads the whole file, compares its checksums, and the sidecar's."""
        # Training needs no index of a remote file.
        if not files.is_remote(self.path):
            for number in range(len(self)):
                self.get(number)
        with files.open_read(self.path) as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        if sha256 not in (None, digest):
            raise ValueError(
                f"{self.path!r} is not the file that its sidecar describes: "
                f"its sha256 is {digest}, expected {sha256}. Build or copy "
                "both again."
            )

    def _read(self, number: int) -> tuple[int, int, int, bytes]:
        """Returns the entry of a record, where the next one begins, and it."""
        data, entries = _open(*self._key)
        # The system ends a process that reads beyond the end of a mapped file.
        if data.size() < self.num_bytes:
            raise ValueError(
                f"{self.path!r} was cut short after it was opened. Build or "
                "copy the file again."
            )
        start, checksum, end = _ENTRY_AND_NEXT.unpack_from(
            self.entries or entries, number * ENTRY.size
        )
        record = data[start + _HEADER_SIZE : end - _CHECKSUM.size]
        return start, checksum, end, record


class RemoteRecordFile(RecordFile):
    """The records of a remote file, which has an index."""

    def __init__(self, path: str, num_records: int) -> None:
        self.path = path
        self._num_records = num_records
        status = files.status(path)
        if status is None:
            raise FileNotFoundError(f"{path!r} is missing; its sidecar is not.")
        self.num_bytes = status.num_bytes

    def _read(self, number: int) -> tuple[int, int, int, bytes]:
        first = number * ENTRY.size
        last = first + _ENTRY_AND_NEXT.size
        entry = files.read_bytes(index_path(self.path), first, last)
        start, checksum, end = _ENTRY_AND_NEXT.unpack(entry)
        begin, stop = start + _HEADER_SIZE, end - _CHECKSUM.size
        record = files.read_bytes(self.path, begin, stop)
        return start, checksum, end, record


@functools.lru_cache(maxsize=MAX_OPEN_FILES)
def _open(
    path: str, _inode: int, _modified: int, footer: Footer | None
) -> tuple[mmap.mmap, mmap.mmap | bytes]:
    """Returns a record file and its index, in memory until the last use."""
    entries: mmap.mmap | bytes = b""
    if footer:
        if _read_footer(index_path(path)) != footer:
            raise ValueError(
                f"{index_path(path)!r} was changed after it was opened. Start "
                "the command again."
            )
        entries = _map_file(index_path(path))
    return _map_file(path), entries


def _map_file(path: str) -> mmap.mmap:
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _read_footer(path: str) -> Footer | None:
    """Returns the footer of an index; None if there is none."""
    try:
        index = _map_file(path)
        footer = Footer(*_FOOTER.unpack(index[-_FOOTER.size :]))
    except (FileNotFoundError, ValueError, struct.error):
        return None  # It is missing, empty or cut short.
    size = (footer.num_records + 1) * ENTRY.size + _FOOTER.size
    return footer if (footer.mark, len(index)) == (_MARK, size) else None


def _scan(path: str) -> bytes:
    """Returns the entries of an index, read from the record file itself."""
    if not os.path.getsize(path):
        return ENTRY.pack(0, 0)
    data = _map_file(path)
    length, checksum = data[: _LENGTH.size], data[_LENGTH.size : _HEADER_SIZE]
    entries, end = b"", 0
    if checksum == _CHECKSUM.pack(masked_checksum(length)):
        entries, end = index_entries(data)
    if end < len(data):
        raise ValueError(
            f"{path!r} is not a whole TFRecord file: the record at byte {end} "
            f"of {len(data)} is damaged or cut short. Pass records that "
            "create_pretraining_data.py wrote, not text, and not compressed; "
            "or build or copy the file again."
        )
    return entries + ENTRY.pack(end, 0)
