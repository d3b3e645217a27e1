r"""Makes pretraining records of text files.

    python create_pretraining_data.py --input_file='corpus/*.txt' \
        --output_file=train.tf_record --spm_model_file=30k-clean.model

The text has one sentence a line and a blank line between documents; `.jsonl`
(one `{"text": ...}` a line) and `.gz` are read too. Beside each output file a
`.json` says what made it. A build that was stopped and is started again keeps
the files that were finished.
"""

import dataclasses

from absl import flags

import run_flags
from albert_tf.data import builder, pretraining_config, segment_pairs


def define_flags() -> None:
    """Defines the flags, with the original's names and defaults."""
    _define_file_flags()
    _define_pair_flags()
    _define_masking_flags()


def _define_file_flags() -> None:
    flags.DEFINE_string(
        "input_file", None, "Text files: globs, separated by commas."
    )
    flags.DEFINE_string(
        "output_file",
        None,
        "Record files to write, separated by commas; each gets an equal part "
        "of the corpus.",
    )
    flags.mark_flags_as_required(["input_file", "output_file"])
    flags.DEFINE_string(
        "spm_model_file", None, "SentencePiece model, for English."
    )
    flags.DEFINE_string(
        "vocab_file",
        None,
        "WordPiece vocabulary, for Chinese; not read if --spm_model_file is "
        "given.",
    )
    flags.DEFINE_bool(
        "do_lower_case", True, "Whether letters are made lower case."
    )
    flags.DEFINE_string(
        "input_file_mode",
        "r",
        "Accepted for the original's command lines; text is always UTF-8.",
    )
    flags.DEFINE_integer("num_workers", 1, "Processes that make records.")
    flags.DEFINE_enum("runner", "local", ["local"], "What runs the build.")


def _define_pair_flags() -> None:
    flags.DEFINE_integer(
        "max_seq_length", 512, "Tokens of a record, special ones counted."
    )
    flags.DEFINE_float(
        "short_seq_prob",
        0.1,
        "Share of documents that are cut into shorter sequences.",
    )
    flags.DEFINE_integer(
        "dupe_factor",
        None,
        "Passes over the corpus. Default: 40 for static masks, 1 for dynamic.",
    )
    flags.DEFINE_integer("random_seed", 12345, "Seed of every random draw.")
    flags.DEFINE_enum(
        "pair_objective",
        None,
        segment_pairs.PAIR_OBJECTIVES,
        "sop: sentence order (default); nsp: next sentence; none: single "
        "segments.",
    )
    flags.DEFINE_bool(
        "random_next_sentence", False, "The same as --pair_objective=nsp."
    )
    flags.DEFINE_bool(
        "reference_pairs",
        False,
        "Whether a lone sentence is paired with another document in sop, as "
        "in the original.",
    )


def _define_masking_flags() -> None:
    flags.DEFINE_enum(
        "masking",
        "static",
        pretraining_config.MASKINGS,
        "static: masks are drawn now; dynamic: anew at each reading.",
    )
    flags.DEFINE_integer(
        "max_predictions_per_seq", 20, "Most tokens masked in a record."
    )
    flags.DEFINE_float("masked_lm_prob", 0.15, "Share of tokens to mask.")
    flags.DEFINE_integer("ngram", 3, "Longest n-gram of words to mask.")
    flags.DEFINE_bool(
        "favor_shorter_ngram",
        True,
        "Whether p(n) is proportional to 1/n, or the reverse.",
    )
    flags.DEFINE_bool(
        "do_whole_word_mask", True, "Whether to mask words, or tokens."
    )
    flags.DEFINE_bool(
        "do_permutation",
        False,
        "Whether to also shuffle as many tokens; doubles the prediction slots.",
    )


def main(values: flags.FlagValues) -> None:
    """Builds the records that the flags describe."""
    config = pretraining_config.PretrainingDataConfig(
        **{
            field.name: getattr(values, field.name)
            for field in dataclasses.fields(
                pretraining_config.PretrainingDataConfig
            )
        }
    )
    print(builder.build(config))


if __name__ == "__main__":
    run_flags.run_script(define_flags, main)
