"""Files of predictions, written row by row.

Data flow: answers of a model -> [this file] -> `test_results.tsv`, submission.

Source: google-research/albert, `run_classifier.py`; gluebenchmark.com.
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from albert_tf import files

TEST_RESULTS = "test_results.tsv"


@contextlib.contextmanager
def open_files(
    output_dir: str, submission_file: str
) -> Iterator[Callable[[Iterable[np.floating], Mapping[str, str]], None]]:
    """Opens both files of a set; they appear when the context ends well.

    Returns:
        A function that writes the next row of each: the numbers of
        `test_results.tsv`, which has no header, with all their digits; and
        the fields of the submission, whose header has the names of the first.
    """
    with (
        files.atomic_write(os.path.join(output_dir, TEST_RESULTS)) as numbers,
        files.atomic_write(os.path.join(output_dir, submission_file)) as table,
    ):

        def write(
            values: Iterable[np.floating], fields: Mapping[str, str]
        ) -> None:
            if not table.tell():
                table.write(_row(fields))
            numbers.write(_row(map(digits, values)))
            table.write(_row(fields.values()))

        yield write


def digits(number: np.floating) -> str:
    """Writes all digits of a float32.

    With fewer digits, correlations computed from the file as float64 would
    differ from the reported ones, if the numbers hardly differ.
    """
    return str(float(np.float32(number)))


def _row(fields: Iterable[str]) -> bytes:
    # An id of a JSON line or of a quoted CSV may have what ends a field.
    cells = (re.sub(r"[\t\r\n]", " ", field) for field in fields)
    return ("\t".join(cells) + "\n").encode()
