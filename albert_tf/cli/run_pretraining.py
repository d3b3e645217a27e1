r"""Pretrains ALBERT on the records of create_pretraining_data.py.

    python run_pretraining.py --albert_config_file=base_v2 \
        --input_file='records/train-*' --eval_file=records/eval \
        --do_train --do_eval --output_dir=run

Running the same command again resumes. The defaults are the paper's settings:
LAMB, learning rate 0.00176, batch size 4096, 125,000 steps, 3,125 of warm-up.
--flagfile=recipes/budget.flags has others, for little time.
"""

import functools
import logging

from absl import flags

from albert_tf import globs, registry
from albert_tf.cli import flags as cli_flags
from albert_tf.cli import program
from albert_tf.training import plan
from albert_tf.training.pretrain_config import PretrainingConfig

_LOGGER = logging.getLogger(__name__)


def define_flags() -> None:
    """Defines the flags of the command."""
    cli_flags.define(PretrainingConfig)
    flags.DEFINE_alias("master", "tpu_name")


def run(values: cli_flags.FlagValues) -> int:
    """Checks the flags, then trains and evaluates; returns the exit code."""
    config = plan.pretraining(cli_flags.given(values))
    if config.do_train:
        globs.expand_globs(config.input_file)
    if config.do_eval:
        globs.expand_globs(config.evaluated_file)
    with program.quiet_import():
        from albert_tf.training import pretrain

    result = pretrain.run(config)
    if result is None:
        return int(values.preemption_exit_code)
    program.print_scores(result.scores.flat())
    frequencies = registry.load(registry.FREQUENCIES["tokens"])
    if verdict := frequencies.verdict(result.scores):
        _LOGGER.log(*verdict)
    else:
        program.say_what_is_next("fine_tuning", values)
    return 0


main = functools.partial(program.run, define_flags, run, description=__doc__)
