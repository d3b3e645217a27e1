"""Settings of a build of pretraining records.

Every field is a flag of `create_pretraining_data.py`, under the same name.

Source: google-research/albert, flags of `create_pretraining_data.py`.
"""

import dataclasses

from albert_tf.data.shards import RecordSettings
from albert_tf.settings import setting
from albert_tf.text.documents import CorpusSettings
from albert_tf.text.tokenizer import Vocabulary

# A static record shows one draw of masks, so the original writes 40 copies of
# the corpus; a dynamic record gets new masks each time it is read.
DEFAULT_DUPE_FACTORS = {"static": 40, "dynamic": 1}

# Neither who builds nor where files are has an effect on the records, which
# depend on the content of the vocabulary and of the corpus.
_FIELDS_OF_ORIGIN = ("input_file", "text_field", "spm_model_file", "vocab_file")
# Longer lists of files are cut off in a sidecar.
_MAX_CHARACTERS = 1000
_FIELDS_OF_THE_BUILDER = (
    *("num_workers", "runner", "beam_options", "shards"),
    *("max_bad_lines", "output_file"),
    "random_next_sentence",  # It is part of `pair_objective`.
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingDataConfig(RecordSettings, Vocabulary, CorpusSettings):
    """How to build pretraining records from text.

    The defaults are the original's. `dupe_factor`, `pair_objective` and
    `keep_more_text` are never None once the config exists.
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
        "Documents to leave out. exact: repeated documents, whatever their "
        "white space and capital letters; minhash: also documents that are "
        "nearly the same. The first one stays.",
        choices=("none", "exact", "minhash"),
    )
    num_workers: int = setting(
        1,
        "Number of processes of the local runner that build records.",
        at_least=1,
    )
    runner: str = setting(
        "local",
        "Where the build runs. local: on this machine; beam: in an Apache Beam "
        "pipeline, on this machine or where --beam_options says.",
        choices=("local", "beam"),
    )
    beam_options: str | None = setting(
        None,
        "Options of the Beam pipeline, such as "
        "'--runner=FlinkRunner --flink_master=host:8081'. Default: one "
        "process of this machine, to try the pipeline.",
    )
    short_seq_prob: float = setting(
        0.1,
        "Share of documents that are cut into shorter sequences.",
        at_least=0,
        at_most=1,
    )
    dupe_factor: int = setting(
        None,
        "Passes over the corpus, each with other pairs. Default: 40 for "
        "static masks, 1 for dynamic masks.",
        at_least=1,
    )
    random_seed: int = setting(12345, "Seed of every random draw.")
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
        "otherwise records are filled, and the excess is cut off, as in "
        "the original. Default: false for sop and nsp with static masks, or "
        "with --reference_pairs; true otherwise.",
    )

    def __post_init__(self) -> None:
        self._fill_in_defaults()
        super().__post_init__()
        self._check_combinations()

    def _fill_in_defaults(self) -> None:
        objective = self.pair_objective
        if objective is None:
            objective = "nsp" if self.random_next_sentence else "sop"
        keeps_more = self.keep_more_text
        if keeps_more is None:
            is_original = self.masking == "static" or self.reference_pairs
            keeps_more = objective == "none" or not is_original
        dupe_factor = self.dupe_factor
        if dupe_factor is None:
            dupe_factor = DEFAULT_DUPE_FACTORS.get(self.masking)
        for name, value in (
            ("pair_objective", objective),
            ("keep_more_text", keeps_more),
            ("dupe_factor", dupe_factor),
        ):
            # The dataclass is frozen, even for its own `__post_init__`.
            object.__setattr__(self, name, value)

    def _check_combinations(self) -> None:
        """Refuses settings of which one would have no effect."""
        for is_wrong, message in (
            (
                self.random_next_sentence and self.pair_objective != "nsp",
                "`random_next_sentence` means pair_objective='nsp'.",
            ),
            (
                self.runner == "beam" and self.num_workers > 1,
                "`beam_options` names the workers of a Beam pipeline, so "
                "`num_workers` must be 1.",
            ),
            (
                self.do_permutation and self.masking == "dynamic",
                "`do_permutation` needs masking='static': dynamic masks do not "
                "permute.",
            ),
            (
                self.reference_pairs and self.pair_objective != "sop",
                "`reference_pairs` changes sentence-order pairs only, so it "
                "needs pair_objective='sop'.",
            ),
            (
                self.reference_pairs and self.keep_more_text,
                "`reference_pairs` cuts text off as the original does, so it "
                "excludes `keep_more_text`.",
            ),
            (
                self.pair_objective == "none" and not self.keep_more_text,
                "Single segments are never cut off, so pair_objective='none' "
                "needs `keep_more_text`.",
            ),
        ):
            if is_wrong:
                raise ValueError(f"{message} Drop one of the settings.")

    @property
    def draws_unrelated(self) -> bool:
        """Whether some second segments come from another document."""
        return self.pair_objective == "nsp" or self.reference_pairs

    def record_settings(self) -> dict[str, object]:
        """Returns the fields that the records depend on, by name."""
        without_effect = {*_FIELDS_OF_THE_BUILDER, *_FIELDS_OF_ORIGIN}
        # As in records of older versions.
        newer = "keep_accents", "new_tokens"
        without_effect |= {n for n in newer if getattr(self, n) is None}
        return {n: v for n, v in vars(self).items() if n not in without_effect}

    def origin(self) -> dict[str, str | None]:
        """Returns where the text and the vocabulary are, by name."""
        origin = {}
        for name in _FIELDS_OF_ORIGIN:
            value = getattr(self, name)
            if value and len(value) > _MAX_CHARACTERS:
                cut = value[:_MAX_CHARACTERS]
                value = f"{cut}... ({len(value):,} characters)"
            origin[name] = value
        return origin
