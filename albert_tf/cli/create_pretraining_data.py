r"""Builds pretraining records from text files.

    python create_pretraining_data.py --input_file='corpus/*.txt' \
        --output_file=train.tf_record --spm_model_file=30k-clean.model

The text has one sentence a line and a blank line between documents; JSON lines
(one `{"text": ...}` a line), Parquet files and Wikipedia dumps are read, too,
also compressed (`.gz`, `.bz2`, `.zst`). A `.json` file next to each output file
says how it was built. If an interrupted build is started again, it keeps the
finished files. The summary says how much of the text is in no record.
"""

import functools

from albert_tf import settings
from albert_tf.cli import flags, program
from albert_tf.data import builder
from albert_tf.data.pretraining_config import PretrainingDataConfig


def run(values: flags.FlagValues) -> None:
    """Builds the records and prints the counts."""
    config = settings.read(PretrainingDataConfig, flags.given(values))
    print(builder.build(config))


define_flags = functools.partial(flags.define, PretrainingDataConfig)
main = functools.partial(program.run, define_flags, run, description=__doc__)
