"""Opens files for reading; compressed ones (`.gz`, `.bz2`, `.zst`) unpacked.

Zstandard is a package of its own, imported when a file needs it.
"""

import bz2
import contextlib
import functools
import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from albert_tf import storage
from albert_tf.files import Path

_KINDS = {".gz": "gzip", ".bz2": "bzip2", ".zst": "Zstandard"}
# How compressed data begins.
_MARKS = {
    ".gz": (b"\x1f\x8b\x08",),
    ".bz2": tuple(b"BZh%d1AY&SY" % level for level in range(1, 10)),
    ".zst": (b"\x28\xb5\x2f\xfd",),
}
_BUFFER_SIZE = 2**17
# All that `bz2` says of data that is not as it should be.
_BAD_BZIP2 = "Invalid data stream"


class DamagedDataError(ValueError):
    """Compressed data is damaged, or ends too early."""


def uncompressed_name(path: Path) -> str:
    """Returns the name that a file has when it is unpacked.

    >>> uncompressed_name("a.txt.gz")
    'a.txt'
    """
    name = os.fspath(path)
    return name[: len(name) - len(_suffix(name))]


@contextlib.contextmanager
def open_read(path: Path) -> Iterator[io.BufferedReader]:
    """Opens a file for reading what is in it, unpacked.

    Its name says how it is compressed. Only some of it is in memory.

    Raises:
        DamagedDataError: What is read of it is damaged, or ends too early.
        FileNotFoundError: There is no such file.
        ImportError: The package that unpacks it is not installed.
        OSError: It cannot be read.
        ValueError: It is compressed in a way that its name does not say.
    """
    name = os.fspath(path)
    suffix = _suffix(name)
    with contextlib.ExitStack() as stack:
        try:
            raw: Any = stack.enter_context(storage.open_read(name))
        except FileNotFoundError:
            raise FileNotFoundError(
                f"There is no file {name!r}. Check the path."
            ) from None
        file = raw
        if suffix:
            unpacked = _Unpacked(_unpacking(suffix, name), raw, _KINDS[suffix])
            file = stack.enter_context(
                io.BufferedReader(unpacked, _BUFFER_SIZE)
            )
        with contextlib.suppress(DamagedDataError):  # Named by the reader.
            _check_name(name, file.peek())
        yield file


def _suffix(name: str) -> str:
    return next((s for s in _KINDS if name.lower().endswith(s)), "")


def _check_name(name: str, head: bytes) -> None:
    for suffix, marks in _MARKS.items():
        if head.startswith(marks):
            raise ValueError(
                f"{name!r} holds {_KINDS[suffix]} data, which its name does "
                f"not say. Add {suffix!r} to its name, or unpack it."
            )


def _unpacking(suffix: str, name: str) -> Callable[[Any], Any]:
    if suffix == ".gz":
        return gzip.open
    if suffix == ".bz2":
        return _Bzip2File
    try:
        from backports import zstd
    except ImportError as error:
        raise ImportError(
            f"{name!r} needs the package backports.zstd. Install it, or the "
            "extra `data` of albert_tf, which has it."
        ) from error
    _, largest = zstd.DecompressionParameter.window_log_max.bounds()
    options = {zstd.DecompressionParameter.window_log_max: largest}
    return functools.partial(zstd.open, options=options)


class _Bzip2File:
    """Unpacks bzip2 data, which may have several parts.

    `bz2.open` takes what is damaged between two parts for the end.
    """

    def __init__(self, raw: io.BufferedReader) -> None:
        self._raw = raw
        self._part = bz2.BZ2Decompressor()

    def read1(self, size: int) -> bytes:
        """Returns some bytes, none at the end."""
        data = b""
        while not data:
            packed = b""
            if self._part.eof:
                packed = self._part.unused_data or self._raw.read1(_BUFFER_SIZE)
                if not packed:
                    break
                self._part = bz2.BZ2Decompressor()
            elif self._part.needs_input:
                packed = self._raw.read1(_BUFFER_SIZE)
                if not packed:
                    raise EOFError("it ends too early")
            data = self._part.decompress(packed, size)
        return data

    def close(self) -> None:
        """Leaves the file open, as the other libraries do."""


class _Unpacked(io.RawIOBase):
    """The content of a compressed file."""

    def __init__(
        self,
        unpack: Callable[[Any], Any],
        raw: io.BufferedReader,
        kind: str,
    ) -> None:
        # `gzip` takes a file without a byte for one of an empty content.
        self._damage = "" if raw.peek(1) else "it has no byte"
        self._file = unpack(raw)
        self._kind = kind

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = b""
        try:
            # After an error, the libraries may go on as if nothing were wrong.
            if not self._damage:
                data = self._file.read1(len(buffer))
        except Exception as error:
            if not _is_damage(error):
                raise
            self._damage = str(error)
        if self._damage:
            raise DamagedDataError(
                f"damaged {self._kind} data ({self._damage})."
            )
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def _is_damage(error: Exception) -> bool:
    if isinstance(error, EOFError | zlib.error | gzip.BadGzipFile):
        return True
    return str(error) == _BAD_BZIP2 or type(error).__name__ == "ZstdError"
