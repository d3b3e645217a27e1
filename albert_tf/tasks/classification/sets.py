"""The sets of examples that the flags of classification name.

Data flow: flags -> [this file] -> sets -> run.
Imports scikit-learn and TensorFlow only where they are used, so that the flags
are read before.

Source: google-research/albert, `run_classifier.py`.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from albert_tf.config import AlbertConfig
from albert_tf.tasks import example_files
from albert_tf.tasks.classification import glue
from albert_tf.tasks.classification.config import CUSTOM, ClassificationConfig
from albert_tf.tasks.classification.glue import SetFile
from albert_tf.tasks.task import (
    NO_WEIGHTS,
    SPLITS,
    ExampleSet,
    Sets,
    TrainedWeights,
)
from albert_tf.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from albert_tf.tasks.classification.data import ClassificationData
    from albert_tf.tasks.task import FinetuningTask


def read_sets(
    config: ClassificationConfig,
    uses: Sequence[str],
    *,
    tokenizer: Tokenizer,
    max_seq_length: int,
    weights: TrainedWeights = NO_WEIGHTS,
) -> Sets:
    """Reads the examples of a run, and checks that they can be used.

    MNLI is evaluated and predicted on both its sets, and predicted on the
    diagnostic set if it is there.

    `uses` is what the run does, of `train`, `eval` and `predict`.
    `weights` are those in use.
    """
    from albert_tf.tasks.classification import custom
    from albert_tf.tasks.classification.data import ClassificationData

    if config.name == CUSTOM:
        return custom.read_sets(
            config,
            uses,
            tokenizer=tokenizer,
            max_seq_length=max_seq_length,
            weights=weights,
        )
    dataset = glue.GLUE_DATASETS[config.name]
    data = ClassificationData(
        name=config.name,
        labels=dataset.labels,
        score_names=dataset.score_names,
        tokenizer=tokenizer,
        max_seq_length=max_seq_length,
        prediction_range=dataset.prediction_range,
    )
    sets = {
        use: tuple(
            _read(set_file, use, config, data)
            for set_file in _files(config, use)
        )
        for use in uses
    }
    return Sets(
        train=sets["train"][0] if "train" in sets else None,
        evaluation=sets.get("eval", ()),
        prediction=sets.get("predict", ()),
    )


def _files(config: ClassificationConfig, use: str) -> list[SetFile]:
    set_files = glue.GLUE_DATASETS[config.name].files[use]
    path = example_files.given_file(config, use)
    if path:
        return [dataclasses.replace(set_files[0], path=path)]
    return glue.existing_sets(config.data_dir or "", set_files)


def _read(
    set_file: SetFile,
    use: str,
    config: ClassificationConfig,
    data: "ClassificationData",
) -> ExampleSet:
    examples = glue.read_examples(
        glue.GLUE_DATASETS[config.name],
        set_file.path,
        split=SPLITS[use],
        is_labelled=use != "predict",
    )
    if set_file.submission_file:
        data = dataclasses.replace(
            data, submission_file=set_file.submission_file
        )
    return ExampleSet(examples=examples, data=data, name=set_file.name)


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
