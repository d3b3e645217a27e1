"""Sets of one's own: which labels there are, and which scores they get.

Data flow: flags or files -> [this file] -> labels and score names of
`ClassificationData`.
Floor: tasks. Plain Python.
"""

import json
import os
from collections.abc import Sequence

from albert_tf import files
from albert_tf.tasks import classification_examples, classification_files

# In the folder of a run: a later one need not have the file to train on.
LABELS_FILE = "labels.json"


def score_names(labels: Sequence[str]) -> tuple[str, ...]:
    """Returns the scores of a task with these labels, the headline first.

    >>> score_names(["ham", "spam"])
    ('accuracy', 'f1', 'matthews_correlation')

    Args:
        labels: All labels; empty for regression.
    """
    if not labels:
        return ("pearson", "spearman", "mean_squared_error")
    if len(labels) == 2:
        return ("accuracy", "f1", "matthews_correlation")
    return ("accuracy", "f1_macro")


def find_labels(
    train_file: files.Path | None,
    label_column: str | None,
    output_dir: files.Path,
    *,
    is_training: bool,
) -> tuple[str, ...]:
    """Returns the labels: of an earlier run, or of the file to train on.

    Args:
        train_file: The file; None if there is none.
        label_column: Its column of labels.
        output_dir: Folder of the run, which may hold `labels.json`.
        is_training: Whether the labels are those to be learnt, so that the
            file decides.

    Raises:
        ValueError: There is neither; or `label_column` is None.
    """
    kept = read_kept_labels(output_dir)
    if kept is not None and not is_training:
        return kept
    if train_file is None:
        raise ValueError(
            "The labels are not known: there is no file to train on, and no "
            f"{LABELS_FILE} in {os.fspath(output_dir)!r}. Pass --labels, "
            "--train_file, or the --output_dir of the run that trained."
        )
    if label_column is None:
        raise ValueError(
            f"The labels must be read from {os.fspath(train_file)!r}, and the "
            "column is not known. Pass --label_column."
        )
    return classification_files.read_labels(train_file, label_column)


def check_labels(labels: Sequence[str], output_dir: files.Path) -> None:
    """Refuses other labels than those of an earlier run in the folder.

    Raises:
        ValueError: They differ, also in order.
    """
    kept = read_kept_labels(output_dir)
    if kept is not None and kept != tuple(labels):
        raise ValueError(
            f"The labels are {_shown(labels)}, but the run in "
            f"{os.fspath(output_dir)!r} has learnt {_shown(kept)}. Pass "
            "another --output_dir, or the file that it was trained on."
        )


def keep_labels(labels: Sequence[str], output_dir: files.Path) -> None:
    """Writes `labels.json`, `[]` for regression, for later runs there."""
    path = os.path.join(files.check_local(output_dir), LABELS_FILE)
    files.write_text(path, json.dumps(list(labels), ensure_ascii=False) + "\n")


def read_kept_labels(output_dir: files.Path) -> tuple[str, ...] | None:
    """Returns what `keep_labels` wrote; None if it did not.

    Raises:
        ValueError: The file is damaged.
    """
    path = os.path.join(files.check_local(output_dir), LABELS_FILE)
    if not os.path.exists(path):
        return None
    try:
        labels = json.loads(files.read_text(path))
    except json.JSONDecodeError:
        labels = None
    is_list = isinstance(labels, list)
    if not is_list or not all(isinstance(label, str) for label in labels):
        raise ValueError(
            f"{path} is damaged: wanted a JSON list of labels. Remove it, and "
            "pass --labels or --train_file."
        )
    return tuple(labels)


def _shown(labels: Sequence[str]) -> str:
    if not labels:
        return "numbers (regression)"
    return classification_examples.shown_few(map(repr, labels))
