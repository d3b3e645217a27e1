"""Tables of a report that show where predictions are wrong.

Data flow: examples, labels, logits -> [this file] -> report.html.
"""

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn import metrics

from albert_tf.metrics import classification
from albert_tf.metrics.scores import Role, Score, Scores
from albert_tf.tasks.task_data import Examples, Outputs, Section, TaskData

MAX_ERRORS = 20
_MAX_TEXT_CHARACTERS = 300


def sections(
    data: TaskData, examples: Examples, outputs: Outputs, scores: Scores
) -> list[Section]:
    """Returns tables of errors, the task's sections and class scores."""
    task_sections = data.report_sections(examples, outputs, scores)
    predicted = data.predictions_of(examples, outputs, scores)
    if not predicted:
        return task_sections
    errors = prediction_sections(examples, *predicted)
    if not predicted.names:
        return [*errors, *task_sections]
    scores_of = classification.class_scores(
        predicted.labels, predicted.predictions, predicted.names
    )
    table = class_table("Scores of each class", scores_of)
    return [*errors, *task_sections, table]


def prediction_sections(
    examples: Examples,
    labels: np.ndarray,
    predictions: np.ndarray,
    probabilities: np.ndarray | None = None,
    label_names: Sequence[str] = (),
) -> list[Section]:
    """Returns a confusion matrix and the worst errors.

    The examples are dataclasses with a `guid`, whose strings are shown; labels
    and predictions are `[N]`, probabilities `[N, K]`. Classes are numbered
    unless there are K names. A regression, without probabilities, has no
    matrix, nor have rows with several labels: labels and predictions of 0 and 1
    `[N, K]`.
    """
    if labels.ndim > 1:
        num_wrong = np.count_nonzero(labels != predictions, axis=1)
        order = np.argsort(-num_wrong, kind="stable")
        order = order[: np.count_nonzero(num_wrong)]
        columns = {
            name: [", ".join(itertools.compress(label_names, r)) for r in rows]
            for name, rows in (("labels", labels), ("predictions", predictions))
        }
        title = f"The worst of {len(order)} errors"
        return [_error_table(title, examples, order, columns)]
    if probabilities is None:
        order = np.argsort(-np.abs(predictions - labels), kind="stable")
        columns = {
            name: [f"{value:.3f}" for value in values]
            for name, values in (("label", labels), ("prediction", predictions))
        }
        return [_error_table("The largest errors", examples, order, columns)]
    classes = range(probabilities.shape[-1])
    names = [*(label_names or map(str, classes))]
    # A classifier may leave rows unanswered: their predictions are -1.
    is_answered = predictions >= 0
    columns_of = [*classes, *([] if is_answered.all() else [-1])]
    counts = metrics.confusion_matrix(labels, predictions, labels=columns_of)
    rows = zip(names, counts.tolist(), strict=False)
    confusions = {
        "title": "Labels (rows) and predictions (columns)",
        "header": ("", *names, "no answer")[: len(columns_of) + 1],
        "rows": [(name, *map(str, row)) for name, row in rows],
    }
    of_label = probabilities[np.arange(len(labels)), labels]
    (wrong,) = np.nonzero(is_answered & (predictions != labels))
    order = wrong[np.argsort(of_label[wrong], kind="stable")]
    columns = {
        "label": [names[label] for label in labels],
        "prediction": [names[label] for label in predictions],
        "label's probability": [f"{value:.4f}" for value in of_label],
    }
    title = f"The worst of {len(wrong)} errors"
    return [confusions, _error_table(title, examples, order, columns)]


def class_table(title: str, scores: Iterable[Score]) -> Section:
    """Returns the scores of single labels, a row for each label."""
    rows: dict[str, dict[str, str]] = collections.defaultdict(dict)
    for score in scores:
        if score.role is Role.OF_LABEL:
            name = score.key.removesuffix(f"_of_{score.of}")
            rows[score.of][name] = f"{score.value:.6g}"
    return {
        "title": title,
        "header": ("label", *next(iter(rows.values()), {})),
        "rows": [(label, *row.values()) for label, row in rows.items()],
    }


def text_of(example: Any) -> str:
    """Returns the texts of an example, a dataclass with a `guid`."""
    names = [field.name for field in dataclasses.fields(example)]
    values = (getattr(example, n) for n in names if n not in ("guid", "label"))
    return " | ".join(v for v in values if v and isinstance(v, str))


def _error_table(
    title: str,
    examples: Examples,
    order: np.ndarray,
    columns: Mapping[str, Sequence[str]],
) -> Section:
    rows = []
    for i in order[:MAX_ERRORS]:
        guid, text = str(examples[i].guid), shortened(text_of(examples[i]))
        rows.append((guid, text, *(column[i] for column in columns.values())))
    return {"title": title, "header": ("id", "text", *columns), "rows": rows}


def shortened(text: str) -> str:
    """Returns a text that is short enough for a table."""
    if len(text) <= _MAX_TEXT_CHARACTERS:
        return text
    return f"{text[: _MAX_TEXT_CHARACTERS - 1]}…"
