r"""Fine-tunes ALBERT on RACE, or on other multiple-choice questions.

    python run_race.py --albert_config_file=base_v2 \
        --init_checkpoint=albert_base --spm_model_file=30k-clean.model \
        --data_dir=data --do_train --do_eval --do_predict --output_dir=run

--data_dir holds RACE/{train,dev,test}/{middle,high}/*.txt. Other files replace
a split: --train_file, --eval_file, --predict_file.
"""

from albert_tf.cli import finetuning, program
from albert_tf.cli.flags import FlagValues
from albert_tf.tasks.race.sets import FINETUNING


def main() -> None:
    """Runs the command."""
    program.run(define_flags, run, description=__doc__)


def define_flags() -> None:
    """Defines the flags of the command, with the original's defaults."""
    finetuning.define_flags(FINETUNING)


def run(values: FlagValues) -> int:
    """Reads the examples, then trains, evaluates and predicts."""
    return finetuning.run(values, FINETUNING)
