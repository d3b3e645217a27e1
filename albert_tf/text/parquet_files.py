"""Reads the texts of a Parquet file, one in each row; needs pyarrow.

Data flow: `.parquet` -> [this file] -> texts of `documents.py`.
"""

from collections.abc import Callable, Iterator
from typing import IO

from albert_tf import checks
from albert_tf.text import text_lines

# A few rows are in memory at a time: columns are read in small parts, not by
# row groups, which can be as large as the file.
_NUM_ROWS = 64
_BUFFER_SIZE = 2**18


def read_texts(
    file: IO[bytes], path: str, column: str, on_bad_text: Callable[[str], None]
) -> Iterator[str]:
    """Yields the texts of a column; see `documents.DocumentReader`."""
    with checks.needs_package("pyarrow", repr(path)):
        import pyarrow
        from pyarrow import parquet
    try:
        table = parquet.ParquetFile(
            file,
            buffer_size=_BUFFER_SIZE,
            pre_buffer=False,
            page_checksum_verification=True,
        )
        columns = table.schema_arrow.names
        if column not in columns:
            raise ValueError(
                f"{path!r} has no column {column!r}. `text_field` names "
                f"another. Its columns: {checks.listed(columns)}."
            )
        batches = table.iter_batches(
            _NUM_ROWS, columns=[column], use_threads=False
        )
        cells = (cell for batch in batches for cell in batch[column])
        for number, cell in enumerate(cells, start=1):
            try:
                text = text_lines.checked_text(cell.as_py())
            except (TypeError, UnicodeError) as error:
                on_bad_text(
                    f"{path!r}, row {number} has no text in the column "
                    f"{column!r} ({error})."
                )
            else:
                yield text
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(
            f"{path!r} is not a Parquet file, or is damaged ({error})."
        ) from error
