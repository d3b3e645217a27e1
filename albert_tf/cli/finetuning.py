"""What the fine-tuning commands share: their flags, and the run from them.

Source: google-research/albert, `run_classifier.py`, `run_race.py`,
`run_squad_v1.py` and `run_squad_v2.py`, whose flag names all work.
"""

import dataclasses
import logging
import math
import os
import shlex
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from absl import flags

from albert_tf import checks, files, settings
from albert_tf.checkpoints import (
    compatibility,
    discovery,
    run_checkpoints,
)
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.cli import flags as cli_flags
from albert_tf.cli import program
from albert_tf.cli.flags import FlagValues
from albert_tf.export.export_config import ExportConfig
from albert_tf.settings import setting
from albert_tf.tasks import (
    head_flags,
    lengths,
    own_data_defaults,
    paper_presets,
)
from albert_tf.tasks.classification.config import CUSTOM
from albert_tf.tasks.task import NO_WEIGHTS, SPLITS, Sets, TrainedWeights
from albert_tf.text.tokenizer import VocabularyBeside
from albert_tf.training import run_folder
from albert_tf.training.run_config import FinetuningConfig

_LOGGER = logging.getLogger(__name__)

# Each command of the original has one name of every pair; all have both here.
_ALIASES = {
    "train_step": "num_train_steps",
    "warmup_step": "num_warmup_steps",
    "num_keep_checkpoint": "keep_checkpoint_max",
}
# Each flag on the left can be given as the one on the right instead.
_RELATIVE = {
    "num_train_steps": "num_train_epochs",
    "num_warmup_steps": "warmup_proportion",
}
# What `albert_tf.predict` takes, by task of an export.
_INPUTS = {
    "classifier": '"TEXT"  # or < texts, one a line',
    "squad": '"QUESTION" "CONTEXT"',
    "race": "< questions.jsonl",
}
# The sequence comes first: others must fit in it.
_LENGTHS = ("max_seq_length", "doc_stride", "max_query_length", "max_qa_length")
_MULTI_WORKER = ("auto", "multi_worker")
# How often a run is evaluated and logged, unless flags say otherwise.
_LEAST_TIMES = {"save_checkpoints_steps": 5, "log_steps": 20}


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuningFlags(VocabularyBeside):
    """Flags that the command itself resolves, before the run."""

    preset: str | None = setting(
        None,
        "Values for flags that are not given, and the dropout of the encoder: "
        "those of the paper for the task or, for RACE, those for the v2 "
        "checkpoints.",
        choices=paper_presets.PRESETS,
    )
    num_train_epochs: float | None = setting(
        None, "Epochs over the training examples, instead of --num_train_steps."
    )
    export_dir: str | None = setting(
        None,
        "Directory for a SavedModel of the best weights, in float32: a new "
        "version each time the command ends.",
    )


def define_flags(task_config: type, **defaults: Any) -> None:
    """Defines the flags of a fine-tuning command.

    `defaults` are those of the command in the original.
    """
    defaults = {"optimizer": "adamw", "eval_batch_size": 8} | defaults
    for config_class in (FinetuningFlags, FinetuningConfig, task_config):
        cli_flags.define(config_class, **defaults)
    cli_flags.define_for_training()
    for alias, name in _ALIASES.items():
        flags.DEFINE_alias(alias, name)


def run(
    values: FlagValues,
    *,
    task: ModuleType,
    task_config_class: type,
    export_task: str,
) -> int:
    """Trains, evaluates, predicts and exports; returns the exit code.

    Args:
        values: The parsed flags.
        task: The module of the task's sets, such as `tasks.squad.sets`.
        task_config_class: The dataclass of the task's own flags.
        export_task: Task of `ExportConfig`.
    """
    # 1. The flags; the weights in use, and what lies beside them.
    shared = _check(values)
    source = _describe_start(values, shared)
    shared = dataclasses.replace(shared, **source.tokenizer_settings)
    task_config, run_values = _read_flags(
        values, task_config_class, shared.preset
    )
    weights = _find_weights(values)
    _fit_lengths(values, source, weights)
    task_config = cli_flags.read(task_config_class, values)

    # 2. The examples.
    sets = task.read_sets(
        task_config,
        [use for use in SPLITS if values[f"do_{use}"].value],
        tokenizer=source.load_tokenizer(),
        max_seq_length=values.max_seq_length,
        weights=weights,
    )

    # 3. The config, whose number of steps may depend on that of the examples.
    _suit_own_data(values, task_config, sets, source)
    run_values |= _run_length(values, sets, task_config)
    config = cli_flags.read(
        FinetuningConfig,
        values,
        task_settings=settings.affects_training(task_config),
        vocabulary=source.vocabulary,
        **run_values,
    )
    head_flags.check_devices(task_config, on_tpu=config.uses_tpu)

    # 4. Training, evaluation, prediction.
    with program.quiet_import():
        from albert_tf.training import chance, finetune
    export = None
    if shared.export_dir:
        from albert_tf.export import saved_model

        task_fields = task.export_settings(task_config, sets, {})
        export = _export_config(shared, config, export_task, task_fields)
        # An export that cannot succeed is refused before hours of training.
        saved_model.check(export, albert_config=config.albert_config)
    make_task = task.task_maker(task_config, sets)
    result = finetune.run(config, sets, make_task, weights.path)
    if result is None:
        return int(values.preemption_exit_code)
    program.print_scores(result.scores)

    # 5. Export of the weights that have these scores.
    if export:
        task_fields = task.export_settings(task_config, sets, result.scores)
        export = dataclasses.replace(
            export, init_checkpoint=result.weights, **task_fields
        )
        print(saved_model.export(export, albert_config=config.albert_config))
    _say_what_is_next(config, result.weights, _INPUTS[export_task])
    for main in sets.evaluation[:1]:
        chance.warn_of(result.scores, main)
    return 0


def _say_what_is_next(
    config: FinetuningConfig, weights: str, inputs: str
) -> None:
    if config.do_eval:
        report = os.path.join(config.output_dir, "report.html")
        _LOGGER.info("report: %s", report)
    if run_checkpoints.trained_weights(config.output_dir):
        weights = config.output_dir
    _LOGGER.info(
        "next: python -m albert_tf.predict %s %s", shlex.quote(weights), inputs
    )


def _export_config(
    shared: FinetuningFlags,
    config: FinetuningConfig,
    task: str,
    task_fields: dict[str, Any],
) -> ExportConfig:
    return ExportConfig(
        # The weights are known after the run.
        init_checkpoint=config.output_dir,
        export_dir=shared.export_dir or "",
        task=task,
        spm_model_file=shared.spm_model_file,
        vocab_file=shared.vocab_file,
        do_lower_case=shared.do_lower_case,
        max_seq_length=config.max_seq_length,
        **task_fields,
    )


def _check(values: FlagValues) -> FinetuningFlags:
    """Checks what can be checked before any file is read."""
    shared = cli_flags.read(FinetuningFlags, values)
    cli_flags.require(values, "output_dir")
    checks.check_integer(
        "train_batch_size", values.train_batch_size, at_least=1
    )
    for absolute, relative in _RELATIVE.items():
        if values[absolute].present and values[relative].present:
            raise ValueError(
                f"--{absolute} and --{relative} contradict each other. Pass "
                "only one of them."
            )
    files.check_local(values.output_dir)
    is_many = values.strategy in _MULTI_WORKER and (
        "TF_CONFIG" in os.environ or values.cluster is not None
    )
    if shared.export_dir and is_many:
        raise ValueError(
            "--export_dir is for runs on one machine, not for several workers. "
            "Leave it out, and export the --output_dir with "
            "export_saved_model.py."
        )
    return shared


def _describe_start(values: FlagValues, shared: FinetuningFlags) -> Checkpoint:
    """Describes the weights to start from, with the vocabulary to use."""
    source = compatibility.with_vocabulary(
        cli_flags.describe_start(values),
        shared.spm_model_file or shared.vocab_file,
        shared.do_lower_case,
    )
    compatibility.check_vocabulary(source)
    return source


def _read_flags(
    values: FlagValues, task_config_class: type, preset_name: str | None
) -> tuple[Any, dict[str, Any]]:
    """Reads the task's own config, and fields of the run's, with a preset."""
    task_config: Any = cli_flags.read(task_config_class, values)
    if not preset_name:
        return task_config, cli_flags.read_for_training(values)
    preset = paper_presets.paper_settings(task_config.name, preset_name)
    _apply_settings(values, preset.flag_values())
    run_values = cli_flags.read_for_training(values)
    config = preset.with_dropout(run_values["albert_config"])
    task_config = cli_flags.read(task_config_class, values)
    return task_config, run_values | {"albert_config": config}


def _fit_lengths(
    values: FlagValues, source: Checkpoint, weights: TrainedWeights
) -> None:
    """Gives lengths that the user did not give.

    They are those of the weights' training, or else what the model takes and
    what fits in a sequence.
    """
    longest = source.known_config.max_position_embeddings
    for name in _LENGTHS:
        if name not in values or values[name].present:
            continue
        value: Any = values[name].value
        if name == "max_seq_length":
            value = min(value, longest)
        elif name != "doc_stride":
            value = lengths.fitting(value, values.max_seq_length)
        values[name].value = weights.settings.get(name, value)


def _apply_settings(values: FlagValues, chosen: Mapping[str, Any]) -> list[str]:
    """Gives the flags the chosen values, except those that were given.

    Returns the names of the flags that got one.

    Steps and warm-up replace the epochs and the proportion, or the other way
    round, that a command has by default, but not those that the user has given.
    """
    others = _RELATIVE | {name: other for other, name in _RELATIVE.items()}
    applied = []
    for name, value in chosen.items():
        other = others.get(name)
        if values[name].present or (other and values[other].present):
            continue
        values[name].value = value
        if other:
            values[other].value = None
        applied.append(name)
    return applied


def _suit_own_data(
    values: FlagValues, task_config: Any, sets: Sets, source: Checkpoint
) -> None:
    """Gives the flags that were not given what suits data of one's own.

    That is a table, or few questions in a file.
    """
    if not sets.train or values.preset:
        return
    num_examples = len(sets.train.examples)
    has_file = getattr(task_config, "train_file", None)
    is_small = has_file and num_examples < own_data_defaults.FEW_QUESTIONS
    if task_config.name != CUSTOM and not is_small:
        return
    chosen = own_data_defaults.run_settings(
        num_examples,
        train_batch_size=values.train_batch_size,
        hidden_size=source.known_config.hidden_size,
    )
    if names := _apply_settings(values, chosen):
        used = ", ".join(f"--{name}={chosen[name]}" for name in names)
        _LOGGER.info("For %d examples, by default: %s", num_examples, used)


def _flags_text(values: FlagValues, length: Mapping[str, Any]) -> str:
    """Gives the flags the length of the run, and returns them as text.

    As a command, the text gives the same run again.
    """
    used = {**length, "num_train_epochs": None}
    if length["warmup_proportion"] is not None:
        used["num_warmup_steps"] = None
    for name, value in used.items():
        values[name].value = value
    return cli_flags.as_text(values)


def _find_weights(values: FlagValues) -> TrainedWeights:
    """Finds the weights to use, or those of the run that the training resumes.

    The latter may not exist yet.
    """
    path: str | None
    if values.do_train:
        path = run_checkpoints.trained_weights(values.output_dir)
    else:
        path = run_folder.weights_to_use(
            values.output_dir, values.init_checkpoint, is_training=False
        )
    if path is None:
        return NO_WEIGHTS
    found = discovery.open(path)
    return TrainedWeights(
        path=path, metadata=found.metadata, settings=found.settings
    )


def _run_length(
    values: FlagValues, sets: Sets, task_config: Any
) -> dict[str, Any]:
    """Returns the numbers of updates of the run and of its warm-up, and flags.

    Numbers that are given come first; else the epochs and the proportion, of
    which a command may have defaults, determine them.
    """
    if not sets.train:
        return {
            "num_warmup_steps": 0,
            "start_warmup_step": 0,
            "warmup_proportion": None,
        }
    num_steps, num_warmup = values.num_train_steps, values.num_warmup_steps
    epochs, proportion = values.num_train_epochs, values.warmup_proportion
    if values["num_warmup_steps"].present:
        proportion = None
    if values["num_train_steps"].present:
        epochs = None
    # TF1: of examples, not of the windows that long ones are cut into.
    num_examples = len(sets.train.examples)
    if getattr(task_config, "count_windows_as_epochs", False):
        num_examples = sets.train.examples.num_windows
        if epochs is None:
            raise ValueError(
                "--count_windows_as_epochs is for --num_train_epochs, but "
                "--num_train_steps or --preset determines the number of steps. "
                "Pass --num_train_epochs alone."
            )
    if epochs is not None:
        checks.check_number("num_train_epochs", epochs, above=0)
        num_steps = max(1, int(num_examples / values.train_batch_size * epochs))
    if proportion is not None:
        checks.check_number(
            "warmup_proportion", proportion, at_least=0, below=1
        )
        num_warmup = int(num_steps * proportion)
    length = {
        "num_train_steps": num_steps,
        "num_warmup_steps": num_warmup,
        "warmup_proportion": proportion,
    }
    for name, least in _LEAST_TIMES.items():
        interval = values[name].value
        if not values[name].present:
            interval = min(interval, math.ceil(num_steps / least))
        length[name] = interval
    return length | {"flags_text": _flags_text(values, length)}
