r"""Fine-tunes ALBERT on RACE, or on other multiple-choice questions.

    python run_race.py --albert_config_file=base_v2 \
        --init_checkpoint=albert_base --spm_model_file=30k-clean.model \
        --data_dir=data --do_train --do_eval --do_predict --output_dir=run

--data_dir holds RACE/{train,dev,test}/{middle,high}/*.txt. Files of your own
take the place of a split: --train_file, --eval_file, --predict_file.
"""

import dataclasses
import functools
import logging
import os
from typing import TYPE_CHECKING

from absl import flags

import run_finetuning_export
import run_finetuning_flags
import run_flags
from albert_tf.config import AlbertConfig
from albert_tf.optimization.optimizer_config import OptimizerConfig
from albert_tf.tasks.race import examples as examples_lib
from albert_tf.tasks.race import passage_files
from albert_tf.tasks.race.data import MultipleChoiceData
from albert_tf.tasks.race.examples import LEVELS, MultipleChoiceExample
from albert_tf.tasks.race.features import ChoiceLengths
from albert_tf.tasks.race.passage_files import FieldNames
from albert_tf.training.run_config import (
    ExampleSet,
    FinetuningConfig,
    TrainingConfig,
)

if TYPE_CHECKING:
    from albert_tf.tasks.race.task import MultipleChoiceTask

_logger = logging.getLogger(__name__)

# The original's defaults.
_DEFAULTS = run_finetuning_flags.Defaults(
    training=TrainingConfig(
        train_batch_size=32,
        eval_batch_size=8,
        num_train_steps=12_000,
        save_checkpoints_steps=100,
        keep_checkpoint_max=5,
    ),
    optimizer=OptimizerConfig(
        optimizer="adamw",
        learning_rate=1e-5,
        num_train_steps=12_000,
        num_warmup_steps=1000,
    ),
    finetuning=FinetuningConfig(max_seq_length=512, predict_batch_size=8),
    do_train=True,
    do_eval=True,
)
_SPLITS = {"train": "train", "eval": "dev", "predict": "test"}
_RECORDS = (".tf_record", ".tfrecord")


def define_flags() -> None:
    """Defines the flags of this script."""
    run_finetuning_flags.define_finetuning_flags(_DEFAULTS)
    flags.DEFINE_string(
        "data_dir", None, "Folder that holds RACE/{train,dev,test}/."
    )
    for use, split in _SPLITS.items():
        flags.DEFINE_string(
            f"{use}_file",
            None,
            f"Questions instead of RACE/{split}/: JSON lines; .txt, RACE "
            "passages as in all.txt; .tsv, MCTest with its .ans beside it.",
        )
    fields = FieldNames()
    for field in dataclasses.fields(FieldNames):
        flags.DEFINE_string(
            f"{field.name}_field",
            getattr(fields, field.name),
            f"Where a line of JSON has the {field.name}.",
        )
    flags.DEFINE_enum(
        "task_name", "race", ["race"], "The task.", case_sensitive=False
    )
    flags.DEFINE_float(
        "dropout_prob", 0.1, "Share of the pooled output that is dropped."
    )
    flags.DEFINE_integer(
        "max_qa_length", 128, "Tokens of question and option, at most."
    )
    flags.DEFINE_bool("high_only", False, "Leave RACE's middle level out.")
    flags.DEFINE_bool("middle_only", False, "Leave RACE's high level out.")


def main(values: flags.FlagValues) -> None:
    """Reads the questions, then trains, evaluates and predicts."""
    config = run_finetuning_flags.check_finetuning_flags(values)
    config = run_finetuning_flags.apply_preset(values, config, "race")
    lengths = ChoiceLengths(
        max_seq_length=values.max_seq_length,
        max_qa_length=values.max_qa_length,
    )
    make_data = functools.partial(
        MultipleChoiceData,
        run_finetuning_flags.load_tokenizer(values),
        lengths=lengths,
    )
    sets = {
        use: _example_set(values, use, make_data)
        for use in _SPLITS
        if values[f"do_{use}"].value
    }
    job = run_finetuning_flags.finetuning_job(
        values,
        config=config,
        data=next(iter(sets.values())).data,
        make_task=functools.partial(
            _make_task, dropout_prob=values.dropout_prob
        ),
        train_set=sets.get("train"),
        eval_sets=[sets["eval"]] if "eval" in sets else [],
        predict_sets=[sets["predict"]] if "predict" in sets else [],
    )
    # Of different numbers of options, that of what is predicted.
    last = list(sets.values())[-1]
    export = run_finetuning_export.export_job(
        values,
        task="race",
        config=config,
        max_qa_length=values.max_qa_length,
        num_choices=len(last.examples[0].options),
    )
    scores = run_finetuning_export.run(job, export)
    run_finetuning_export.finish(job, scores, export)


def _make_task(
    config: AlbertConfig, *, dropout_prob: float, seed: int, dtype: str
) -> "MultipleChoiceTask":
    # Imports TensorFlow, so only when the flags and the files are good.
    from albert_tf.tasks.race.task import MultipleChoiceTask

    return MultipleChoiceTask(
        config, dropout_prob=dropout_prob, seed=seed, dtype=dtype
    )


def _field_names(values: flags.FlagValues) -> FieldNames:
    names = (field.name for field in dataclasses.fields(FieldNames))
    return FieldNames(**{name: values[f"{name}_field"].value for name in names})


def _levels(values: flags.FlagValues) -> list[str]:
    if values.high_only and values.middle_only:
        raise ValueError(
            "--high_only and --middle_only leave nothing. Pass one of them."
        )
    left_out = "middle" if values.high_only else "high"
    keep_all = not (values.high_only or values.middle_only)
    return [level for level in LEVELS if keep_all or level != left_out]


def _example_set(
    values: flags.FlagValues,
    use: str,
    make_data: "functools.partial[MultipleChoiceData]",
) -> ExampleSet:
    examples = _read(values, use)
    if use != "predict":
        # Now, not after hours of training.
        examples_lib.known_labels(examples)
    return ExampleSet(
        examples=examples,
        is_stored=True,
        data=make_data(num_choices=len(examples[0].options)),
    )


def _read(values: flags.FlagValues, use: str) -> list[MultipleChoiceExample]:
    """Returns the questions for one use."""
    levels, fields = _levels(values), _field_names(values)
    name = values[f"{use}_file"].value
    if name and os.path.splitext(name)[1] in _RECORDS:
        # TF1: where the original keeps its records, whatever made them.
        _logger.warning(
            "--%s_file=%s is not read: records are kept in --cached_dir, "
            "under a key of all that made them.",
            use,
            name,
        )
        name = None
    if name:
        found = passage_files.read_questions(name, fields=fields)
        return _of_levels(found, levels, name)
    if not values.data_dir:
        raise ValueError(f"--data_dir or --{use}_file must be given.")
    return passage_files.read_split(
        values.data_dir, _SPLITS[use], levels=levels
    )


def _of_levels(
    examples: list[MultipleChoiceExample], levels: list[str], name: str
) -> list[MultipleChoiceExample]:
    if len(levels) == len(LEVELS):
        return examples
    found = [example for example in examples if example.level in levels]
    if not found:
        raise ValueError(
            f"{name} has no question of the level {levels[0]}. Leave "
            f"--{levels[0]}_only out."
        )
    return found


if __name__ == "__main__":
    run_flags.run_script(define_flags, main)
