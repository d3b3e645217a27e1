"""A table to predict, read anew each time, in constant memory.

Data flow: TSV, CSV or JSONL -> [this file] -> examples -> predictions.
"""

import os
from collections.abc import Iterator

from albert_tf import files
from albert_tf.tasks.classification import examples
from albert_tf.tasks.classification.examples import (
    ClassificationExample,
    Columns,
)


class TableStream:
    """The examples of a file without labels, read anew each time.

    The file is read once when the stream is made, so that bad rows are found
    before any is predicted. Ids are not compared with one another.

    Args:
        path: TSV, or CSV or JSONL by its ending.
        columns: What to read.

    Raises:
        ValueError: It has no rows, a column is missing, or a row is broken.
            The message names file and line.
    """

    def __init__(self, path: files.Path, columns: Columns) -> None:
        self._path = os.fspath(path)
        self._columns = columns
        self._num_rows = examples.warn_of_empty_texts(
            self._rows(), columns, self._path
        )
        if not self._num_rows:
            raise ValueError(f"{self._path} has no examples.")

    def __len__(self) -> int:
        return self._num_rows

    def __iter__(self) -> Iterator[ClassificationExample]:
        """Yields the examples; fails if there are not as many as at first."""
        number = 0
        for number, (_, example) in enumerate(self._rows(), start=1):
            if number > self._num_rows:
                break
            yield example
        if number != self._num_rows:
            raise ValueError(
                f"{self._path} was changed after it was checked: it had "
                f"{self._num_rows} rows. Predict a file that does not change."
            )

    def _rows(self) -> Iterator[tuple[int, ClassificationExample]]:
        return examples.iterate_examples(self._path, self._columns, labels=())
