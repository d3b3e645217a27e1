r"""Fine-tunes ALBERT on a task of GLUE, or on a table of one's own.

    python run_classifier.py --task_name=mrpc --data_dir=glue \
        --albert_config_file=base_v2 --spm_model_file=30k-clean.model \
        --init_checkpoint=albert_base --preset=paper \
        --do_train --do_eval --do_predict --output_dir=run

--data_dir holds GLUE's folders: CoLA/train.tsv, MNLI/dev_matched.tsv, ...
MNLI is evaluated and predicted on both sets, and on the diagnostic set if it
is there. A table of one's own is TSV with column names in the first row, or
JSONL: train.tsv, dev.tsv, test.tsv in --data_dir, or files by name:

    python run_classifier.py --task_name=custom --train_file=mails.jsonl \
        --text_columns=subject,body --label_column=folder ...
"""

import contextlib
import dataclasses
import functools
import logging
from typing import TYPE_CHECKING

from absl import flags

import run_finetuning_export
import run_finetuning_flags
import run_flags
from albert_tf.optimization.optimizer_config import OptimizerConfig
from albert_tf.tasks.classification import custom, examples, glue
from albert_tf.tasks.classification import sets as sets_lib
from albert_tf.tasks.classification.examples import Columns
from albert_tf.tasks.classification.sets import (
    CUSTOM,
    SPLITS,
    ExamplesOfFile,
    FilesToRead,
    TaskSets,
)
from albert_tf.training import run_folder
from albert_tf.training.run_config import (
    ExampleSet,
    FinetuningConfig,
    TrainingConfig,
)

if TYPE_CHECKING:
    from albert_tf.tasks.classification.data import ClassificationData

_logger = logging.getLogger(__name__)

# The original's defaults.
_DEFAULTS = run_finetuning_flags.Defaults(
    training=TrainingConfig(
        train_batch_size=32,
        eval_batch_size=8,
        num_train_steps=1000,
        save_checkpoints_steps=1000,
        keep_checkpoint_max=5,
    ),
    optimizer=OptimizerConfig(
        optimizer="adamw",
        learning_rate=5e-5,
        num_train_steps=1000,
        num_warmup_steps=0,
    ),
    finetuning=FinetuningConfig(max_seq_length=512, predict_batch_size=8),
)
_CUSTOM_FLAGS = (
    "text_columns",
    "label_column",
    "id_column",
    "labels",
    "regression",
)


def define_flags() -> None:
    """Defines the flags of this script."""
    run_finetuning_flags.define_finetuning_flags(_DEFAULTS)
    flags.DEFINE_string(
        "task_name",
        None,
        f"{', '.join(glue.GLUE_DATASETS)}, or custom.",
    )
    flags.DEFINE_string("data_dir", None, "Folder of GLUE, or of the table.")
    for use, split in SPLITS.items():
        flags.DEFINE_string(
            f"{use}_file", None, f"File instead of the {split} file(s)."
        )
    _define_custom_flags()
    flags.DEFINE_float(
        "dropout_prob", 0.1, "Share of the pooled output that is dropped."
    )
    flags.DEFINE_float(
        "threshold_to_export",
        None,
        "Not used: the original meant to give it back with every answer.",
    )


def _define_custom_flags() -> None:
    flags.DEFINE_list(
        "text_columns", None, "custom: column of the text, or two of a pair."
    )
    flags.DEFINE_string("label_column", None, "custom: column of the label.")
    flags.DEFINE_string(
        "id_column",
        None,
        "custom: column of a row's id, for the predictions; the number of the "
        "line without.",
    )
    flags.DEFINE_list(
        "labels",
        None,
        "custom: all labels, in the order of the outputs; those of the file "
        "to train on, sorted, without.",
    )
    flags.DEFINE_bool(
        "regression", False, "custom: whether labels are numbers to predict."
    )


def main(values: flags.FlagValues) -> None:
    """Reads the examples, then trains, evaluates and predicts."""
    run_flags.require(values, "task_name")
    is_custom = values.task_name.lower() == CUSTOM
    read = _read_custom if is_custom else _read_glue
    if not is_custom:
        glue.find_dataset(values.task_name)
    config = run_finetuning_flags.check_finetuning_flags(values)
    config = run_finetuning_flags.apply_preset(values, config, values.task_name)
    _warn_of_threshold(values)
    tokenizer = run_finetuning_flags.load_tokenizer(values)
    task = read(values, _files_to_read(values))
    with run_flags.quiet_import():
        from albert_tf.tasks.classification.data import ClassificationData
        from albert_tf.tasks.classification.task import ClassificationTask

    data = ClassificationData(
        name=task.name,
        labels=task.labels,
        score_names=task.score_names,
        tokenizer=tokenizer,
        max_seq_length=values.max_seq_length,
        prediction_range=task.prediction_range,
    )
    sets = {
        use: [_example_set(one, data) for one in found]
        for use, found in task.sets.items()
    }
    job = run_finetuning_flags.finetuning_job(
        values,
        config=config,
        data=data,
        make_task=functools.partial(
            ClassificationTask,
            num_labels=len(task.labels),
            dropout_prob=values.dropout_prob,
        ),
        train_set=sets["train"][0] if "train" in sets else None,
        eval_sets=sets.get("eval", ()),
        predict_sets=sets.get("predict", ()),
    )
    export = run_finetuning_export.export_job(
        values, task="classifier", config=config, labels=task.labels
    )
    scores = run_finetuning_export.run(job, export)
    run_finetuning_export.finish(job, scores, export)


def _example_set(one: ExamplesOfFile, data: "ClassificationData") -> ExampleSet:
    if one.source.submission_file:
        data = dataclasses.replace(
            data, submission_file=one.source.submission_file
        )
    return ExampleSet(
        examples=one.examples,
        is_stored=True,
        name=one.source.name,
        data=data,
    )


def _warn_of_threshold(values: flags.FlagValues) -> None:
    if values.threshold_to_export is not None:
        _logger.warning(
            "--threshold_to_export=%s is not exported. Compare the "
            "`probabilities` that the SavedModel gives with it yourself.",
            values.threshold_to_export,
        )


def _files_to_read(values: flags.FlagValues) -> FilesToRead:
    return FilesToRead(
        uses=[use for use in SPLITS if values[f"do_{use}"].value],
        data_dir=values.data_dir,
        named={use: values[f"{use}_file"].value for use in SPLITS},
    )


def _read_glue(values: flags.FlagValues, wanted: FilesToRead) -> TaskSets:
    given = [name for name in _CUSTOM_FLAGS if values[name].present]
    if given:
        raise ValueError(
            f"--{given[0]} is for --task_name=custom; GLUE says that itself. "
            f"Received: task_name={values.task_name}."
        )
    dataset = glue.find_dataset(values.task_name)
    return sets_lib.read_glue(dataset, wanted)


def _read_custom(values: flags.FlagValues, wanted: FilesToRead) -> TaskSets:
    run_flags.require(values, "text_columns")
    if values.do_train or values.do_eval:
        run_flags.require(values, "label_column")
    columns = Columns(
        texts=tuple(values.text_columns),
        label=values.label_column,
        guid=values.id_column,
    )
    labels = _custom_labels(values, wanted)
    return sets_lib.read_custom(columns, labels, wanted)


def _custom_labels(
    values: flags.FlagValues, wanted: FilesToRead
) -> tuple[str, ...]:
    if values.regression and values.labels:
        raise ValueError(
            "--labels names labels, --regression predicts numbers. Pass one "
            "of them."
        )
    kept = run_folder.read_settings(values.output_dir).get("labels")
    labels: tuple[str, ...] = ()
    if values.labels:
        labels = tuple(values.labels)
        examples.check_labels(labels, "--labels")
    elif not values.regression:
        labels = custom.find_labels(
            _file_of_labels(values, wanted),
            values.label_column,
            kept,
            is_training=values.do_train,
        )
    custom.check_labels(labels, kept, values.output_dir)
    return labels


def _file_of_labels(
    values: flags.FlagValues, wanted: FilesToRead
) -> str | None:
    if values.do_train or values.train_file:
        return sets_lib.custom_file("train", wanted)
    if values.data_dir:
        with contextlib.suppress(FileNotFoundError):
            return sets_lib.custom_file("train", wanted)
    return None


if __name__ == "__main__":
    run_flags.run_script(define_flags, main)
