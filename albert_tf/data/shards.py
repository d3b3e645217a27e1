"""Describes a shard: a record file, its settings and origin, and its counts.

Data flow: plan of a build -> [this file] -> record file and sidecar -> [this
file] -> source of records. The sidecar is the JSON file `<record file>.json`.
"""

import dataclasses
import functools
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf import checks, files
from albert_tf.settings import Settings, setting
from albert_tf.text.vocabulary_file import SpecialIds

FORMAT_VERSION = 3
# Fields of `RecordSettings` that say how masks are drawn: of static records
# when they are built, of dynamic ones when they are read.
MASK_SETTINGS = (
    "max_predictions_per_seq",
    "masked_lm_prob",
    "ngram",
    "favor_shorter_ngram",
    "do_whole_word_mask",
)
_UNKNOWN: Any = None  # If there is no sidecar.


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordSettings(Settings):
    """Settings of a build that readers of its records need, too.

    `pair_objective` is None if it is not known.
    """

    max_seq_length: int = setting(
        512, "Tokens of a record, special tokens included.", at_least=8
    )
    pair_objective: str | None = setting(
        None,
        "Pairs to build. sop: sentence order (default); nsp: next sentence; "
        "none: single segments.",
        choices=("sop", "nsp", "none"),
    )
    masking: str = setting(
        "static",
        "static: masks are drawn now, and records have the original's eight "
        "fields; dynamic: records hold unmasked pairs, and masks and sentence "
        "order are drawn each time a record is read.",
        choices=("static", "dynamic"),
    )
    max_predictions_per_seq: int = setting(
        20, "Largest number of tokens masked in a record.", at_least=1
    )
    # Differs: the original accepts 0, and writes records without a target.
    masked_lm_prob: float = setting(
        0.15, "Share of tokens to mask.", above=0, at_most=1
    )
    ngram: int = setting(
        3, "Longest n-gram of words that is masked together.", at_least=1
    )
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
        slots, most = self.max_predictions_per_seq, self.token_budget
        checks.check_integer(
            "max_predictions_per_seq", slots, at_least=1, at_most=most
        )

    @property
    def token_budget(self) -> int:
        """Tokens that fit into a record, without `[CLS]` and `[SEP]`s."""
        # `[CLS] A [SEP]`, or `[CLS] A [SEP] B [SEP]`.
        return self.max_seq_length - self.num_segments - 1

    @property
    def num_segments(self) -> int:
        """Segments of a record: 2, or 1 without pairs."""
        return 1 if self.pair_objective == "none" else 2

    @property
    def num_prediction_slots(self) -> int:
        """P, the length of the masked_lm fields."""
        return self.max_predictions_per_seq * (2 if self.do_permutation else 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildCounts:
    """Counts of a block, a shard or a whole build; they can be added.

    For every build, `tokens` times the number of copies, less
    `tokens_left_out`, plus `tokens_repeated`, is `record_tokens` less the
    special tokens. If the records of a block are dealt to several shards, the
    first of them has the counts of the block's text.
    """

    # Of the text, without the copies. Lone tokens are in a block of a single
    # document, from which its unrelated segments come, too.
    documents: int = 0
    sentences: int = 0
    tokens: int = 0
    unknown_tokens: int = 0
    lone_tokens: int = 0
    # Of all copies: chunks of one sentence, which are skipped; tokens that are
    # in no record of a copy, or in several.
    chunks_without_pair: int = 0
    tokens_left_out: int = 0
    tokens_repeated: int = 0
    # Of all copies; special tokens are counted, padding is not.
    records: int = 0
    label_1_records: int = 0
    record_tokens: int = 0
    masked_tokens: int = 0

    def __add__(self, other: "BuildCounts") -> "BuildCounts":
        added = vars(other)
        return BuildCounts(**{n: v + added[n] for n, v in vars(self).items()})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Duplicates:
    """How many documents are left out of a corpus, and their characters."""

    documents: int
    characters: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shard:
    """One record file: its settings, its origin and its counts.

    All but the path is in the sidecar. The last three fields describe the file
    once it is written. Records of the original have no sidecar: then
    `config` has only the sizes of the first record, `sha256` is a digest of the
    records, and all else is missing.

    Args:
        path: The record file.
        config: The settings that the records depend on, by name.
        origin: Where the text and the vocabulary were; the records do not
            depend on it.
        tokenizer_hash: See `Tokenizer`, as the next two.
        vocab_size: V.
        special_ids: Ids of the special tokens.
        forbidden_ids: Sorted ids that a random replacement must not be.
        added_tokens: See `TokenizerSettings`; None if the config has no new
            tokens, and in records of older versions.
        corpus_sha256: Digest of the documents of the corpus.
        duplicates: Documents that were left out of the whole corpus, if any
            were looked for.
        blocks: First block of the corpus in this file, and one past the last.
        part: `[k, n]`: it has every n-th record of its blocks, from k on.
    """

    path: str
    config: Mapping[str, Any]
    origin: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    tokenizer_hash: str | None = None
    vocab_size: int = _UNKNOWN
    special_ids: SpecialIds = _UNKNOWN
    forbidden_ids: Sequence[int] = ()
    added_tokens: Mapping[str, bool | str] | None = None
    corpus_sha256: str | None = None
    duplicates: Duplicates | None = None
    blocks: Sequence[int] = (0, 1)
    part: Sequence[int] = (0, 1)
    counts: BuildCounts = BuildCounts()
    num_bytes: int = 0
    sha256: str = ""

    @functools.cached_property
    def settings(self) -> RecordSettings:
        """The settings that readers need."""
        fields = dataclasses.fields(RecordSettings)
        names = {field.name for field in fields} & self.config.keys()
        return RecordSettings(**{name: self.config[name] for name in names})

    @property
    def has_sidecar(self) -> bool:
        """Whether a sidecar says how the file was built."""
        return self.tokenizer_hash is not None

    @property
    def build(self) -> dict[str, object]:
        """Facts that all shards of a build have in common, by name."""
        return {
            **self.config,
            "corpus_sha256": self.corpus_sha256,
            "tokenizer_hash": self.tokenizer_hash,
        }

    @property
    def extent(self) -> tuple[float, float]:
        """Which part of the corpus' blocks it holds: start and end."""
        (first, end), (part, num_parts) = self.blocks, self.part
        if num_parts == 1:
            return first, end
        return first + part / num_parts, first + (part + 1) / num_parts

    @property
    def mask_settings(self) -> dict[str, object]:
        """How masks are drawn when records are read; empty for static ones."""
        if self.settings.masking == "static":
            return {}
        return {name: self.config[name] for name in MASK_SETTINGS}

    def with_masks(self, masks: Mapping[str, object]) -> "Shard":
        """Returns the shard with other `MASK_SETTINGS`."""
        return dataclasses.replace(self, config={**self.config, **masks})


def read(record_path: files.Path) -> Shard:
    """Reads the sidecar of a record file; FileNotFoundError if it has none."""
    path = os.fspath(record_path) + ".json"
    text = files.read_bytes(path)
    try:
        fields = json.loads(text)
        if (version := fields.pop("version")) != FORMAT_VERSION:
            kind = "an older" if version < FORMAT_VERSION else "a newer"
            raise ValueError(f"{kind} version of albert_tf wrote it")
        fields["special_ids"] = SpecialIds(**fields["special_ids"])
        fields["counts"] = BuildCounts(**fields["counts"])
        if fields["duplicates"] is not None:
            fields["duplicates"] = Duplicates(**fields["duplicates"])
        shard = Shard(path=os.fspath(record_path), **fields)
        # Values of another type fail here, not where they are used.
        _ = shard.settings, shard.extent, hash((*shard.build.values(),))
        return shard
    except Exception as error:  # The file may hold anything.
        raise ValueError(
            f"{path!r} is in the place of a sidecar, and this version cannot "
            f"read it ({error}). Use the version that built the "
            "records, or build them with this one under another name."
        ) from error
