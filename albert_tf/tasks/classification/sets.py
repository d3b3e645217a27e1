"""The sets of examples that the flags of classification name.

Data flow: flags -> [this file] -> sets -> run.
Imports scikit-learn and TensorFlow only where they are used, so that the flags
are read before.

Source: google-research/albert, `run_classifier.py`.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.metrics.scores import Scores
from albert_tf.tasks import example_files, task
from albert_tf.tasks.classification import glue
from albert_tf.tasks.classification.config import CUSTOM, ClassificationConfig
from albert_tf.tasks.classification.spec import ClassifierSpec
from albert_tf.tasks.example_files import RowsInMemory
from albert_tf.tasks.spec import FinetuningSpec
from albert_tf.tasks.task import (
    NO_WEIGHTS,
    SPLITS,
    ExampleSet,
    MakeTask,
    Sets,
)
from albert_tf.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from albert_tf.tasks.classification.data import ClassificationData


def read_sets(
    config: ClassificationConfig,
    uses: Sequence[str],
    *,
    tokenizer: Tokenizer,
    max_seq_length: int,
    weights: Checkpoint = NO_WEIGHTS,
    given_examples: Mapping[str, RowsInMemory] = {},
) -> Sets:
    """Reads the examples of a run, and checks that they can be used.

    `uses` is what the run does, of `train`, `eval` and `predict`; `weights`
    are those in use; `given_examples` are rows in place of files.
    """
    from albert_tf.tasks.classification import custom
    from albert_tf.tasks.classification.data import ClassificationData

    if config.name == CUSTOM:
        table, examples = custom.read_examples(
            config,
            uses,
            tokenizer=tokenizer,
            max_seq_length=max_seq_length,
            weights=weights,
            given_examples=given_examples,
        )
        return task.sets_by_use(
            {
                use: [ExampleSet(examples=rows, data=table)]
                for use, rows in examples.items()
            }
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
    return task.sets_by_use(
        {use: _read(config, use, data, given_examples) for use in uses}
    )


def _read(
    config: ClassificationConfig,
    use: str,
    data: "ClassificationData",
    given_examples: Mapping[str, RowsInMemory],
) -> list[ExampleSet]:
    """Reads the sets of GLUE for a use, or the file that replaces them."""
    dataset = glue.GLUE_DATASETS[config.name]
    path: Any = example_files.given_file(config, use, given_examples)
    if path:
        set_files = [dataclasses.replace(dataset.files[use][0], path=path)]
    else:
        set_files = glue.existing_sets(
            config.data_dir or "", dataset.files[use]
        )
    return [
        ExampleSet(
            examples=glue.read_examples(
                dataset,
                set_file.path,
                split=SPLITS[use],
                is_labelled=use != "predict",
            ),
            data=dataclasses.replace(
                data,
                submission_file=set_file.submission_file
                or data.submission_file,
            ),
            name=set_file.name,
        )
        for set_file in set_files
    ]


def make_task(config: ClassificationConfig, sets: Sets) -> MakeTask:
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


def export_settings(
    config: ClassificationConfig, sets: Sets, scores: Scores
) -> dict[str, Any]:
    """Returns the fields of the export's config that the task decides.

    `scores` are those of the exported weights, empty if there are none.
    """
    data = cast("ClassificationData", sets.data)
    values = {"labels": data.labels, "exit_patience": config.exit_patience}
    thresholds = data.label_thresholds(scores)
    return values | ({"thresholds": thresholds} if thresholds else {})


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
    export_settings=export_settings,
    spec_of=lambda _: ClassifierSpec,
    predict_arguments='"TEXT"  # or < texts, one a line',
)
