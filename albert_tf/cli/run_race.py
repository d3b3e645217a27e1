r"""Fine-tunes ALBERT on RACE, or on other multiple-choice questions.

    python run_race.py --albert_config_file=base_v2 \
        --init_checkpoint=albert_base --spm_model_file=30k-clean.model \
        --data_dir=data --do_train --do_eval --do_predict --output_dir=run

--data_dir holds RACE/{train,dev,test}/{middle,high}/*.txt. Other files replace
a split: --train_file, --eval_file, --predict_file.
"""

from absl import flags

from albert_tf.cli import finetuning, program
from albert_tf.cli.flags import FlagValues
from albert_tf.tasks.race import sets


def main() -> None:
    """Runs the command."""
    program.run(define_flags, run, description=__doc__)


def define_flags() -> None:
    """Defines the flags of the command, with the original's defaults."""
    finetuning.define_flags(
        sets.RaceConfig,
        learning_rate=1e-5,
        num_train_steps=12_000,
        num_warmup_steps=1000,
        train_batch_size=32,
        save_checkpoints_steps=100,
        do_train=True,
        do_eval=True,
    )
    flags.DEFINE_enum(
        "task_name", "race", ["race"], "The task.", case_sensitive=False
    )


def run(values: FlagValues) -> int:
    """Reads the questions, then trains, evaluates and predicts."""
    return finetuning.run(
        values,
        task=sets,
        task_config_class=sets.RaceConfig,
        export_task="race",
    )
