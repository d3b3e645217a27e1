"""Files of predictions of classification and regression.

Source: google-research/albert, `run_classifier` (`test_results.tsv`); GLUE
(submissions).
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from albert_tf import files

TEST_RESULTS = "test_results.tsv"


class Prediction(NamedTuple):
    """What is written of an example; `label` is None if it is not known."""

    guid: str
    prediction: str
    label: str | None
    numbers: list[float]


@contextlib.contextmanager
def open_files(
    output_dir: str, submission_file: str
) -> Iterator[Callable[[Iterable[Prediction]], None]]:
    """Opens `test_results.tsv` and a submission; see `TaskData`.

    `test_results.tsv`, as in the original, has no header and in each row the
    probabilities in the order of the labels, or the number that the model
    predicts. The submission has GLUE's header and in each row the id, the
    predicted label, labels or number, and the true one if it is known. Numbers
    have all their digits.
    """
    results_path, submission_path = (
        os.path.join(output_dir, name)
        for name in (TEST_RESULTS, submission_file)
    )
    with (
        files.atomic_write(results_path) as results,
        files.atomic_write(submission_path) as submission,
    ):

        def write(predictions: Iterable[Prediction]) -> None:
            for one in predictions:
                fields = {"index": one.guid, "prediction": one.prediction}
                if one.label is not None:
                    fields["label"] = one.label
                if not submission.tell():
                    submission.write(_tsv_row(fields))
                submission.write(_tsv_row(fields.values()))
                results.write(_tsv_row(map(str, one.numbers)))

        yield write


def _tsv_row(fields: Iterable[str]) -> bytes:
    # An id of a JSON line or of a quoted CSV may have what ends a field.
    cells = (re.sub(r"[\t\r\n]", " ", field) for field in fields)
    return ("\t".join(cells) + "\n").encode()
