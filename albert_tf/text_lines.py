"""Lines of text files, plain or compressed, one at a time."""

import os
from collections.abc import Callable, Iterator
from typing import IO

from albert_tf import compression
from albert_tf.files import Path

_BYTE_ORDER_MARK = "\ufeff"


def read_lines(path: Path) -> Iterator[str]:
    r"""Yields the lines of a UTF-8 file, without their line ends.

    See `numbered_lines`; the file may be compressed, see `compression`.

    Raises:
        FileNotFoundError: There is no such file.
        ImportError, OSError: It cannot be read.
        ValueError: See `numbered_lines`.
    """
    with compression.open_read(path) as file:
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
    text. A byte order mark at the start of the file is removed. One line is in
    memory at a time.

    Args:
        file: The file, open for reading bytes.
        name: Its name, for messages.
        on_bad_line: Called with what is wrong with a line that is not UTF-8,
            which is then skipped; if None, such a line is an error.

    Raises:
        ValueError: A line is not UTF-8 (the message names file and line), or
            compressed data is damaged.
    """
    number = 0
    try:
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
    except compression.DamagedDataError as error:
        raise ValueError(
            f"{name}, after line {number}: {error} Create or copy the file "
            "again."
        ) from error
