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

import functools

from albert_tf.cli import finetuning, program
from albert_tf.tasks.classification.sets import FINETUNING

define_flags = functools.partial(finetuning.define_flags, FINETUNING)
run = functools.partial(finetuning.run, FINETUNING)
main = functools.partial(program.run, define_flags, run, description=__doc__)
