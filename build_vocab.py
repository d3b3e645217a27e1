r"""Makes a SentencePiece vocabulary from text.

    python build_vocab.py --input_file='corpus/*.txt' \
        --output_prefix=vocab/english --vocab_size=30000

Writes vocab/english.model and .vocab: a unigram model with ALBERT's settings
and special tokens.

Source: google-research/albert, README, "SentencePiece".
"""

import dataclasses

from absl import flags

import run_flags


def define_flags() -> None:
    """Defines the flags of this script."""
    flags.DEFINE_string(
        "input_file",
        None,
        "Text files, one sentence a line: globs, separated by commas; .gz is "
        "decompressed.",
        required=True,
    )
    flags.DEFINE_string(
        "output_prefix",
        None,
        "Path without ending of the two files to write: P.model and P.vocab.",
        required=True,
    )
    flags.DEFINE_integer(
        "vocab_size",
        30000,
        "Number of tokens, special ones included.",
        lower_bound=1,
    )
    flags.DEFINE_float(
        "character_coverage",
        0.99995,
        "Share of the text that the characters of the vocabulary cover.",
        lower_bound=0.98,
        upper_bound=1.0,
    )
    flags.DEFINE_bool(
        "do_lower_case", True, "Whether letters are made lower case first."
    )
    flags.DEFINE_integer(
        "input_sentence_size",
        10_000_000,
        "How many sentences are used at most, chosen at random.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "random_seed",
        12345,
        "Chooses the sentences if there are too many.",
    )


def main(values: flags.FlagValues) -> None:
    """Trains the vocabulary that the flags describe; prints a summary."""
    run_flags.require(values, "input_file", "output_prefix")
    from albert_tf.text import vocabulary_training

    config_class = vocabulary_training.VocabularyTrainingConfig
    config = config_class(
        **{
            field.name: getattr(values, field.name)
            for field in dataclasses.fields(config_class)
        }
    )
    print(vocabulary_training.train(config))


if __name__ == "__main__":
    run_flags.run_script(define_flags, main)
