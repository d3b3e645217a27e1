r"""Fine-tunes ALBERT on SQuAD 1.1 or 2.0, and answers questions.

    python run_squad.py --albert_config_file=base_v2 \
        --init_checkpoint=albert_base --spm_model_file=30k-clean.model \
        --train_file=train-v2.0.json --predict_file=dev-v2.0.json \
        --version_2_with_negative --do_train --do_predict --output_dir=run

The questions of --predict_file are also evaluated if all their answers are
known; --eval_file names another file to evaluate.
"""

import functools

from albert_tf.cli import finetuning, program
from albert_tf.tasks.squad.sets import FINETUNING

define_flags = functools.partial(finetuning.define_flags, FINETUNING)
run = functools.partial(finetuning.run, FINETUNING)
main = functools.partial(program.run, define_flags, run, description=__doc__)
