r"""Rows of TSV, CSV and JSONL files, with columns chosen by name.

Data flow: file -> [this file] -> examples of a task.

TSV is what GLUE means by it: a tab always ends a field, and a line end always
ends a row. Quotes are plain characters, and a field cannot hold a tab. CSV is
that of RFC 4180: a field in double quotes may hold commas, line breaks and,
written twice, quotes. JSONL has one object per line. All may be gzipped; one
row is in memory at a time.
"""

import csv
import itertools
import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

from albert_tf import files
from albert_tf.text import text_lines

_JSONL_ENDINGS = (".jsonl", ".json", ".jsonl.gz", ".json.gz")
_CSV_ENDINGS = (".csv", ".csv.gz")
# What an opening quote without a closing one would take into memory, at most.
_MAX_FIELD_CHARACTERS = 10_000_000
NUM_SHOWN = 5
# Its line number in the file, from 1, and the fields of the chosen columns.
Row: TypeAlias = tuple[int, tuple[str, ...]]
# A line of JSONL, or the fields of a row.
_Line = TypeVar("_Line", str, list[str])


def read_header(path: files.Path) -> tuple[str, ...]:
    """Returns the column names: the first row, or keys of the first object.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file is a pipe or empty, or its first line is not a
            JSON object.
    """
    _check_is_file(path)
    if _is_jsonl(path):
        for line in text_lines.read_lines(path):
            return tuple(parse_object(line, f"{path}, line 1"))
    else:
        for _, fields in _read_fields(path):
            return tuple(fields or [""])
    raise ValueError(f"{path} is empty. Pass a file with examples.")


def read_rows(
    path: files.Path,
    columns: Sequence[str],
    *,
    header: Sequence[str] | None = None,
    broken_rows: list[int] | None = None,
    list_column: str | None = None,
) -> Iterator[Row]:
    """Yields the line number and the named columns of every row.

    A row of several lines has the number of its first one.

    Args:
        path: A TSV file, or CSV or JSONL by its ending.
        columns: In the order to return.
        header: Column names of a file that has no header row.
        broken_rows: List to which the line numbers of rows with too few or
            too many fields are added, which are then skipped; None to raise
            an error. JSONL has no such rows.
        list_column: Column whose values may be lists of JSONL, which are
            returned as JSON text.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file is a pipe; or a column is missing, or a row has
            too few or too many fields or is not a JSON object. The message
            names file and line.
    """
    _check_is_file(path)
    if _is_jsonl(path):
        for number, line in _without_last_blanks(_numbered_lines(path)):
            where = f"{path}, line {number}"
            values = parse_object(line, where)
            yield (
                number,
                tuple(
                    _text(values, name, where, may_be_list=name == list_column)
                    for name in columns
                ),
            )
        return
    num_header_rows = 0 if header else 1
    header = tuple(header or read_header(path))
    places = [_find_column(column, header, path) for column in columns]
    rows = _without_last_blanks(_read_fields(path))
    for number, found in itertools.islice(rows, num_header_rows, None):
        # An empty line is an empty field of a single column.
        fields = found or [""]
        if len(fields) == len(header):
            yield number, tuple(fields[place] for place in places)
        elif broken_rows is not None:
            broken_rows.append(number)
        else:
            raise ValueError(
                f"{path}, line {number}: the row must have {len(header)} "
                f"fields ({', '.join(header)}), separated by "
                f"{_separation(path)}. Received: {len(fields)} fields. Fix the "
                "row."
            )


def _check_is_file(path: files.Path) -> None:
    """Refuses a pipe: what has been read of it is not there the next time."""
    name = files.check_local(path)
    if os.path.exists(name) and not os.path.isfile(name):
        raise ValueError(
            f"{name!r} is a folder or a pipe. A table is read several times, "
            "so pass a file."
        )


def _is_jsonl(path: files.Path) -> bool:
    return files.check_local(path).endswith(_JSONL_ENDINGS)


def _is_csv(path: files.Path) -> bool:
    return files.check_local(path).endswith(_CSV_ENDINGS)


def _separation(path: files.Path) -> str:
    if _is_csv(path):
        return "commas; a text with a comma or a line break needs quotes"
    return "tabs; a text cannot hold a tab or a line break"


def _numbered_lines(path: files.Path) -> Iterator[tuple[int, str]]:
    return enumerate(text_lines.read_lines(path), start=1)


def _read_fields(path: files.Path) -> Iterator[tuple[int, list[str]]]:
    """Yields the line number and the fields of every row, also of the first.

    An empty line has no fields.
    """
    if not _is_csv(path):
        for number, line in _numbered_lines(path):
            yield number, line.split("\t") if line else []
        return
    csv.field_size_limit(_MAX_FIELD_CHARACTERS)
    lines = (f"{line}\n" for line in text_lines.read_lines(path))
    reader = csv.reader(lines, strict=True)
    number = 1
    try:
        for fields in reader:
            yield number, fields
            number = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {number}: the row is not CSV ({error}). Write a "
            "text with a comma, a line break or quotes in double quotes, and "
            "the quotes in it twice."
        ) from error


def _find_column(column: str, header: Sequence[str], path: files.Path) -> int:
    if header.count(column) == 1:
        return header.index(column)
    trouble = "two columns" if column in header else "no column"
    raise ValueError(
        f"{path} has {trouble} named {column!r}. The columns in its first row "
        f"are {', '.join(map(repr, header))}."
    )


def _without_last_blanks(
    rows: Iterable[tuple[int, _Line]],
) -> Iterator[tuple[int, _Line]]:
    """Yields numbers and rows, without the blank lines that end the file."""
    blanks: list[tuple[int, _Line]] = []
    for number, row in rows:
        if not row:
            blanks.append((number, row))
            continue
        yield from blanks
        blanks = []
        yield number, row


def parse_object(text: str, where: str) -> dict[str, Any]:
    """Parses a JSON object.

    Raises:
        ValueError: It is not a JSON object, or has half a surrogate pair; the
            message begins with `where`.
    """
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{where} is not JSON ({error}). Write one object per line."
        ) from error
    if not isinstance(values, dict):
        raise ValueError(
            f"{where} must be a JSON object with the columns as keys. "
            f"Received: {text[:40]!r}."
        )
    check_characters(text, values, where)
    return values


def check_characters(text: str, values: Any, where: str) -> None:
    r"""Refuses half a surrogate pair, which JSON can escape (`\ud83d`).

    UTF-8 cannot represent it, so writing the predictions would fail.

    `text` is the JSON, `values` what it was parsed to.

    Raises:
        ValueError: There is one; the message begins with `where`.
    """
    if "\\ud" not in text.lower():
        return
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise ValueError(
            f"{where} has {half}, which is half of a surrogate pair and not a "
            "character. Replace it."
        ) from None


def shown_few(items: Iterable[str]) -> str:
    """Returns the first few items as one text.

    >>> shown_few("abcde"), shown_few("abcdef")
    ('a, b, c, d, e', 'a, b, c, d, e, ...')
    """
    items = list(items)
    shown = ", ".join(items[:NUM_SHOWN])
    return f"{shown}, ..." if len(items) > NUM_SHOWN else shown


def _text(
    values: dict[str, Any], column: str, where: str, *, may_be_list: bool
) -> str:
    if column not in values:
        raise ValueError(
            f"{where}: the object has no key {column!r}. Its keys are "
            f"{', '.join(map(repr, values))}."
        )
    value = values[column]
    if isinstance(value, str):
        return value
    if may_be_list and isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    # A label may be a number or true or false: written as in JSON.
    is_finite = not isinstance(value, float) or math.isfinite(value)
    if isinstance(value, bool | int | float) and is_finite:
        return json.dumps(value)
    raise ValueError(
        f"{where}: {column!r} must be a string or a number. Received: "
        f"{column}={value!r}."
    )
