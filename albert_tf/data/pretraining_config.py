"""Settings of a build of pretraining records.

Every field is a flag of `create_pretraining_data.py`, under the same name.

Source: google-research/albert, flags of `create_pretraining_data.py`.
"""

import dataclasses
import re
from typing import Any

from albert_tf import checks
from albert_tf.data import deduplication, segment_pairs
from albert_tf.settings import setting
from albert_tf.text.documents import CorpusSettings
from albert_tf.text.tokenizer import Vocabulary

MASKINGS = ("static", "dynamic")
# A static record shows one draw of masks, so the original writes 40 copies of
# the corpus; a dynamic record gets new masks each time it is read.
DEFAULT_DUPE_FACTORS = {"static": 40, "dynamic": 1}

_RUNNERS = ("local", "beam")
_SHORTEST_SEQUENCE = 8
# `[CLS] A [SEP] B [SEP]` and `[CLS] A [SEP]`.
_NUM_PAIR_SPECIALS, _NUM_SINGLE_SPECIALS = 3, 2

# Who builds. Sidecars do not say it, so that they are the same, too.
_FIELDS_OF_THE_BUILDER = ("num_workers", "runner", "beam_options", "shards")
# These, too, say where files are. The records do not depend on them, but on the
# content of the vocabulary and of the corpus.
_FIELDS_WITHOUT_EFFECT = (
    *_FIELDS_OF_THE_BUILDER,
    "spm_model_file",
    "vocab_file",
    "input_file",
    "text_field",
    "max_bad_lines",
    "output_file",
    "random_next_sentence",  # It is part of `pair_objective`.
)
_SHARD_RANGE = re.compile(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingDataConfig(Vocabulary, CorpusSettings):
    """How to build pretraining records from text.

    The help of each field is its description. The defaults are those of the
    original. `dupe_factor`, `pair_objective` and `keep_more_text` are never
    None once the config exists: their defaults are filled in.

    Raises:
        ValueError: A value is impossible; the message names the field.
    """

    output_file: str | None = setting(
        None,
        "Record files to write, separated by commas; each gets as many blocks "
        "of text, of half a million characters, or a part of one. train@1024 "
        "stands for train-00000-of-01024 to train-01023-of-01024. Paths here, "
        "of text and of the vocabulary may be remote (gs://, s3://).",
    )
    shards: str | None = setting(
        None,
        "Which of the output files to build here, such as 0-511 or 3,7: their "
        "numbers, from 0. Other machines build the others. Default: all.",
    )
    deduplicate: str = setting(
        "none",
        "Documents to leave out. exact: those that come again, whatever their "
        "white space and capital letters; minhash: also those that nearly do. "
        "The first one stays.",
        choices=deduplication.METHODS,
    )
    num_workers: int = setting(1, "Number of processes that build records.")
    runner: str = setting(
        "local",
        "What runs the build. local: this machine; beam: an Apache Beam "
        "pipeline, on this machine or on what --beam_options names.",
        choices=_RUNNERS,
    )
    beam_options: str | None = setting(
        None,
        "Options of the Beam pipeline, such as "
        "'--runner=FlinkRunner --flink_master=host:8081'. Default: this "
        "machine, with --num_workers processes.",
    )
    max_seq_length: int = setting(
        512, "Tokens of a record, special tokens included."
    )
    short_seq_prob: float = setting(
        0.1, "Share of documents that are cut into shorter sequences."
    )
    dupe_factor: int = setting(
        None,
        "Passes over the corpus, each with other pairs. Default: 40 for "
        "static masks, 1 for dynamic masks.",
    )
    random_seed: int = setting(12345, "Seed of every random draw.")
    pair_objective: str = setting(
        None,
        "Pairs to build. sop: sentence order (default); nsp: next sentence; "
        "none: single segments.",
        choices=segment_pairs.PAIR_OBJECTIVES,
    )
    random_next_sentence: bool = setting(
        False, "The same as --pair_objective=nsp."
    )
    reference_pairs: bool = setting(
        False,
        "Whether sop pairs a chunk of one sentence with another document, as "
        "the original does, instead of skipping it.",
    )
    keep_more_text: bool | None = setting(
        None,
        "Whether a pair ends with the sentence whose end is nearest to that "
        "of the record, and sentences that are too long are divided; "
        "otherwise records are filled, and what is too much is cut off, as in "
        "the original. Default: false for sop and nsp with static masks, or "
        "with --reference_pairs; true otherwise.",
    )
    masking: str = setting(
        "static",
        "static: masks are drawn now, and records have the original's eight "
        "fields; dynamic: records hold unmasked pairs, and masks and sentence "
        "order are drawn each time a record is read.",
        choices=MASKINGS,
    )
    token_boundary: bool = setting(
        True,
        "Whether records say where words begin. Without it, those of "
        "--masking=dynamic are a third smaller, and readers take it from the "
        "sidecar, which then says which tokens begin a word.",
    )
    max_predictions_per_seq: int = setting(
        20, "Largest number of tokens masked in a record."
    )
    masked_lm_prob: float = setting(0.15, "Share of tokens to mask.")
    ngram: int = setting(3, "Longest n-gram of words that is masked together.")
    favor_shorter_ngram: bool = setting(
        True,
        "Whether an n-gram of n words has a probability proportional to 1/n; "
        "otherwise the same probabilities in reverse.",
    )
    do_whole_word_mask: bool = setting(
        True, "Whether whole words are masked, or single tokens."
    )
    do_permutation: bool = setting(
        False,
        "Whether to also shuffle as many further tokens among themselves; "
        "doubles the prediction slots.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.check_choice("masking", self.masking, MASKINGS)
        self._fill_in("pair_objective", self._chosen_objective())
        self._fill_in("keep_more_text", self._keeps_more_text())
        if self.dupe_factor is None:
            self._fill_in("dupe_factor", DEFAULT_DUPE_FACTORS[self.masking])
        checks.check_choice("runner", self.runner, _RUNNERS)
        if self.beam_options and self.runner != "beam":
            raise ValueError(
                "`beam_options` needs runner='beam'. Received: "
                f"runner={self.runner!r}."
            )
        self._check_deduplication()
        self.shard_numbers()
        for name in ("num_workers", "ngram", "dupe_factor"):
            checks.check_integer(name, getattr(self, name), at_least=1)
        checks.check_integer("random_seed", self.random_seed)
        checks.check_integer(
            "max_seq_length", self.max_seq_length, at_least=_SHORTEST_SEQUENCE
        )
        checks.check_integer(
            "max_predictions_per_seq",
            self.max_predictions_per_seq,
            at_least=1,
            at_most=self.token_budget,
        )
        checks.check_number(
            "short_seq_prob", self.short_seq_prob, at_least=0, at_most=1
        )
        # Differs: the original accepts 0, and writes records without a target.
        checks.check_number(
            "masked_lm_prob", self.masked_lm_prob, above=0, at_most=1
        )
        if self.do_permutation and self.masking == "dynamic":
            raise ValueError(
                "`do_permutation` needs masking='static': dynamic masks do "
                "not permute. Received: masking='dynamic'."
            )
        if not self.token_boundary and self.masking == "static":
            raise ValueError(
                "`token_boundary` is a field of the original's records. Leave "
                "it out only with --masking=dynamic. Received: "
                "token_boundary=False."
            )
        if self.reference_pairs and self.pair_objective != "sop":
            raise ValueError(
                "`reference_pairs` changes sentence-order pairs only, so it "
                "needs pair_objective='sop'. Received: "
                f"pair_objective={self.pair_objective!r}."
            )

    def _check_deduplication(self) -> None:
        checks.check_choice(
            "deduplicate", self.deduplicate, deduplication.METHODS
        )

    @property
    def token_budget(self) -> int:
        """Tokens that fit into a record beside `[CLS]` and `[SEP]`s."""
        is_single = self.pair_objective == "none"
        num_specials = _NUM_SINGLE_SPECIALS if is_single else _NUM_PAIR_SPECIALS
        return self.max_seq_length - num_specials

    @property
    def num_prediction_slots(self) -> int:
        """P, the length of the masked_lm fields."""
        return self.max_predictions_per_seq * (2 if self.do_permutation else 1)

    @property
    def draws_unrelated(self) -> bool:
        """Whether some second segments come from another document."""
        return self.pair_objective == "nsp" or self.reference_pairs

    def shard_numbers(self) -> list[range] | None:
        """Returns the numbers that `shards` names; None for all.

        Raises:
            ValueError: They are no such numbers.
        """
        if self.shards is None:
            return None
        ranges = []
        for text in self.shards.split(","):
            found = _SHARD_RANGE.fullmatch(text)
            first, last = found.groups() if found else (None, None)
            if first is None or int(last or first) < int(first):
                raise ValueError(
                    "`shards` must be numbers and ranges of numbers, such as "
                    f"0-511 or 3,7. Received: shards={self.shards!r}."
                )
            ranges.append(range(int(first), int(last or first) + 1))
        return ranges

    def hashing(self) -> deduplication.Hashing | None:
        """Returns what finds documents to leave out, if any are.

        Raises:
            ImportError: See `deduplication.Hashing`.
        """
        if self.deduplicate == "none":
            return None
        return deduplication.Hashing(self.deduplicate)

    def without_builder(self) -> "PretrainingDataConfig":
        """Returns the config without what says who builds."""
        defaults: dict[str, Any] = {
            field.name: field.default
            for field in dataclasses.fields(self)
            if field.name in _FIELDS_OF_THE_BUILDER
        }
        return dataclasses.replace(self, **defaults)

    def record_settings(self) -> dict[str, Any]:
        """Returns the fields that the records depend on, by name."""
        return {
            name: value
            for name, value in vars(self).items()
            if name not in _FIELDS_WITHOUT_EFFECT
        }

    def _keeps_more_text(self) -> bool:
        """Returns `keep_more_text`, with its default applied."""
        is_original = self.masking == "static" or self.reference_pairs
        is_single = self.pair_objective == "none"
        if self.keep_more_text is None:
            return is_single or not is_original
        if self.keep_more_text and self.reference_pairs:
            raise ValueError(
                "`reference_pairs` cuts text off as the original does, so it "
                "excludes `keep_more_text`. Drop one of them."
            )
        if not self.keep_more_text and is_single:
            raise ValueError(
                "Single segments are never cut off, so pair_objective='none' "
                "needs `keep_more_text`. Received: keep_more_text=False."
            )
        return self.keep_more_text

    def _chosen_objective(self) -> str:
        """Returns `pair_objective`, with the flags' defaults applied."""
        if self.random_next_sentence:
            if self.pair_objective not in (None, "nsp"):
                raise ValueError(
                    "`random_next_sentence` means pair_objective='nsp'. Drop "
                    "one of them. Received: "
                    f"pair_objective={self.pair_objective!r}."
                )
            return "nsp"
        objective = self.pair_objective or "sop"
        checks.check_choice(
            "pair_objective", objective, segment_pairs.PAIR_OBJECTIVES
        )
        return objective

    def _fill_in(self, name: str, value: Any) -> None:
        # The dataclass is frozen, even for its own `__post_init__`.
        object.__setattr__(self, name, value)
