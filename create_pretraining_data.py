r"""Makes pretraining records of text files.

    python create_pretraining_data.py --input_file='corpus/*.txt' \
        --output_file=train.tf_record --spm_model_file=30k-clean.model

The text has one sentence a line and a blank line between documents; `.jsonl`
(one `{"text": ...}` a line) and `.gz` are read too. Beside each output file a
`.json` says what made it. A build that was stopped and is started again keeps
the files that were finished.
"""

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
    """Translates the flags and builds."""
    report = builder.build(
        config=_config(values),
        vocabulary=pretraining_config.Vocabulary(
            spm_model_file=values.spm_model_file,
            vocab_file=values.vocab_file,
            do_lower_case=values.do_lower_case,
        ),
        input_files=values.input_file,
        output_files=[
            name.strip() for name in values.output_file.split(",") if name
        ],
        num_workers=values.num_workers,
    )
    print(report)


def _config(
    values: flags.FlagValues,
) -> pretraining_config.PretrainingDataConfig:
    dupe_factor = values.dupe_factor
    if dupe_factor is None:
        dupe_factor = pretraining_config.DEFAULT_DUPE_FACTORS[values.masking]
    return pretraining_config.PretrainingDataConfig(
        masking=values.masking,
        pair_objective=_pair_objective(values),
        max_seq_length=values.max_seq_length,
        max_predictions_per_seq=values.max_predictions_per_seq,
        masked_lm_prob=values.masked_lm_prob,
        short_seq_prob=values.short_seq_prob,
        ngram=values.ngram,
        favor_shorter_ngram=values.favor_shorter_ngram,
        do_whole_word_mask=values.do_whole_word_mask,
        do_permutation=values.do_permutation,
        dupe_factor=dupe_factor,
        random_seed=values.random_seed,
        reference_pairs=values.reference_pairs,
    )


def _pair_objective(values: flags.FlagValues) -> str:
    if not values.random_next_sentence:
        return values.pair_objective or "sop"
    if values.pair_objective not in (None, "nsp"):
        raise ValueError(
            "--random_next_sentence means --pair_objective=nsp. Drop one of "
            f"them. Received: --pair_objective={values.pair_objective}."
        )
    return "nsp"


if __name__ == "__main__":
    run_flags.run_script(define_flags, main)
