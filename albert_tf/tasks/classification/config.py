"""The flags of classification.

Source: google-research/albert, `run_classifier.py`.
"""

import dataclasses

from albert_tf import checks
from albert_tf.settings import setting
from albert_tf.tasks.classification import examples, glue
from albert_tf.tasks.head_flags import HeadFlags

CUSTOM = "custom"
# The weights of the classes that make all of them equally heavy.
BALANCED = "balanced"
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
    "regression": ("labels", "multi_label", "positive_label", "class_weights"),
    "multi_label": ("positive_label", "class_weights"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassificationConfig(HeadFlags):
    """The flags of classification."""

    task_name: str | None = setting(
        None, f"Name of the task: {', '.join(glue.GLUE_DATASETS)}, or custom."
    )
    data_dir: str | None = setting(
        None,
        "Directory of the GLUE data, or, for a custom task, of its files "
        "train, dev and test (.tsv, .csv or .jsonl).",
    )
    train_file: str | None = setting(
        None, "Examples to train on, instead of the train file of --data_dir."
    )
    eval_file: str | None = setting(
        None, "Examples to evaluate, instead of the dev files of --data_dir."
    )
    predict_file: str | None = setting(
        None, "Examples to predict, instead of the test files of --data_dir."
    )
    validation_share: float | None = setting(
        None,
        "Custom task: share of the training rows to evaluate instead of "
        "training on them, where there is no dev file. A row is chosen by "
        "its texts.",
    )
    validation_seed: int = setting(
        0, "Custom task: seed that chooses the rows of --validation_share."
    )
    text_columns: tuple[str, ...] = setting(
        (), "Custom task: column of the text, or both columns of a text pair."
    )
    label_column: str | None = setting(
        None, "Custom task: column of the label."
    )
    id_column: str | None = setting(
        None,
        "Custom task: column with an id for each row, which the predictions "
        "then have. By default, the line number is the id.",
    )
    labels: tuple[str, ...] = setting(
        (),
        "Custom task: all labels, in the order of the model's outputs. By "
        "default, the sorted labels of the training file.",
    )
    positive_label: str | None = setting(
        None,
        "Custom task with two labels: the one that F1 and average precision "
        "are of. By default, the second of the labels.",
        affects_training=True,
    )
    multi_label: bool = setting(
        False, "Custom task: whether a row has any number of labels."
    )
    label_separator: str = setting(
        ",",
        "With --multi_label: what separates the labels of a row. A list in "
        "JSON is read, too.",
    )
    regression: bool = setting(
        False, "Custom task: whether the labels are numbers to predict."
    )
    class_weights: tuple[str, ...] = setting(
        (),
        "Custom task: weights of the labels in the loss, in the order of the "
        f"labels; or {BALANCED}, which makes all classes equally heavy.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.check_choice(
            "task_name", self.name, (*glue.GLUE_DATASETS, CUSTOM)
        )
        if self.name != CUSTOM:
            for flag in _CUSTOM_FLAGS:
                if getattr(self, flag):
                    raise ValueError(
                        f"--{flag} needs --task_name=custom; the tasks of GLUE "
                        f"determine it. Received: task_name={self.task_name}."
                    )
            return
        for flag, others in _CONTRADICTIONS.items():
            for other in others:
                if getattr(self, flag) and getattr(self, other):
                    raise ValueError(
                        f"--{flag} and --{other} contradict each other. Pass "
                        "only one of them."
                    )
        if self.multi_label and not self.label_separator.strip():
            raise ValueError(
                "--label_separator must be something other than white space."
            )
        if self.labels:
            examples.check_labels(self.labels, "--labels")
        if self.validation_share is not None:
            checks.check_number(
                "validation_share", self.validation_share, above=0, below=1
            )

    @property
    def name(self) -> str:
        """Name of the task; as in the original, its case does not matter."""
        return (self.task_name or "").lower()

    @property
    def is_table(self) -> bool:
        """Whether the data are a table of one's own."""
        return self.name == CUSTOM

    @property
    def separator(self) -> str | None:
        """What separates the labels of a row; None if each has one."""
        return self.label_separator if self.multi_label else None

    @property
    def validation(self) -> tuple[float, int] | None:
        """Share and seed of the rows held out; None if there are none."""
        if self.validation_share is None:
            return None
        return self.validation_share, self.validation_seed

    @property
    def columns(self) -> examples.Columns:
        """The columns of the files of a custom task."""
        return examples.Columns(
            texts=self.text_columns,
            label=self.label_column,
            guid=self.id_column,
            separator=self.separator,
        )
