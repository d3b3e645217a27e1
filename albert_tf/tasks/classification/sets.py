"""The sets of examples of a classification, and its fine-tuning.

Data flow: flags -> [this file] -> sets -> run. Slow imports are in functions.
Source: google-research/albert, `run_classifier.py`.
"""

import dataclasses
import functools
import logging
import os
import re
from typing import TYPE_CHECKING

from albert_tf import files
from albert_tf.tasks import held_out, task_data
from albert_tf.tasks.classification import glue
from albert_tf.tasks.classification.config import CUSTOM, ClassificationConfig
from albert_tf.tasks.classification.spec import ClassifierSpec
from albert_tf.tasks.spec import DataRequest, FinetuningSpec
from albert_tf.tasks.task import MakeTask
from albert_tf.tasks.task_data import ExampleSet, Sets

if TYPE_CHECKING:
    from albert_tf.tasks.classification.data import ClassificationData
    from albert_tf.tasks.classification.decision import Decision

_LOGGER = logging.getLogger(__name__)

_GOAL = re.compile(
    r"(precision|recall|false_positive_rate):(0?\.\d+|[01](\.0+)?)"
)


def read_sets(
    config: ClassificationConfig, request: DataRequest
) -> Sets[ExampleSet]:
    """Reads the examples of a run, and checks that they can be used."""
    from albert_tf.tasks.classification import custom
    from albert_tf.tasks.classification.data import ClassificationData

    make_data = functools.partial(
        ClassificationData,
        name=config.name,
        tokenizer=request.tokenizer,
        max_seq_length=request.max_seq_length,
        decision=_decision(config, request),
    )
    if config.is_table:
        data, examples = custom.read_examples(config, request, make_data)
    else:
        dataset = glue.GLUE_DATASETS[config.name]
        data = make_data(
            labels=dataset.labels,
            score_names=dataset.score_names,
            prediction_range=dataset.prediction_range,
        )
    # Answers of many labels have a precision, but no recall.
    is_precision = config.decide.startswith("precision:") and data.labels
    if config.decide and len(data.labels) != 2 and not is_precision:
        raise ValueError(
            f"--decide={config.decide} is for two labels, and there are "
            f"{len(data.labels)}. With more labels, pass a precision, such as "
            "precision:0.95: rows below it are left unanswered."
        )
    if config.is_table:
        return task_data.one_set_each(examples, data)
    return task_data.sets_by_use(
        {use: _read_glue(config, request, use, data) for use in request.uses}
    )


def _decision(config: ClassificationConfig, request: DataRequest) -> "Decision":
    """Returns the `Decision`; an evaluation chooses its fields of None.

    Without training, the choices of an earlier evaluation stay, unless the goal
    differs.
    """
    from albert_tf.tasks.classification.decision import Decision

    metadata = request.weights.metadata
    earlier = (metadata.evaluation or {}).get("goal", "")
    has_other_goal = config.decide not in ("", earlier)
    # Exits have other logits than the layers that a later use may compute.
    chooses = "train" in request.uses or not config.exit_patience
    if config.decide and "eval" not in request.uses:
        raise ValueError(
            "--decide needs --do_eval, without --num_folds: the evaluation of "
            "one model sets the threshold."
        )
    if config.decide and has_other_goal and not chooses:
        raise ValueError(
            "--decide chooses a threshold for all layers: evaluate without "
            "--exit_patience first."
        )
    if config.decide and not _GOAL.fullmatch(config.decide):
        raise ValueError(
            "--decide must be precision, recall or false_positive_rate, and a "
            "number from 0 to 1, such as precision:0.95. Received: "
            f"{config.decide}."
        )
    thresholds = None if has_other_goal else metadata.thresholds
    if earlier and not has_other_goal:
        thresholds = thresholds or ()  # That none reaches the goal stays, too.
    return Decision(
        temperature=metadata.temperature if config.calibrate else None,
        thresholds=thresholds,
        goal=config.decide or earlier,
        calibrates=config.calibrate and chooses,
    )


def _read_glue(
    config: ClassificationConfig,
    request: DataRequest,
    use: str,
    data: "ClassificationData",
) -> list[ExampleSet]:
    """Reads the GLUE sets of a use, or the file that replaces them."""
    dataset = glue.GLUE_DATASETS[config.name]
    named_file = held_out.given_file(config, request, use)
    sets = []
    for set_file in dataset.files[use][: 1 if named_file else None]:
        path = named_file
        if path is None:
            folder = files.check_local(config.data_dir or "")
            path = os.path.join(folder, set_file.path)
            if set_file.is_optional and not os.path.exists(path):
                text = "There is no file %s; skipping the set %s."
                _LOGGER.info(text, path, set_file.name)
                continue
        examples = glue.read_examples(dataset, path, task_data.SPLITS[use])
        submission_file = set_file.submission_file or data.submission_file
        set_data = dataclasses.replace(data, submission_file=submission_file)
        sets.append(
            ExampleSet(examples=examples, data=set_data, name=set_file.name)
        )
    return sets


def make_task(config: ClassificationConfig, sets: Sets[ExampleSet]) -> MakeTask:
    """Returns a function that makes the model half of the task."""
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
