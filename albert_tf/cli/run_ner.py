r"""Fine-tunes ALBERT to tag words: entities, parts of speech.

    python run_ner.py --init_checkpoint=albert_base --data_dir=data \
        --do_train --do_eval --do_predict --output_dir=run

--data_dir holds train, dev and test (.conll, .txt or .jsonl): a word a line,
its tag in the last column, empty lines between texts; or lines of JSON with
tokens and tags, or with text and entities. Other files replace a split:
--train_file, --eval_file, --predict_file.
"""

import functools

from albert_tf.cli import finetuning, program
from albert_tf.tasks.tagging.sets import FINETUNING

define_flags = functools.partial(finetuning.define_flags, FINETUNING)
run = functools.partial(finetuning.run, FINETUNING)
main = functools.partial(program.run, define_flags, run, description=__doc__)
