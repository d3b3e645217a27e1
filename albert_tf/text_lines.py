"""Lines of text files, plain or compressed, one at a time.

Floor 0: plain Python.
"""

import gzip
import os
import zlib
from collections.abc import Callable, Iterator

from albert_tf import storage
from albert_tf.files import Path

_BYTE_ORDER_MARK = "\ufeff"


def read_lines(path: Path) -> Iterator[str]:
    r"""Yields the lines of a UTF-8 file, without their line ends.

    See `read_numbered_lines`.
    """
    return (line for _, line in read_numbered_lines(path))


def read_numbered_lines(
    path: Path, *, on_bad_line: Callable[[str], None] | None = None
) -> Iterator[tuple[int, str]]:
    r"""Yields the numbers, from 1, and lines of a UTF-8 file.

    Lines end at `\n` or `\r\n` only: U+2028 and similar characters stay in the
    text. A file whose name ends in `.gz` is decompressed. A byte order mark at
    the start of the file is removed. One line is in memory at a time.

    Args:
        path: The file; it may be remote.
        on_bad_line: Called with what is wrong with a line that is not UTF-8,
            which is then skipped; if None, such a line is an error.

    Raises:
        FileNotFoundError: There is no such file.
        ImportError, OSError: It cannot be read.
        ValueError: A line is not UTF-8 (the message names file and line), or
            the gzip data is damaged.
    """
    name = os.fspath(path)
    number = 0
    try:
        with (
            storage.open_read(name) as raw,
            gzip.open(raw) if name.endswith(".gz") else raw as file,
        ):
            for number, line in enumerate(file, start=1):
                try:
                    text = line.decode("utf-8").removesuffix("\n")
                except UnicodeDecodeError as error:
                    message = (
                        f"{name}, line {number}: not UTF-8 ({error.reason} at "
                        f"byte {error.start} of the line)."
                    )
                    if on_bad_line is None:
                        raise ValueError(
                            f"{message} Convert the file to UTF-8."
                        ) from error
                    on_bad_line(message)
                    continue
                if number == 1:
                    text = text.removeprefix(_BYTE_ORDER_MARK)
                yield number, text.removesuffix("\r")
    except FileNotFoundError:
        raise FileNotFoundError(
            f"There is no file {name!r}. Check the path."
        ) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"{name}, after line {number}: damaged gzip data ({error}). "
            "Create or copy the file again."
        ) from error
