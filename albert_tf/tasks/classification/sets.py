"""The flags of classification, and the sets of examples that they name.

Data flow: flags -> [this file] -> sets -> run. Slow imports come after them.
Source: google-research/albert, `run_classifier.py`.
"""

import dataclasses
import functools
import logging
import os
import re
from typing import Any

from albert_tf import checks, files
from albert_tf.settings import setting
from albert_tf.tasks import held_out, task
from albert_tf.tasks.classification import examples as examples_lib
from albert_tf.tasks.classification import glue
from albert_tf.tasks.classification.spec import ClassifierSpec
from albert_tf.tasks.head_flags import HeadFlags
from albert_tf.tasks.held_out import FileFlags
from albert_tf.tasks.spec import DataRequest, FinetuningSpec
from albert_tf.tasks.task import ExampleSet, MakeTask, Sets

_LOGGER = logging.getLogger(__name__)

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
_GOAL = re.compile(r"(precision|recall|false_positive_rate):(0?\.\d+)")


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
        "Custom task: column of the label. With --multi_label, perhaps several "
        "columns of 0 and 1, a label each.",
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
        "Two labels: choose the probability from which on the positive one is "
        "predicted, so that on the evaluated rows a precision, a recall or a "
        "false positive rate is reached: precision:0.95, recall:0.9 or "
        "false_positive_rate:0.01. By default, the likelier label is "
        "predicted.",
    )
    class_weights: tuple[str, ...] = setting(
        (),
        "Custom task: weights of the labels in the loss, in the order of the "
        f"labels; or {examples_lib.BALANCED}, which makes all classes equally "
        "heavy.",
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
            examples_lib.check_labels(self.labels, "--labels")

    @property
    def name(self) -> str:
        """Name of the task; as in the original, its case does not matter."""
        return (self.task_name or "").lower()

    @property
    def is_table(self) -> bool:
        """Whether the data are a table of one's own."""
        return self.name == CUSTOM

    @property
    def columns(self) -> examples_lib.Columns:
        """The columns of the files of a custom task."""
        return examples_lib.Columns(
            texts=self.text_columns,
            label=self.label_column,
            guid=self.id_column,
            separator=self.label_separator if self.multi_label else "",
        )


def read_sets(config: ClassificationConfig, request: DataRequest) -> Sets[Any]:
    """Reads the examples of a run, and checks that they can be used."""
    from albert_tf.tasks.classification import custom
    from albert_tf.tasks.classification.data import ClassificationData
    from albert_tf.tasks.classification.decision import Decision

    known = request.weights.metadata
    make_data = functools.partial(
        ClassificationData,
        name=config.name,
        tokenizer=request.tokenizer,
        max_seq_length=request.max_seq_length,
        decision=Decision(
            temperature=known.temperature if config.calibrate else None,
            thresholds=None if config.decide else known.thresholds,
            goal=config.decide,
            calibrates=config.calibrate,
        ),
    )
    if config.decide and "eval" not in request.uses:
        raise ValueError("--decide needs --do_eval, which chooses by it.")
    if config.decide and not _GOAL.fullmatch(config.decide):
        raise ValueError(
            "--decide must be precision, recall or false_positive_rate, and a "
            "number between 0 and 1, such as precision:0.95. Received: "
            f"{config.decide}."
        )
    if config.is_table:
        data, by_use = custom.read_examples(config, request, make_data)
    else:
        dataset = glue.GLUE_DATASETS[config.name]
        data = make_data(
            labels=dataset.labels,
            score_names=dataset.score_names,
            prediction_range=dataset.prediction_range,
        )
    if config.decide and len(data.labels) != 2:
        raise ValueError(
            f"--decide is for two labels, and there are {len(data.labels)}."
        )
    if config.is_table:
        sets = {
            use: [ExampleSet(examples=rows, data=data)]
            for use, rows in by_use.items()
        }
    else:
        sets = {use: _read(config, request, use, data) for use in request.uses}
    return task.sets_by_use(sets)


def _read(
    config: ClassificationConfig, request: DataRequest, use: str, data: Any
) -> list[ExampleSet]:
    """Reads the sets of GLUE for a use, or the file that replaces them."""
    dataset = glue.GLUE_DATASETS[config.name]
    given: Any = held_out.given_file(config, request, use)
    sets = []
    for one in dataset.files[use][: 1 if given else None]:
        folder = config.data_dir or ""
        path = given or os.path.join(files.check_local(folder), one.path)
        if one.is_optional and not os.path.exists(path):
            text = "There is no file %s; skipping the set %s."
            _LOGGER.info(text, path, one.name)
            continue
        examples = glue.read_examples(dataset, path, task.SPLITS[use])
        submission = one.submission_file or data.submission_file
        own = dataclasses.replace(data, submission_file=submission)
        sets.append(ExampleSet(examples=examples, data=own, name=one.name))
    return sets


def make_task(config: ClassificationConfig, sets: Sets[Any]) -> MakeTask:
    """Returns the class of the model half, with its arguments."""
    from albert_tf.tasks.classification.model import ClassificationTask

    settings = sets.data.settings
    return functools.partial(
        ClassificationTask,
        num_labels=len(settings["labels"]),
        multi_label=settings.get("multi_label", False),
        class_weights=settings.get("class_weights", ()),
        head=config,
    )


FINETUNING = FinetuningSpec(
    task_names=(*glue.GLUE_DATASETS, CUSTOM),
    config_class=ClassificationConfig,
    defaults={
        "learning_rate": 5e-5,
        "num_train_steps": 1000,
        "num_warmup_steps": 0,
        "train_batch_size": 32,
        "save_checkpoints_steps": 1000,
    },
    read_sets=read_sets,
    make_task=make_task,
    head_spec=lambda _: ClassifierSpec(),
    predict_arguments=lambda sets: (
        '"TEXT" ' * (2 if next(iter(sets.all[0].examples)).text_b else 1)
        + " # or < inputs, one a line, texts or JSON"
    ),
    chosen=lambda data, scores: {
        name: getattr(data.decided_by(scores), name)
        for name in ("thresholds", "temperature")
    },
)
