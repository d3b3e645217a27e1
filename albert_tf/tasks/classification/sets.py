"""The flags of classification, and the sets of examples that they name.

Data flow: flags -> [this file] -> sets -> run.
Floor: tasks. Imports scikit-learn and TensorFlow only where they are used, so
that the flags are read before.

Source: google-research/albert, `run_classifier.py`.
"""

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from albert_tf import checks
from albert_tf.config import AlbertConfig
from albert_tf.settings import setting
from albert_tf.tasks import table_files
from albert_tf.tasks.classification import examples as examples_lib
from albert_tf.tasks.classification import glue
from albert_tf.tasks.classification.examples import Columns
from albert_tf.tasks.classification.glue import SetFile
from albert_tf.tasks.task import SPLITS, ExampleSet, Sets
from albert_tf.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from albert_tf.tasks.classification.data import ClassificationData
    from albert_tf.tasks.task import FinetuningTask

CUSTOM = "custom"
# Flags that only a custom task has; GLUE's tasks determine these values.
_CUSTOM_FLAGS = (
    "text_columns",
    "label_column",
    "id_column",
    "labels",
    "regression",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassificationConfig:
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
        "train, dev and test (.tsv or .jsonl).",
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
    regression: bool = setting(
        False, "Custom task: whether the labels are numbers to predict."
    )
    dropout_prob: float = setting(
        0.1, "Dropout rate of the pooled output.", of_weights=True
    )

    def __post_init__(self) -> None:
        checks.check_number(
            "dropout_prob", self.dropout_prob, at_least=0, below=1
        )
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
        if self.labels and self.regression:
            raise ValueError(
                "--labels is for classification, --regression for predicting "
                "numbers. Pass only one of them."
            )
        if self.labels:
            examples_lib.check_labels(self.labels, "--labels")

    @property
    def name(self) -> str:
        """Name of the task; as in the original, its case does not matter."""
        return (self.task_name or "").lower()


def read_sets(
    config: ClassificationConfig,
    uses: Sequence[str],
    *,
    tokenizer: Tokenizer,
    max_seq_length: int,
    kept_labels: Sequence[str] | None = None,
) -> Sets:
    """Reads the examples of a run, and checks that they can be used.

    MNLI is evaluated and predicted on both its sets, and predicted on the
    diagnostic set if it is there.

    `uses` is what the run does, of `train`, `eval` and `predict`.
    `kept_labels` are those of the run in the output directory; None if there
    is no run.

    Raises:
        FileNotFoundError: A file does not exist.
        ValueError: A file is not given, or not as the task needs it; or the
            labels of a custom task are not known, or not those of the run.
    """
    from albert_tf.tasks.classification.data import ClassificationData

    prediction_range = None
    if config.name == CUSTOM:
        if not config.label_column and {"train", "eval"} & {*uses}:
            raise ValueError("--label_column must be given.")
        labels = _custom_labels(config, uses, kept_labels)
        score_names = custom_score_names(labels)
    else:
        dataset = glue.find_dataset(config.name)
        labels, score_names = dataset.labels, dataset.score_names
        prediction_range = dataset.prediction_range
    data = ClassificationData(
        name=config.name,
        labels=labels,
        score_names=score_names,
        tokenizer=tokenizer,
        max_seq_length=max_seq_length,
        prediction_range=prediction_range,
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
    if config.name == CUSTOM:
        path = named or examples_lib.find_split(folder, SPLITS[use])
        return [SetFile(path=path)]
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
    is_labelled = use != "predict"
    if config.name != CUSTOM:
        examples = glue.read_examples(
            glue.find_dataset(config.name),
            one.path,
            split=SPLITS[use],
            is_labelled=is_labelled,
        )
    else:
        columns = Columns(
            texts=config.text_columns,
            label=config.label_column if is_labelled else None,
            guid=config.id_column,
        )
        examples = examples_lib.read_examples(
            one.path, columns, labels=data.labels
        )
    if one.submission_file:
        data = dataclasses.replace(data, submission_file=one.submission_file)
    return ExampleSet(examples=examples, data=data, name=one.name)


def custom_score_names(labels: Sequence[str]) -> tuple[str, ...]:
    """Returns the scores of a custom task, the primary metric first.

    >>> custom_score_names(["ham", "spam"])
    ('accuracy', 'f1', 'matthews_correlation')

    Args:
        labels: All labels; empty for regression.
    """
    if not labels:
        return ("pearson", "spearman", "mean_squared_error")
    if len(labels) == 2:
        return ("accuracy", "f1", "matthews_correlation")
    return ("accuracy", "f1_macro")


def _custom_labels(
    config: ClassificationConfig,
    uses: Sequence[str],
    kept_labels: Sequence[str] | None,
) -> tuple[str, ...]:
    """Returns all labels of a custom task; none for regression.

    They are those of the flag; else, if the run does not train, those of the
    run in the output directory; else those of the training file.
    """
    labels = config.labels
    if not labels and not config.regression:
        if kept_labels is not None and "train" not in uses:
            return tuple(kept_labels)
        labels = _labels_of_file(config, uses)
    if kept_labels is not None and tuple(kept_labels) != labels:
        raise ValueError(
            f"The labels are {_shown(labels)}, but the run in --output_dir was "
            f"trained with {_shown(kept_labels)}. Pass another --output_dir, "
            "or the file that this run was trained on."
        )
    return labels


def _labels_of_file(
    config: ClassificationConfig, uses: Sequence[str]
) -> tuple[str, ...]:
    path = None
    if "train" in uses or config.train_file:
        path = _files(config, "train")[0].path
    elif config.data_dir:
        with contextlib.suppress(FileNotFoundError):
            path = _files(config, "train")[0].path
    if path is None:
        raise ValueError(
            "The labels are not known: there is no training file, and no run "
            "in --output_dir. Pass --labels, --train_file, or the "
            "--output_dir of the run that trained the model."
        )
    if config.label_column is None:
        raise ValueError(
            f"The labels must be read from {path!r}, but their column is not "
            "known. Pass --label_column."
        )
    return examples_lib.read_labels(path, config.label_column)


def _shown(labels: Sequence[str]) -> str:
    if not labels:
        return "numbers (regression)"
    return table_files.shown_few(map(repr, labels))


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

    return ClassificationTask(
        config,
        num_labels=len(sets.data.settings["labels"]),
        dropout_prob=task_config.dropout_prob,
        seed=seed,
        dtype=dtype,
    )


def export_settings(
    task_config: ClassificationConfig, sets: Sets, scores: Mapping[str, float]
) -> dict[str, Any]:
    """Returns the fields of the export's config that the task decides."""
    del task_config, scores
    return {"labels": tuple(sets.data.settings["labels"])}
