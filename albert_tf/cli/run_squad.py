r"""Fine-tunes ALBERT on SQuAD 1.1 or 2.0, and answers questions.

    python run_squad.py --albert_config_file=base_v2 \
        --init_checkpoint=albert_base --spm_model_file=30k-clean.model \
        --train_file=train-v2.0.json --predict_file=dev-v2.0.json \
        --version_2_with_negative --do_train --do_predict --output_dir=run

The questions of --predict_file are also evaluated if all their answers are
known; --eval_file names another file to evaluate.
"""

from albert_tf.cli import finetuning, program
from albert_tf.cli.flags import FlagValues
from albert_tf.tasks.squad import sets


def main() -> None:
    """Runs the command."""
    program.run(define_flags, run, description=__doc__)


def define_flags() -> None:
    """Defines the flags of the command, with the original's defaults."""
    finetuning.define_flags(
        sets.SquadConfig,
        learning_rate=5e-5,
        train_batch_size=32,
        save_checkpoints_steps=1000,
        max_seq_length=384,
        num_train_epochs=3.0,
        warmup_proportion=0.1,
    )


def run(values: FlagValues) -> int:
    """Reads the questions, then trains, evaluates and predicts."""
    return finetuning.run(
        values,
        task=sets,
        task_config_class=sets.SquadConfig,
        export_task="squad",
    )
