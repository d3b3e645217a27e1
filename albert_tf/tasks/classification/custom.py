"""Sets of one's own: which labels there are, and which scores they get.

Data flow: flags or files -> [this file] -> labels and score names of
`ClassificationData`.
Floor: tasks. Plain Python.
"""

import os
from collections.abc import Sequence

from albert_tf import files
from albert_tf.tasks.classification import examples


def score_names(labels: Sequence[str]) -> tuple[str, ...]:
    """Returns the scores of a task with these labels, the primary_metric first.

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
    kept: Sequence[str] | None,
    *,
    is_training: bool,
) -> tuple[str, ...]:
    """Returns the labels: of an earlier run, or of the file to train on.

    Args:
        train_file: The file; None if there is none.
        label_column: Its column of labels.
        kept: What the run in the folder has learnt; None without a run.
        is_training: Whether the labels are those to be learnt, so that the
            file decides.

    Raises:
        ValueError: There is neither; or `label_column` is None.
    """
    if kept is not None and not is_training:
        return tuple(kept)
    if train_file is None:
        raise ValueError(
            "The labels are not known: there is no file to train on, and no "
            "run in --output_dir. Pass --labels, --train_file, or the "
            "--output_dir of the run that trained."
        )
    if label_column is None:
        raise ValueError(
            f"The labels must be read from {os.fspath(train_file)!r}, and the "
            "column is not known. Pass --label_column."
        )
    return examples.read_labels(train_file, label_column)


def check_labels(
    labels: Sequence[str], kept: Sequence[str] | None, output_dir: files.Path
) -> None:
    """Refuses other labels than those of an earlier run in the folder.

    Raises:
        ValueError: They differ, also in order.
    """
    if kept is not None and tuple(kept) != tuple(labels):
        raise ValueError(
            f"The labels are {_shown(labels)}, but the run in "
            f"{os.fspath(output_dir)!r} has learnt {_shown(kept)}. Pass "
            "another --output_dir, or the file that it was trained on."
        )


def _shown(labels: Sequence[str]) -> str:
    if not labels:
        return "numbers (regression)"
    return examples.shown_few(map(repr, labels))
