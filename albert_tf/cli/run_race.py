r"""Fine-tunes ALBERT on RACE, or on other multiple-choice questions.

    python run_race.py --albert_config_file=base_v2 \
        --init_checkpoint=albert_base --spm_model_file=30k-clean.model \
        --data_dir=data --do_train --do_eval --do_predict --output_dir=run

--data_dir holds RACE/{train,dev,test}/{middle,high}/*.txt. Other files replace
a split: --train_file, --eval_file, --predict_file.
"""

import functools

from albert_tf.cli import finetuning, program
from albert_tf.tasks.race.sets import FINETUNING

define_flags = functools.partial(finetuning.define_flags, FINETUNING)
run = functools.partial(finetuning.run, FINETUNING)
main = functools.partial(program.run, define_flags, run, description=__doc__)
