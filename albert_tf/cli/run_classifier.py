r"""Fine-tunes ALBERT on a task of GLUE, or on a table of your own.

    python run_classifier.py --task_name=mrpc --data_dir=glue \
        --albert_config_file=base_v2 --spm_model_file=30k-clean.model \
        --init_checkpoint=albert_base --preset=paper \
        --do_train --do_eval --do_predict --output_dir=run

--data_dir holds GLUE's folders: CoLA/train.tsv, MNLI/dev_matched.tsv, ...
MNLI is evaluated and predicted on both sets, and on the diagnostic set if it
is there. A table of your own is TSV or CSV with column names in the first row,
or JSON lines: train.tsv, dev.tsv, test.tsv in --data_dir, or files by name:

    python run_classifier.py --task_name=custom --train_file=mails.jsonl \
        --text_columns=subject,body --label_column=folder ...
"""

from albert_tf.cli import finetuning, program
from albert_tf.cli.flags import FlagValues
from albert_tf.tasks.classification.sets import FINETUNING


def main() -> None:
    """Runs the command."""
    program.run(define_flags, run, description=__doc__)


def define_flags() -> None:
    """Defines the flags of the command, with the original's defaults."""
    finetuning.define_flags(FINETUNING)


def run(values: FlagValues) -> int:
    """Reads the examples, then trains, evaluates and predicts."""
    return finetuning.run(values, FINETUNING)
