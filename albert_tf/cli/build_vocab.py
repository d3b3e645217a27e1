r"""Trains a SentencePiece vocabulary on text.

    python build_vocab.py --input_file='corpus/*.txt' \
        --output_prefix=vocab/english --vocab_size=30000

Writes vocab/english.model and .vocab: a unigram model with ALBERT's settings
and special tokens. With --model_type=char, vocab/english.symbols.json, a list
of characters, for symbols that are no words, such as phonemes.

Source: google-research/albert, README, "SentencePiece".
"""

import functools

from albert_tf import settings
from albert_tf.cli import flags, program
from albert_tf.text import vocabulary_training
from albert_tf.text.vocabulary_training import VocabularyTrainingConfig


def run(values: flags.FlagValues) -> None:
    """Trains the vocabulary and prints a summary."""
    config = settings.read(VocabularyTrainingConfig, flags.given(values))
    if config.model_type == "unigram":
        print(vocabulary_training.train(config))
    else:
        print(vocabulary_training.list_symbols(config))


define_flags = functools.partial(flags.define, VocabularyTrainingConfig)
main = functools.partial(program.run, define_flags, run, description=__doc__)
