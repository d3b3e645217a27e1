"""The flags of classification, in plain Python.

Source: google-research/albert, `run_classifier.py`.
"""

import dataclasses

from albert_tf import checks
from albert_tf.settings import setting
from albert_tf.tasks import labelled_texts
from albert_tf.tasks.classification import glue
from albert_tf.tasks.head_flags import HeadFlags
from albert_tf.tasks.held_out import FileFlags

CUSTOM = "custom"
# Flags that only a custom task has; GLUE's tasks determine these values.
_CUSTOM_FLAGS = (
    "text_columns",
    "label_column",
    "id_column",
    "labels",
    "positive_label",
    "multi_label",
    "regression",
    "validation_share",
    "class_weights",
)
# Flags that cannot be passed together.
_CONTRADICTIONS = {
    "regression": (
        "labels",
        "multi_label",
        "positive_label",
        "class_weights",
        "decide",
    ),
    "multi_label": ("positive_label", "class_weights", "decide"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassificationConfig(HeadFlags, FileFlags):
    """The flags of classification."""

    task_name: str | None = setting(
        None, f"Name of the task: {', '.join(glue.GLUE_DATASETS)}, or custom."
    )
    data_dir: str | None = setting(
        None,
        "Directory of the GLUE data, or, for a custom task, of its files "
        "train, dev and test (.tsv, .csv or .jsonl).",
    )
    text_columns: tuple[str, ...] = setting(
        (), "Custom task: column of the text, or both columns of a text pair."
    )
    label_column: str | None = setting(
        None,
        "Custom task: column of the label. With --multi_label, it may be "
        "several columns of 0 and 1, one for each label.",
    )
    id_column: str | None = setting(
        None,
        "Custom task: column with an id for each row, which the predictions "
        "then have. By default, the number of its line, from 0.",
    )
    labels: tuple[str, ...] = setting(
        (),
        "Custom task: all labels, in the order of the model's outputs. By "
        "default, the sorted labels of the training file.",
    )
    positive_label: str | None = setting(
        None,
        "Custom task with two labels: the label whose F1 and average precision "
        "are computed. By default, the second of the labels.",
        affects_training=True,
    )
    multi_label: bool = setting(
        False, "Custom task: whether a row has any number of labels."
    )
    label_separator: str = setting(
        ",",
        "With --multi_label: what separates the labels of a row. A list in "
        "JSON, or of Python, is read, too.",
    )
    regression: bool = setting(
        False, "Custom task: whether the labels are numbers to predict."
    )
    calibrate: bool = setting(
        True,
        "Whether the evaluated rows choose a temperature, which divides the "
        "logits, so that probabilities are the shares that are right.",
    )
    decide: str = setting(
        "",
        "Two labels: choose the threshold of the positive label's probability "
        "that reaches, on the evaluated rows, a precision, recall or false "
        "positive rate: precision:0.95, recall:0.9 or "
        "false_positive_rate:0.01. More labels: precision:0.95 leaves rows "
        "unanswered, so that so many of the answers are right. By default, the "
        "likeliest label is predicted.",
    )
    class_weights: tuple[str, ...] = setting(
        (),
        "Custom task: weights of the labels in the loss, in the order of the "
        f"labels; or {labelled_texts.BALANCED}, which makes all classes "
        "equally heavy.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        names = (*glue.GLUE_DATASETS, CUSTOM)
        checks.check_choice("task_name", self.name, names)
        if not self.is_table:
            for flag in _CUSTOM_FLAGS:
                if getattr(self, flag):
                    raise ValueError(
                        f"--{flag} needs --task_name=custom. Received: "
                        f"task_name={self.task_name}."
                    )
            return
        if len(self.text_columns) not in (1, 2):
            raise ValueError(
                "--text_columns must name one column or two. Received: "
                f"{checks.listed(self.text_columns)}."
            )
        for flag, others in _CONTRADICTIONS.items():
            for other in others:
                if getattr(self, flag) and getattr(self, other):
                    raise ValueError(
                        f"--{flag} and --{other} contradict each other."
                    )
        if self.multi_label and not self.label_separator.strip():
            raise ValueError(
                "--label_separator must be something other than white space."
            )
        if self.labels:
            labelled_texts.check_labels(self.labels, "--labels")

    @property
    def name(self) -> str:
        """Name of the task; as in the original, its case does not matter."""
        return (self.task_name or "").lower()

    @property
    def is_table(self) -> bool:
        """Whether the data are a custom table."""
        return self.name == CUSTOM

    @property
    def columns(self) -> labelled_texts.Columns:
        """The columns of the files of a custom task."""
        return labelled_texts.Columns(
            texts=self.text_columns,
            label=self.label_column,
            guid=self.id_column,
            separator=self.label_separator if self.multi_label else "",
        )
