"""Reads text files line by line; `.gz`, `.bz2` and `.zst` are decompressed."""

import bz2
import contextlib
import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any

from albert_tf import checks, files
from albert_tf.files import Path

_BYTE_ORDER_MARK = "\ufeff"
_COMPRESSED_NAMES = (".gz", ".bz2", ".zst")


def uncompressed_name(path: Path) -> str:
    """Returns the name that a file has when it is decompressed.

    >>> uncompressed_name("a.txt.gz")
    'a.txt'
    """
    stem, suffix = os.path.splitext(os.fspath(path))
    return stem if suffix.lower() in _COMPRESSED_NAMES else stem + suffix


@contextlib.contextmanager
def open_read(path: Path) -> Iterator[IO[bytes]]:
    """Opens a local or remote file; its name says how it is compressed."""
    name = os.fspath(path)
    suffix = os.path.splitext(name)[1].lower()
    with files.open_read(name) as raw:
        if suffix not in _COMPRESSED_NAMES:
            yield raw
            return
        if not raw.peek(1):
            raise ValueError(f"{name!r} is empty, which no compressed file is.")
        try:
            yield _decompressed(raw, name, suffix)
        except Exception as error:
            # `bz2` raises OSError; the package of ZstdError may be missing.
            is_damage = isinstance(error, EOFError | OSError | zlib.error)
            if not is_damage and type(error).__name__ != "ZstdError":
                raise
            raise ValueError(
                f"{name!r}: the compressed data is damaged or incomplete "
                f"({error}). Create or copy the file again."
            ) from error


def _decompressed(raw: IO[bytes], name: str, suffix: str) -> Any:
    if suffix == ".gz":
        return gzip.open(raw)
    if suffix == ".bz2":
        return bz2.open(raw)
    with checks.needs_package("backports.zstd", repr(name)):
        from backports import zstd
    # Large corpora are compressed with `zstd --long=31`.
    parameter = zstd.DecompressionParameter.window_log_max
    limits: dict[int, int] = {parameter: parameter.bounds()[1]}
    return zstd.open(raw, options=limits)


def checked_text(text: object) -> str:
    """Returns a text; raises TypeError or ValueError if it is none."""
    if not isinstance(text, str):
        raise TypeError(f"{type(text).__name__} instead of a text")
    text.encode()  # JSON may have lone surrogates.
    return text


def read_lines(path: Path) -> Iterator[str]:
    """Yields the lines of a UTF-8 file; see `numbered_lines`."""
    with open_read(path) as file:
        for _, line in numbered_lines(file, os.fspath(path)):
            yield line


def numbered_lines(
    file: IO[bytes],
    name: str,
    *,
    on_bad_line: Callable[[str], None] | None = None,
) -> Iterator[tuple[int, str]]:
    r"""Yields the numbers, from 1, and lines of a UTF-8 file.

    Lines end at `\n` or `\r\n` only: U+2028 and similar characters stay in the
    text. A byte order mark at the start of the file is removed.

    A line that is not UTF-8 is a ValueError; or `on_bad_line` is called with
    its message, and the line is skipped.
    """
    for number, line in enumerate(file, start=1):
        if number == 1 and b"\0" in line:
            raise ValueError(f"{name} is not a text file: it has zero bytes.")
        try:
            text = line.decode("utf-8").removesuffix("\n")
        except UnicodeDecodeError as error:
            message = (
                f"{name}, line {number}: not UTF-8 ({error.reason} at "
                f"byte {error.start} of the line)."
            )
            if on_bad_line is None:
                raise ValueError(f"{message} Convert it to UTF-8.") from error
            on_bad_line(message)
            continue
        if number == 1:
            text = text.removeprefix(_BYTE_ORDER_MARK)
        yield number, text.removesuffix("\r")
