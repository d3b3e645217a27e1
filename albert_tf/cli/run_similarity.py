r"""Trains vectors of texts, so that similar texts have similar vectors.

    python run_similarity.py --data_dir=glue/STS-B \
        --text_columns=sentence1,sentence2 --label_column=score \
        --init_checkpoint=albert_base --do_train --do_eval --output_dir=run

Files are TSV or CSV with column names in the first row, or JSON lines: train,
dev and test in --data_dir, or --train_file and so on. A row has a pair of
texts, and a number that says how similar they are.

Without --label_column, the texts of a row belong together, such as a question
and its answer, and the model learns to find the second by the first.
"""

import functools

from albert_tf.cli import finetuning, program
from albert_tf.tasks.encoder.sets import FINETUNING

define_flags = functools.partial(finetuning.define_flags, FINETUNING)
run = functools.partial(finetuning.run, FINETUNING)
main = functools.partial(program.run, define_flags, run, description=__doc__)
