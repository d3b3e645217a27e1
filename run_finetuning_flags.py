"""What the fine-tuning scripts share: their flags, and the job made of them.

Floor 7. It imports no TensorFlow.

Source: google-research/albert, `run_classifier.py`, `run_race.py`,
`run_squad_v1.py` and `run_squad_v2.py`, whose spellings all work.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from absl import flags

import run_finetuning_export
import run_flags
from albert_tf import files
from albert_tf.config import AlbertConfig
from albert_tf.optimization.optimizer_config import OptimizerConfig
from albert_tf.tasks import paper_presets
from albert_tf.tasks.task import TaskData
from albert_tf.text import tokenizer as tokenizer_lib
from albert_tf.text.tokenizer import Tokenizer
from albert_tf.training import run_config
from albert_tf.training.run_config import (
    ExampleSet,
    FinetuningConfig,
    FinetuningJob,
    TrainingConfig,
)

if TYPE_CHECKING:
    from albert_tf.tasks.task import MakeTask

# The script that has the first of each pair has the second as well.
_ALIASES = {
    "train_step": "num_train_steps",
    "warmup_step": "num_warmup_steps",
    "num_keep_checkpoint": "keep_checkpoint_max",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Defaults:
    """Values of the flags of one script that are not given.

    Args:
        training: Batch sizes, checkpoints, numerics.
        optimizer: Update rule, rate, steps and warm-up.
        finetuning: Lengths, seeds.
        num_train_epochs: Passes over the examples, instead of the steps.
        warmup_proportion: Share of the steps, instead of the warm-up's own.
        do_train: Whether to train.
        do_eval: Whether to evaluate.
    """

    training: TrainingConfig
    optimizer: OptimizerConfig
    finetuning: FinetuningConfig
    num_train_epochs: float | None = None
    warmup_proportion: float | None = None
    do_train: bool = False
    do_eval: bool = False


def define_finetuning_flags(defaults: Defaults) -> None:
    """Defines all flags but those that say where a task's data are."""
    # So that --help shows them as the script's own.
    flags.disclaim_key_flags()
    run_flags.define_model_flags()
    flags.DEFINE_string(
        "albert_hub_module_handle",
        None,
        "Not used: TF-Hub modules are read as checkpoints, by "
        "--init_checkpoint.",
    )
    flags.DEFINE_string("spm_model_file", None, "SentencePiece model.")
    flags.DEFINE_string("vocab_file", None, "WordPiece vocabulary, instead.")
    flags.DEFINE_bool("do_lower_case", True, "Whether to lower-case the text.")
    flags.DEFINE_string("output_dir", None, "Folder of the run.")
    flags.DEFINE_bool("do_train", defaults.do_train, "Whether to train.")
    flags.DEFINE_bool("do_eval", defaults.do_eval, "Whether to evaluate.")
    flags.DEFINE_bool("do_predict", False, "Whether to write predictions.")
    flags.DEFINE_string(
        "export_dir",
        None,
        "Folder for a SavedModel, in float32, of the best weights, those that "
        "predict: a new version each time that the command ends.",
    )
    run_flags.define_training_flags(defaults.training)
    flags.DEFINE_enum(
        "preset",
        None,
        paper_presets.PRESETS,
        "Values for flags that are not given, and the encoder's dropout: the "
        "paper's for the task, or, for RACE, what suits the v2 checkpoints.",
    )
    _define_length_of_run(defaults)
    _define_settings(defaults.finetuning)
    for alias, name in _ALIASES.items():
        flags.DEFINE_alias(alias, name)


def _define_length_of_run(defaults: Defaults) -> None:
    run_flags.define_optimizer_flags(defaults.optimizer)
    flags.DEFINE_float(
        "num_train_epochs",
        defaults.num_train_epochs,
        "Passes over the training examples; instead of --num_train_steps.",
    )
    flags.DEFINE_float(
        "warmup_proportion",
        defaults.warmup_proportion,
        "Share of the updates that warm up; instead of --num_warmup_steps.",
    )


def _define_settings(defaults: FinetuningConfig) -> None:
    integers = {
        "max_seq_length": "Tokens of a sequence at most.",
        "predict_batch_size": "Examples of one batch of predictions.",
        "early_stopping_patience": "Evaluations without a better score after "
        "which training ends; 0 for never.",
        "num_seeds": "Runs, each with a seed of its own in seed-*/; median "
        "and best are reported.",
        "max_restarts": "Restarts of a run that collapsed.",
    }
    for name, text in integers.items():
        flags.DEFINE_integer(name, getattr(defaults, name), text)
    flags.DEFINE_enum(
        "on_collapse",
        defaults.on_collapse,
        run_config.ON_COLLAPSE,
        "When a run predicts the same for all, or its loss never leaves its "
        "start: restart it with another seed and a longer warm-up, or ignore "
        "it.",
    )
    flags.DEFINE_float(
        "layerwise_lr_decay",
        defaults.layerwise_lr_decay,
        "Factor of the learning rate from a level of the model to the one "
        "below: head, groups of blocks, projection, embeddings.",
    )
    flags.DEFINE_bool(
        "freeze_embeddings",
        defaults.freeze_embeddings,
        "Whether the embeddings keep their weights.",
    )
    flags.DEFINE_string(
        "cached_dir",
        defaults.cached_dir,
        "Folder for the records, used again where the same settings and "
        "files make the same; cache/ in --output_dir without.",
    )


def apply_preset(
    values: flags.FlagValues, config: AlbertConfig, task_name: str
) -> AlbertConfig:
    """Gives flags the values of --preset, except those that the user gave.

    A preset that sets steps or warm-up replaces epochs or a proportion, unless
    the user gave these.

    Args:
        values: The flags.
        config: Shape of the model.
        task_name: See `paper_presets.paper_settings`.

    Returns:
        The config with the preset's dropout, if there is a preset.

    Raises:
        ValueError: There is none for this task.
    """
    if not values.preset:
        return config
    settings = paper_presets.paper_settings(task_name, values.preset)
    instead = {
        "num_train_steps": "num_train_epochs",
        "num_warmup_steps": "warmup_proportion",
    }
    for name, value in settings.flag_values().items():
        other = instead.get(name)
        if values[name].present or (other and values[other].present):
            continue
        values[name].value = value
        if other:
            values[other].value = None
    return settings.with_dropout(config)


def check_finetuning_flags(values: flags.FlagValues) -> AlbertConfig:
    """Checks what can be checked before any example is read.

    Returns:
        The config that --albert_config_file names.

    Raises:
        ValueError: A flag is missing, or two contradict each other.
        FileNotFoundError: There is no such config.
    """
    if values.albert_hub_module_handle:
        raise ValueError(
            "--albert_hub_module_handle cannot be used: TF-Hub modules were "
            "made for TensorFlow 1. Unpack it and pass its "
            "variables/variables as --init_checkpoint, with its "
            "--albert_config_file."
        )
    run_flags.require(values, "albert_config_file", "output_dir")
    if not (values.spm_model_file or values.vocab_file):
        raise ValueError("--spm_model_file or --vocab_file must be given.")
    if not (values.do_train or values.do_eval or values.do_predict):
        raise ValueError(
            "There is nothing to do: pass --do_train, --do_eval or "
            "--do_predict."
        )
    for name, other in (
        ("num_train_steps", "num_train_epochs"),
        ("num_warmup_steps", "warmup_proportion"),
    ):
        if values[name].present and values[other].present:
            raise ValueError(
                f"--{name} and --{other} say the same thing twice. Pass one "
                "of them."
            )
    files.check_local(values.output_dir)
    run_finetuning_export.check_export_flag(values)
    return run_flags.albert_config(values)


def load_tokenizer(values: flags.FlagValues) -> Tokenizer:
    """Loads the vocabulary that the flags name.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is damaged.
    """
    return tokenizer_lib.load_tokenizer(
        spm_model_file=values.spm_model_file,
        vocab_file=values.vocab_file,
        do_lower_case=values.do_lower_case,
    )


def finetuning_job(
    values: flags.FlagValues,
    *,
    config: AlbertConfig,
    data: TaskData,
    make_task: "MakeTask",
    train_set: ExampleSet | None = None,
    eval_sets: Sequence[ExampleSet] = (),
    predict_sets: Sequence[ExampleSet] = (),
) -> FinetuningJob:
    """Makes the job that the flags of `define_finetuning_flags` ask for.

    Args:
        values: The flags.
        config: As `check_finetuning_flags` returns it.
        data: The task's NumPy half.
        make_task: Makes the task's TensorFlow half.
        train_set: Examples to train on; None without --do_train.
        eval_sets: Labelled examples; none without --do_eval.
        predict_sets: Examples to write predictions of; likewise.

    Raises:
        ValueError: A value is impossible, or two contradict each other.
    """
    num_examples = len(train_set.examples) if train_set else 0
    num_steps = _num_train_steps(values, num_examples)
    training = dataclasses.replace(
        run_flags.training_config(values), num_train_steps=num_steps
    )
    steps = {"num_train_steps": num_steps, "num_warmup_steps": 0}
    if train_set:
        steps["num_warmup_steps"] = _num_warmup_steps(values, num_steps)
    else:
        steps["start_warmup_step"] = 0
    names = (field.name for field in dataclasses.fields(FinetuningConfig))
    return FinetuningJob(
        config=config,
        training=training,
        optimizer=run_flags.optimizer_config(values, **steps),
        finetuning=FinetuningConfig(
            **{name: values[name].value for name in names}
        ),
        data=data,
        make_task=make_task,
        output_dir=values.output_dir,
        train_set=train_set,
        eval_sets=tuple(eval_sets),
        predict_sets=tuple(predict_sets),
        init_checkpoint=values.init_checkpoint,
        flags_text=run_flags.flags_text(values),
    )


def _num_train_steps(values: flags.FlagValues, num_examples: int) -> int:
    epochs = values.num_train_epochs
    if epochs is None or values["num_train_steps"].present:
        return values.num_train_steps
    if not 0 < epochs < math.inf:
        raise ValueError(
            "`num_train_epochs` must be above 0 and finite. Received: "
            f"num_train_epochs={epochs}."
        )
    run_config.check_at_least(1, "train_batch_size", values.train_batch_size)
    # TF1: examples, not the windows that long ones are cut into.
    return max(1, int(num_examples / values.train_batch_size * epochs))


def _num_warmup_steps(values: flags.FlagValues, num_steps: int) -> int:
    share = values.warmup_proportion
    if share is None or values["num_warmup_steps"].present:
        return values.num_warmup_steps
    if not 0 <= share < 1:
        raise ValueError(
            "`warmup_proportion` must be at least 0 and below 1. Received: "
            f"warmup_proportion={share}."
        )
    return int(num_steps * share)
