r"""Reads files of examples, rows of tables or lines of JSON, and checks them.

Data flow: file -> [this file] -> examples of a task.

TSV is what GLUE means by it: a tab always ends a field, a line end a row, and
quotes are plain characters. CSV follows RFC 4180. JSONL has one object per
line. All may be gzipped; one row is in memory at a time.
"""

import collections
import csv
import itertools
import json
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from albert_tf import files
from albert_tf.text import text_lines

_JSONL_ENDINGS = (".jsonl", ".json", ".jsonl.gz", ".json.gz")
_CSV_ENDINGS = (".csv", ".csv.gz")
# The most that an opening quote without a closing one takes into memory.
_MAX_FIELD_CHARACTERS = 10_000_000
# The line number in the file, from 1, and the fields of a row.
Row: TypeAlias = tuple[int, Sequence[str]]


class RowsInMemory(NamedTuple):
    """Rows in place of a file, and the name that messages call them by."""

    name: str
    rows: Sequence[Mapping[str, object]]

    def __str__(self) -> str:
        return self.name


Source: TypeAlias = files.Path | RowsInMemory


def rows_in_memory(name: str, rows: Any) -> RowsInMemory:
    """Returns a list of dicts, another iterable, or a data frame as rows."""
    rows = list(rows_of_table(rows) if hasattr(rows, "columns") else rows)
    if not all(isinstance(row, Mapping) for row in rows):
        raise ValueError(f"`{name}` must be rows: dicts of values by column.")
    for number, row in enumerate(rows, 1):
        if "\\ud" in repr(row):
            try:  # As for a file of JSON lines.
                _check_writable(row)
            except ValueError as error:
                raise ValueError(f"{name}, row {number}: {error}") from error
    return RowsInMemory(name, rows)


def rows_of_table(table: Any) -> list[dict[str, object]]:
    """Returns the rows of a data frame of pandas, polars or PyArrow."""
    names = [*getattr(table, "column_names", table.columns)]
    if len({*names}) < len(names):  # A row would have one of them.
        raise ValueError(f"Two columns have the same name: {names}.")
    calls = {"to_dicts": (), "to_pylist": (), "to_dict": ("records",)}
    for method, arguments in calls.items():  # polars, PyArrow, pandas
        if hasattr(table, method):
            return [*getattr(table, method)(*arguments)]
    raise ValueError(
        "Pass a data frame of pandas, polars or PyArrow, or a list of dicts. "
        f"Received: {type(table).__name__}."
    )


def texts_of_row(
    row: Mapping[str, object], columns: Sequence[str], where: str
) -> tuple[str, ...]:
    """Returns the texts in some columns of a row, as `read_rows` does."""
    return tuple(_text({**row}, name, where, None) for name in columns)


def _check_writable(values: object) -> None:
    """Checks that no text has half of a surrogate pair."""
    json.dumps(values, default=repr, ensure_ascii=False).encode()


def read_header(path: Source) -> tuple[str, ...]:
    """Returns the column names: the first row, or keys of the first object."""
    read: Any = read_objects if has_objects(path) else _read_fields
    _, names = next(read(path), (1, ()))
    return tuple(names)


def read_rows(
    path: Source,
    columns: Sequence[str],
    *,
    header: Sequence[str] | None = None,
    broken_rows: list[int] | None = None,
    list_column: str | None = None,
) -> Iterator[Row]:
    """Yields the first line number and the named columns of every row.

    Args:
        path: A TSV file, or CSV or JSONL by its ending; or rows in memory.
        columns: In the order to return.
        header: Column names of a file that has no header row.
        broken_rows: Gets the line numbers of rows with too few or too many
            fields, which are skipped; without it, they are an error.
        list_column: Column whose values may be lists, returned as JSON.
    """
    if has_objects(path):
        for line, values in read_objects(path):
            where = f"{path}, line {line}"
            texts = (_text(values, n, where, list_column) for n in columns)
            yield line, tuple(texts)
        return
    rows = _without_last_blanks(_read_fields(path))
    if header is None:
        _, header = next(rows, (1, ()))
    if not header:
        raise ValueError(f"{path} is empty. It must begin with column names.")
    for column in columns:
        if header.count(column) != 1:
            raise ValueError(
                f"{path} must have one column named {column!r}. Its columns "
                f"are {', '.join(map(repr, header))}."
            )
    positions = [*map(header.index, columns)]
    for line, row in rows:
        # An empty line is an empty field of a single column.
        fields = row or [""]
        if len(fields) == len(header):
            yield line, tuple(fields[position] for position in positions)
        elif broken_rows is not None:
            broken_rows.append(line)
        else:
            raise ValueError(
                f"{path}, line {line}: the row must have {len(header)} fields "
                f"({', '.join(header)}). Received: {len(fields)} fields. A "
                "text with tabs, commas or line breaks needs CSV with quotes."
            )


def read_objects(path: Source) -> Iterator[tuple[int, files.JsonObject]]:
    """Yields the objects of a file of JSON lines, with their line numbers.

    Blank lines do not count. Rows in memory are numbered from 1.
    """
    if isinstance(path, RowsInMemory):
        yield from ((line, {**row}) for line, row in enumerate(path.rows, 1))
        return
    for line, text in enumerate(text_lines.read_lines(path), start=1):
        if not text.strip():
            continue
        try:
            values = json.loads(text)
            if "\\u" in text:
                _check_writable(values)
        except (RecursionError, ValueError) as error:
            raise ValueError(
                f"{path}, line {line} is not JSON: {error}."
            ) from error
        if not isinstance(values, dict):
            raise ValueError(
                f"{path}, line {line} must be a JSON object, not {text[:40]}."
            )
        yield line, values


def check_ids(ids: Sequence[str], where: str) -> None:
    """Checks that there are examples, and that each has an id of its own."""
    if not ids:
        raise ValueError(f"{where} has no examples.")
    [(example_id, count)] = collections.Counter(ids).most_common(1)
    if count > 1:
        raise ValueError(
            f"{where}: two examples have the id {example_id!r}. Give each "
            "its own."
        )


def find_text(text: str, context: str, start: int) -> tuple[int, int] | None:
    """Returns start and end of a text in another, nearest to `start`, or None.

    White space, case and the form of accents may differ, in its place first.

    >>> find_text("ann lee", "Then Ann  Lee spoke", 7)
    (5, 13)
    """
    if start >= 0 and context.startswith(text, start):
        return start, start + len(text)
    forms = [text, *(unicodedata.normalize(f, text) for f in ("NFC", "NFD"))]
    words = [r"\s+".join(map(re.escape, form.split())) for form in forms]
    # An accent that follows would belong to the last letter.
    pattern = rf"(?:{'|'.join(words)})(?![\u0300-\u036f])"
    nearest = min(
        re.finditer(pattern, context, re.IGNORECASE),
        key=lambda match: (
            match.start() != start,
            match[0] != text,
            abs(match.start() - start),
        ),
        default=None,
    )
    return nearest and nearest.span()


def has_objects(path: Source) -> bool:
    """Returns whether rows are objects: lines of JSON, or rows in memory."""
    if isinstance(path, RowsInMemory):
        return True
    return files.check_local(path).endswith(_JSONL_ENDINGS)


def _read_fields(path: Any) -> Iterator[Row]:
    lines = text_lines.read_lines(path)
    if not files.check_local(path).endswith(_CSV_ENDINGS):
        for line, text in enumerate(lines, start=1):
            yield line, text.split("\t") if text else []
        return
    csv.field_size_limit(_MAX_FIELD_CHARACTERS)
    header = next(lines, "")
    # Where numbers have commas, spreadsheets put semicolons between columns.
    delimiter = ";" if ";" in header and "," not in header else ","
    reader = csv.reader(
        (f"{text}\n" for text in itertools.chain([header], lines)),
        delimiter=delimiter,
        strict=True,
    )
    line = 1
    try:
        for fields in reader:
            yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{path}, line {line}: not CSV: {error}.") from error


def _without_last_blanks(rows: Iterable[Row]) -> Iterator[Row]:
    blanks = []
    for row in rows:
        blanks.append(row)
        if row[1]:
            yield from blanks
            blanks = []


def _text(
    values: files.JsonObject, column: str, where: str, list_column: str | None
) -> str:
    value: Any = values.get(column)
    if isinstance(value, str):
        return str.__str__(value)  # An Enum is printed by its name.
    if hasattr(value, "tolist"):  # a number of NumPy
        value = value.tolist()
    # A label may be a number or true or false: written as in JSON. In a
    # DataFrame, NaN is a missing value.
    if (isinstance(value, int | float) and not math.isnan(value)) or (
        column == list_column and isinstance(value, list)
    ):
        return json.dumps(value, ensure_ascii=False)
    raise ValueError(
        f"{where}: {column!r} must be a string or a number. Received: "
        f"{value!r}; the keys are {', '.join(map(repr, values))}."
    )
