"""The tables of predictions of labelled texts: GLUE's files, and our own.

Source: google-research/albert, `run_classifier.py`.
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from albert_tf import files
from albert_tf.tasks.labelled_texts import ClassificationExample

_TEST_RESULTS = "test_results.tsv"
# Takes an example, its probabilities or numbers, and its prediction.
WriteRow: TypeAlias = Callable[
    [ClassificationExample, Sequence[float], Any], None
]


@contextlib.contextmanager
def open_tables(
    output_dir: str, submission_file: str, text_of: Callable[[Any], str]
) -> Iterator[WriteRow]:
    """Opens `test_results.tsv` and a submission; yields a `WriteRow`.

    `test_results.tsv`, as in the original, has no header and in each row the
    probabilities of the labels, or the number. The submission has GLUE's header
    and in each row the id, the prediction and, if it is known, the true label
    with the texts. `text_of` makes the text of a label, or of a prediction.
    """
    results_path = os.path.join(output_dir, _TEST_RESULTS)
    submission_path = os.path.join(output_dir, submission_file)
    with (
        files.atomic_write(results_path) as results,
        files.atomic_write(submission_path) as submission,
    ):

        def write_row(
            example: ClassificationExample,
            numbers: Sequence[float],
            prediction: object,
        ) -> None:
            text = text_of(prediction)
            fields = {"index": example.guid, "prediction": text}
            if example.label is not None:
                fields["label"] = text_of(example.label)
                fields["text_a"] = example.text_a
                fields["text_b"] = example.text_b
            if not submission.tell():
                submission.write(tsv_row(fields))
            submission.write(tsv_row(fields.values()))
            results.write(tsv_row(map(str, numbers)))

        yield write_row


def tsv_row(fields: Iterable[str]) -> bytes:
    """Returns a line of a TSV file, in UTF-8."""
    # An id of a JSON line or of a quoted CSV may have what ends a field.
    cells = (re.sub(r"[\t\r\n]", " ", field) for field in fields)
    return ("\t".join(cells) + "\n").encode()
