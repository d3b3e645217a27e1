"""The index of a record file: where each record is, and its checksum.

Data flow: framed records -> [this file] -> index file -> `record_files.py`.

`<record file>.index` has an entry for each record: where its frame begins
(uint64) and its masked checksum (uint32); an entry for the end of the record
file; and a footer: a mark of 8 bytes, the number of records, the size of the
record file (uint64 each), and its SHA-256. All are little-endian.

With an index, a record file is opened without reading it, and a record that is
not the one that was written is noticed when it is read.
"""

import contextlib
import mmap
import os
import struct
from collections.abc import Iterator
from typing import IO, NamedTuple

import google_crc32c

from albert_tf import files, storage

# Names of the files beside a record file, and of unfinished ones, end so.
OTHER_SUFFIXES = (".json", ".index", ".partial")

# A frame: length, its checksum, the record, its checksum.
LENGTH = struct.Struct("<Q")
CHECKSUM = struct.Struct("<I")
HEADER_SIZE = LENGTH.size + CHECKSUM.size
_FRAME_SIZE = HEADER_SIZE + CHECKSUM.size
_CHECKSUM_DELTA = 0xA282EAD8
_UINT32 = 0xFFFFFFFF

# An entry, and an entry with the beginning of the next frame.
ENTRY = struct.Struct("<QI")
ENTRY_AND_NEXT = struct.Struct("<QIQ")
_FOOTER = struct.Struct("<8sQQ32s")
_MARK = b"TFRINDX1"


class Footer(NamedTuple):
    """What ends an index: of which content it is the index.

    `num_bytes` and `sha256` are those of the record file.
    """

    mark: bytes
    num_records: int
    num_bytes: int
    sha256: bytes


def masked_checksum(data: bytes) -> int:
    """Returns the CRC-32C of `data`, rotated and shifted as TFRecord does."""
    checksum = google_crc32c.value(data)
    rotated = (checksum >> 15) | (checksum << 17)
    return (rotated + _CHECKSUM_DELTA) & _UINT32


def index_path(record_path: files.Path) -> str:
    """Returns the path of the index of a record file."""
    return os.fspath(record_path) + ".index"


class IndexWriter:
    """Writes an index; made by `index_writer`."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._num_records = 0
        self._num_bytes = 0

    def add(self, framed: bytes) -> None:
        """Adds the next bytes of the record file, which are whole records."""
        entries, _ = _entries(framed, self._num_bytes)
        self._file.write(entries)
        self._num_records += len(entries) // ENTRY.size
        self._num_bytes += len(framed)

    def finish(self, sha256: str) -> None:
        """Ends the index, given the hexadecimal digest of the record file."""
        content = bytes.fromhex(sha256)
        footer = Footer(_MARK, self._num_records, self._num_bytes, content)
        self._file.write(ENTRY.pack(self._num_bytes, 0) + _FOOTER.pack(*footer))
        files.flush(self._file)


@contextlib.contextmanager
def index_writer(record_path: files.Path) -> Iterator[IndexWriter]:
    """Gives the writer of the index of a record file that is being written.

    Raises:
        ValueError: As `check_replaceable`.
    """
    check_replaceable(record_path)
    with storage.atomic_write(index_path(record_path)) as file:
        yield IndexWriter(file)


def check_replaceable(record_path: files.Path) -> None:
    """Checks that an index of a record file can be written.

    Raises:
        ValueError: Another file has the name of the index.
    """
    path = index_path(record_path)
    if storage.exists(path) and _read_footer(path) is None:
        raise ValueError(
            f"{path!r} exists already, and is not the index of a record file. "
            "Move it, or choose another output file."
        )


def read_footer(
    record_path: str, num_bytes: int, sha256: str | None
) -> Footer | None:
    """Returns the footer of a record file's index.

    None if there is no index of such content.
    """
    path = index_path(record_path)
    footer = _read_footer(path) if os.path.exists(path) else None
    if footer is None or footer.num_bytes != num_bytes:
        return None
    return footer if footer.sha256.hex() == sha256 else None


def map_entries(record_path: str, footer: Footer) -> mmap.mmap:
    """Maps the index that has this footer into memory.

    Raises:
        ValueError: It has another one by now.
    """
    path = index_path(record_path)
    if _read_footer(path) != footer:
        raise ValueError(
            f"{path!r} was changed after it was opened. Start the command "
            "again."
        )
    return map_file(path)


def check_entries(record_path: str, footer: Footer) -> None:
    """Checks that the index that has this footer says where records are.

    Raises:
        ValueError: It does not; or as `scan`.
    """
    entries = scan(record_path)
    with map_entries(record_path, footer) as found:
        if found[: len(entries)] != entries:
            raise ValueError(
                f"{index_path(record_path)!r} is damaged: it does not say "
                "where the records are. Remove it, or build or copy it again."
            )


def scan(record_path: str) -> bytes:
    """Returns the entries of an index, read from the record file itself.

    Raises:
        ValueError: See `record_files.RecordFile`.
    """
    if not os.path.getsize(record_path):
        return ENTRY.pack(0, 0)
    data = map_file(record_path)
    if not _is_header(data[:HEADER_SIZE]):
        raise ValueError(
            f"{record_path!r} is not a TFRecord file: the header at byte 0 "
            "does not agree with its checksum. Pass records that "
            "create_pretraining_data.py wrote, not text, and not compressed."
        )
    entries, end = _entries(data)
    if end == len(data):
        return entries + ENTRY.pack(end, 0)
    header = data[end : end + HEADER_SIZE]
    if len(header) == HEADER_SIZE and not _is_header(header):
        raise ValueError(
            f"{record_path!r} is damaged: the length of the record at byte "
            f"{end} does not agree with its checksum. Build or copy the file "
            "again."
        )
    raise ValueError(
        f"{record_path!r} was cut short: the record at byte {end} goes beyond "
        f"the end of the file, byte {len(data)}. Build or copy the file again."
    )


def _is_header(header: bytes) -> bool:
    length, checksum = header[: LENGTH.size], header[LENGTH.size :]
    return checksum == CHECKSUM.pack(masked_checksum(length))


def _entries(framed: mmap.mmap | bytes, first: int = 0) -> tuple[bytes, int]:
    """Returns the entries of framed records, and where the last one ends.

    The first one begins at byte `first` of the file. Records are counted as
    long as their lengths lead to a whole one.
    """
    entries, position, size = bytearray(), 0, len(framed)
    while position + _FRAME_SIZE <= size:
        end = position + _FRAME_SIZE + LENGTH.unpack_from(framed, position)[0]
        if end > size:
            break
        (checksum,) = CHECKSUM.unpack_from(framed, end - CHECKSUM.size)
        entries += ENTRY.pack(first + position, checksum)
        position = end
    return bytes(entries), position


def map_file(path: str) -> mmap.mmap:
    """Maps a file into memory.

    Raises:
        ValueError: It is empty.
    """
    if not os.path.getsize(path):
        raise ValueError(f"{path!r} is empty. Build or copy the file again.")
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _read_footer(path: str) -> Footer | None:
    """Returns the footer of an index; None if the file is not one."""
    with storage.open_read(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _FOOTER.size))
        data = file.read()
    if len(data) != _FOOTER.size:
        return None
    footer = Footer(*_FOOTER.unpack(data))
    entries_size = (footer.num_records + 1) * ENTRY.size
    is_index = footer.mark == _MARK and size == entries_size + _FOOTER.size
    return footer if is_index else None
