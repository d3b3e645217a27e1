"""The flags of the fine-tuning commands, and the run that they start."""

import shlex

from absl import flags

from albert_tf import console
from albert_tf.cli import flags as cli_flags
from albert_tf.cli import program
from albert_tf.cli.flags import FlagValues
from albert_tf.tasks.spec import FinetuningSpec
from albert_tf.training import plan as plans

# Each command of the original has one of the two names; ours have both.
_ALIASES = {
    "train_step": "num_train_steps",
    "warmup_step": "num_warmup_steps",
    "num_keep_checkpoint": "keep_checkpoint_max",
    "master": "tpu_name",
}


def define_flags(spec: FinetuningSpec) -> None:
    """Defines the flags of a fine-tuning command."""
    classes = plans.config_classes(spec)
    cli_flags.define(*classes, lists=plans.lists(spec), **plans.defaults(spec))
    for alias, name in _ALIASES.items():
        flags.DEFINE_alias(alias, name)


def run(spec: FinetuningSpec, values: FlagValues) -> int:
    """Trains, evaluates, predicts and exports; returns the exit code."""
    plan, *others = plans.grid(spec, cli_flags.given(values))
    config = plan.config
    with program.quiet_import():
        from albert_tf.training import interface
    result = interface.run_finetunings([plan, *others])
    if result is None:
        return int(values.preemption_exit_code)
    folder = config.output_dir
    if others:
        folder = result.output_dir
        from albert_tf.observers import comparison

        tables = comparison.as_text(result.comparison)
        print(console.printable(f"{tables}\nThe best: {folder}"))
    program.print_scores(result.scores.flat())
    if result.export:
        print(result.export)
    if config.num_folds == 1:
        path = shlex.quote(folder if config.do_train else plan.weights.path)
        arguments = spec.predict_arguments(plan.sets)
        program.say_next(f"python -m albert_tf.predict {path} {arguments}")
    interface.warn_of_chance(result.scores, plan.evaluated)
    return 0
