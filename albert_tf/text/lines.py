"""Reads lines of text files, plain or gzipped; errors name the line.

Data flow: text files -> [this file] -> vocabulary, records, data of tasks.
Floor: text. Plain Python.
"""

import gzip
import os
import zlib
from collections.abc import Iterator
from typing import IO

from albert_tf import files

_BYTE_ORDER_MARK = "\ufeff"


def read_lines(path: files.Path) -> Iterator[str]:
    r"""Yields the lines of a UTF-8 file, without their line ends.

    Lines end at `\n` or `\r\n` only: U+2028 and similar characters stay in the
    text. A file whose name ends in `.gz` is decompressed. A byte order mark at
    the start of the file is removed. One line is in memory at a time.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: A line is not UTF-8 (the message names file and line), or
            the gzip data is damaged.
    """
    name = files.check_local(path)
    number = 0
    try:
        with _open(name) as file:
            for number, line in enumerate(file, start=1):
                text = line.decode("utf-8").removesuffix("\n")
                if number == 1:
                    text = text.removeprefix(_BYTE_ORDER_MARK)
                yield text.removesuffix("\r")
    except FileNotFoundError:
        raise FileNotFoundError(
            f"There is no file {name!r}. Check the path."
        ) from None
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name}, line {number}: not UTF-8 ({error.reason} at byte "
            f"{error.start} of the line). Convert the file to UTF-8."
        ) from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"{name}, after line {number}: damaged gzip data ({error}). "
            "Create or copy the file again."
        ) from error


def _open(name: str) -> IO[bytes] | gzip.GzipFile:
    if os.path.splitext(name)[1] == ".gz":
        return gzip.open(name, "rb")
    return open(name, "rb")
