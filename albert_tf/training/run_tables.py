"""Tables of a finished run: its predictions, its errors, its log.

Data flow: files of a run -> [this file] -> dicts, for `pandas.DataFrame`.
"""

import contextlib
import glob
import os
from typing import TypeAlias

from albert_tf import files
from albert_tf.checkpoints.metadata import Metadata

LOG_FILE = "metrics.jsonl"
_PROBABILITIES = "test_results.tsv"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"  # of the options of a question
Rows: TypeAlias = list[files.JsonObject]


def evaluated_rows(output_dir: str) -> Rows:
    """Returns the evaluated rows in the order of the data; none without files.

    Each has `id`, `prediction` (of questions about a text, `answer`) and, where
    they are known, the texts and the `label`.
    """
    folder = os.path.join(output_dir, "eval")
    rows: Rows = []
    for path in glob.glob(os.path.join(glob.escape(folder), "*.*")):
        if path.endswith(".jsonl"):
            rows = files.read_json_lines(path)
        elif path.endswith(".tsv") and not path.endswith(_PROBABILITIES):
            header, *cells = _cells(path)
            rows = [dict(zip(header, row, strict=True)) for row in cells]
        elif os.path.basename(path) == "predictions.json":
            answers = files.read_json_object(path).items()
            rows = [{"id": guid, "answer": text} for guid, text in answers]
    for row in rows:
        if "index" in row:
            row["id"] = row.pop("index")
        if "prediction" in row and "answer" in row:  # RACE
            row["label"] = row.pop("answer")
    return rows


def predictions(output_dir: str, metadata: Metadata) -> Rows:
    """Returns the evaluated rows; numbers are no text, but numbers.

    Of single labels, they have `probability`, of the prediction, and
    `label_probability`. The metadata are those of the weights.
    """
    rows, labels = evaluated_rows(output_dir), metadata.labels or _LETTERS
    path = os.path.join(output_dir, "eval", _PROBABILITIES)
    if metadata.labels and not metadata.multi_label and os.path.exists(path):
        for row, cells in zip(rows, _cells(path), strict=True):
            row["probabilities"] = map(float, cells)
    for row in rows:
        shares = row.pop("probabilities", ())
        if of := dict(zip(labels, shares, strict=False)):
            row["prediction"] = row["prediction"] or None  # no answer
            row["probability"] = of.get(row["prediction"])
            if "label" in row:
                row["label_probability"] = of[row["label"]]
        if metadata.head == "encoder" and "label" in row:
            # A cosine has other units: their difference is no error.
            row["similarity"] = row.pop("label")
        if not metadata.labels:
            for name in {"label", "prediction", "similarity"} & {*row}:
                with contextlib.suppress(ValueError):  # several, or letters
                    row[name] = float(row[name])
    return rows


def errors(rows: Rows) -> Rows:
    """Returns the wrong predictions, the worst first; numbers by distance."""
    if not rows or any("label" not in row for row in rows):
        raise ValueError(
            "The files of the run have no labels beside predictions: the run "
            "has no evaluation, or is of SQuAD or vectors. See report.html."
        )
    if all(isinstance(row["label"], float) for row in rows):
        rows = [
            row | {"error": row["prediction"] - row["label"]} for row in rows
        ]
        return sorted(rows, key=lambda row: -abs(row["error"]))
    wrong = (
        row for row in rows if row["prediction"] not in (row["label"], None)
    )
    return sorted(wrong, key=lambda row: row.get("label_probability", 0))


def log(output_dir: str) -> Rows:
    """Returns the lines of the log; of seeds or folds, each with its `run`."""
    path = os.path.join(output_dir, LOG_FILE)
    if os.path.exists(path):
        return files.read_json_lines(path)
    paths = [
        path
        for kind in ("fold", "seed")
        for path in glob.glob(
            os.path.join(glob.escape(output_dir), f"{kind}-*", LOG_FILE)
        )
    ]
    return [
        {"run": os.path.basename(os.path.dirname(path)), **line}
        for path in sorted(paths)
        for line in files.read_json_lines(path)
    ]


def _cells(path: str) -> list[list[str]]:
    lines = files.read_text(path).split("\n")[:-1]
    return [line.split("\t") for line in lines]
