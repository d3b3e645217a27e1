"""The flags of classification, and the sets of examples that they name.

Data flow: flags -> [this file] -> sets -> run.
Imports scikit-learn and TensorFlow only where they are used, so that the flags
are read before.

Source: google-research/albert, `run_classifier.py`.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from albert_tf import checks
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.config import AlbertConfig
from albert_tf.settings import setting
from albert_tf.tasks.classification import examples as examples_lib
from albert_tf.tasks.classification import glue
from albert_tf.tasks.classification.glue import SetFile
from albert_tf.tasks.head_flags import HeadFlags
from albert_tf.tasks.task import SPLITS, ExampleSet, Sets
from albert_tf.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from albert_tf.tasks.classification.data import ClassificationData
    from albert_tf.tasks.task import FinetuningTask

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassificationConfig(HeadFlags):
    """The flags of classification.

    Raises:
        ValueError: A value is missing or impossible, or two contradict each
            other; the message names them.
    """

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
        "training on them, where there is no dev file. Each label gives its "
        "share.",
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
        if not self.task_name:
            raise ValueError("--task_name must be given.")
        if self.name != CUSTOM:
            glue.find_dataset(self.name)
            for flag in _CUSTOM_FLAGS:
                if getattr(self, flag):
                    raise ValueError(
                        f"--{flag} needs --task_name=custom; the tasks of GLUE "
                        f"determine it. Received: task_name={self.task_name}."
                    )
            return
        if not self.text_columns:
            raise ValueError("--text_columns must be given.")
        self._check_labels()
        if self.validation_share is not None:
            checks.check_number(
                "validation_share", self.validation_share, above=0, below=1
            )
        checks.check_integer(
            "validation_seed", self.validation_seed, at_least=0
        )

    def _check_labels(self) -> None:
        if self.labels and self.regression:
            raise ValueError(
                "--labels is for classification, --regression for predicting "
                "numbers. Pass only one of them."
            )
        for flag in ("multi_label", "positive_label", "class_weights"):
            if getattr(self, flag) and self.regression:
                raise ValueError(
                    f"--{flag} is for classification, --regression for "
                    "predicting numbers. Pass only one of them."
                )
        for flag in ("positive_label", "class_weights"):
            if getattr(self, flag) and self.multi_label:
                raise ValueError(
                    f"--{flag} is for one label a row, --multi_label for any "
                    "number of them. Pass only one of them."
                )
        if self.multi_label and not self.label_separator.strip():
            raise ValueError(
                "--label_separator must be a character other than white "
                f"space. Received: {self.label_separator!r}."
            )
        if self.labels:
            examples_lib.check_labels(self.labels, "--labels")
        if tuple(self.class_weights) != (BALANCED,):
            for weight in self.class_weights:
                _check_weight(weight)

    @property
    def name(self) -> str:
        """Name of the task; as in the original, its case does not matter."""
        return (self.task_name or "").lower()

    @property
    def separator(self) -> str | None:
        """What separates the labels of a row; None if each has one."""
        return self.label_separator if self.multi_label else None


def _check_weight(text: str) -> None:
    try:
        checks.check_number("class_weights", float(text), above=0)
    except ValueError:
        raise ValueError(
            f"--class_weights must be {BALANCED}, or numbers above 0. "
            f"Received: {text!r}."
        ) from None


def read_sets(
    config: ClassificationConfig,
    uses: Sequence[str],
    *,
    tokenizer: Tokenizer,
    max_seq_length: int,
    kept_labels: Sequence[str] | None = None,
    kept: Metadata | None = None,
    kept_settings: Mapping[str, Any] | None = None,
) -> Sets:
    """Reads the examples of a run, and checks that they can be used.

    MNLI is evaluated and predicted on both its sets, and predicted on the
    diagnostic set if it is there.

    `uses` is what the run does, of `train`, `eval` and `predict`.
    `kept_labels` are those of the run in the output directory; None if there
    is no run. `kept` is what is known of the weights in use, `kept_settings`
    are the `ClassificationData.settings` that they were trained with.

    Raises:
        FileNotFoundError: A file does not exist.
        ValueError: A file is not given, or not as the task needs it; or the
            labels of a custom task are not known, or not those of the run.
    """
    from albert_tf.tasks.classification.data import ClassificationData

    if config.name == CUSTOM:
        from albert_tf.tasks.classification import custom

        return custom.read_sets(
            config,
            uses,
            tokenizer=tokenizer,
            max_seq_length=max_seq_length,
            kept_labels=kept_labels,
            kept=kept or Metadata(),
            kept_settings=kept_settings or {},
        )
    dataset = glue.find_dataset(config.name)
    data = ClassificationData(
        name=config.name,
        labels=dataset.labels,
        score_names=dataset.score_names,
        tokenizer=tokenizer,
        max_seq_length=max_seq_length,
        prediction_range=dataset.prediction_range,
    )
    sets = {
        use: tuple(_read(one, use, config, data) for one in _files(config, use))
        for use in uses
    }
    return Sets(
        train=sets["train"][0] if "train" in sets else None,
        evaluation=sets.get("eval", ()),
        prediction=sets.get("predict", ()),
    )


def _files(config: ClassificationConfig, use: str) -> list[SetFile]:
    folder, named = config.data_dir or "", getattr(config, f"{use}_file")
    if not folder and not named:
        raise ValueError(f"--data_dir or --{use}_file must be given.")
    of_glue = glue.find_dataset(config.name).files[use]
    if named:
        return [dataclasses.replace(of_glue[0], path=named)]
    return glue.existing_sets(folder, of_glue)


def _read(
    one: SetFile,
    use: str,
    config: ClassificationConfig,
    data: "ClassificationData",
) -> ExampleSet:
    examples = glue.read_examples(
        glue.find_dataset(config.name),
        one.path,
        split=SPLITS[use],
        is_labelled=use != "predict",
    )
    if one.submission_file:
        data = dataclasses.replace(data, submission_file=one.submission_file)
    return ExampleSet(examples=examples, data=data, name=one.name)


def make_task(
    config: AlbertConfig,
    *,
    task_config: ClassificationConfig,
    sets: Sets,
    seed: int,
    dtype: str,
) -> "FinetuningTask":
    """Makes the model half as `task.MakeTask` does."""
    from albert_tf.tasks.finetuning import ClassificationTask

    settings = sets.data.settings
    return ClassificationTask(
        config,
        num_labels=len(settings["labels"]),
        multi_label=settings.get("multi_label", False),
        class_weights=settings.get("class_weights", ()),
        head=task_config,
        seed=seed,
        dtype=dtype,
    )


def export_settings(
    task_config: ClassificationConfig, sets: Sets, scores: Mapping[str, float]
) -> dict[str, Any]:
    """Returns the fields of the export's config that the task decides.

    `scores` are those of the exported weights, empty if there are none.
    """
    data = cast("ClassificationData", sets.data)
    values: dict[str, Any] = {
        "labels": data.labels,
        "exit_patience": task_config.exit_patience,
    }
    thresholds = data.label_thresholds(scores)
    if thresholds is not None:
        values["thresholds"] = thresholds
    return values
