"""Reads a column of text from a Parquet file.

pyarrow is imported when a file is read. A few rows are in memory at a time:
columns are read in small parts, not by row groups, which can be as large as
the file.
"""

from collections.abc import Callable, Iterator
from typing import IO, Any

# How such a file begins.
MARK = b"PAR1"
_BATCH_ROWS = 64
_BUFFER_SIZE = 2**18


def read_texts(
    file: IO[bytes],
    name: str,
    column: str,
    *,
    on_bad_row: Callable[[str], None],
) -> Iterator[str]:
    """Yields the texts of a column, row by row.

    Args:
        file: The file, open for reading bytes, from any place.
        name: Its name, for messages.
        column: The column, which holds text.
        on_bad_row: Called with what is wrong with a row without a text, or
            whose text is not UTF-8; it is then skipped. Rows are numbered from
            1.

    Raises:
        ImportError: pyarrow is not installed.
        ValueError: The file is no Parquet file, or damaged; or it has no such
            column, or one that is not text.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(
            f"{name!r} needs the package pyarrow. Install it, or the extra "
            "`data` of albert_tf, which has it."
        ) from error
    number = 0
    try:
        opened = parquet.ParquetFile(
            file,
            buffer_size=_BUFFER_SIZE,
            pre_buffer=False,
            page_checksum_verification=True,
        )
        _check_column(opened.schema_arrow, name, column)
        batches = opened.iter_batches(
            _BATCH_ROWS, columns=[column], use_threads=False
        )
        for batch in batches:
            for value in batch.column(column):
                number += 1
                text = _text(value)
                if text is not None:
                    yield text
                    continue
                on_bad_row(
                    f"{name!r}, row {number} has no {column!r} that is a "
                    "string of Unicode characters."
                )
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(
            f"{name!r}, after row {number}: not a Parquet file, or damaged "
            f"({error}). Create or copy the file again."
        ) from error


def _check_column(schema: Any, name: str, column: str) -> None:
    from pyarrow import types

    if schema.names.count(column) != 1:
        raise ValueError(
            f"{name!r} has no column {column!r}, or several. `text_field` "
            f"names another. Its columns: {', '.join(schema.names)}."
        )
    kind = schema.field(column).type
    value = kind.value_type if types.is_dictionary(kind) else kind
    if not (
        types.is_string(value)
        or types.is_large_string(value)
        or types.is_string_view(value)
    ):
        raise ValueError(
            f"The column {column!r} of {name!r} is not text, but {kind}. "
            "`text_field` names another column."
        )


def _text(value: Any) -> str | None:
    """Returns a value as a string; None if it is null or not UTF-8."""
    try:
        text: str | None = value.as_py()
    except UnicodeDecodeError:
        return None
    return text
