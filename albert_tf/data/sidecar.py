"""What made a record file: `<file>.json`, written beside it and checked.

Floor: data. Plain Python.

What a build of pretraining records counted, and its printed summary.

Floor: data. Plain Python.
"""

import dataclasses
import json
import os
from typing import Any

from albert_tf import files

FORMAT_VERSION = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sidecar:
    """Facts about one record file.

    Args:
        masking: `static` (the original's eight features) or `dynamic`.
        max_seq_length: S, special tokens included.
        max_predictions_per_seq: Masked positions a record may have.
        num_prediction_slots: P, the length of the masked_lm fields (twice
            `max_predictions_per_seq` with permutation).
        pair_objective: `sop`, `nsp` or `none`.
        masked_lm_prob: Share of tokens to mask, specials counted.
        ngram: Longest n-gram of words to mask.
        favor_shorter_ngram: Whether p(n) is proportional to 1/n, or reversed.
        do_whole_word_mask: Whether masking units are words, or tokens.
        tokenizer_hash: Digest of vocabulary and normalisation.
        vocab_size: V.
        special_ids: Ids by name: pad, unk, cls, sep, mask.
        forbidden_ids: Sorted ids that a random replacement must not be.
        flags: The flags of the command that made the file.
        counts: Whole numbers by name; `records` is always there.
        num_bytes: Size of the record file.
        sha256: Its checksum.
    """

    masking: str
    max_seq_length: int
    max_predictions_per_seq: int
    num_prediction_slots: int
    pair_objective: str
    masked_lm_prob: float
    ngram: int
    favor_shorter_ngram: bool
    do_whole_word_mask: bool
    tokenizer_hash: str
    vocab_size: int
    special_ids: dict[str, int]
    forbidden_ids: list[int]
    flags: dict[str, Any]
    counts: dict[str, int]
    num_bytes: int
    sha256: str
    version: int = FORMAT_VERSION


def sidecar_path(record_path: files.Path) -> str:
    """Returns the path of the sidecar of a record file."""
    return os.fspath(record_path) + ".json"


def write(record_path: files.Path, sidecar: Sidecar) -> None:
    """Writes the sidecar of `record_path`, whole or not at all."""
    text = json.dumps(dataclasses.asdict(sidecar), indent=2, sort_keys=True)
    files.write_text(sidecar_path(record_path), text + "\n")


def read(record_path: files.Path) -> Sidecar | None:
    """Reads the sidecar of a record file; None if it has none.

    Raises:
        ValueError: The sidecar is damaged, or of another version.
    """
    path = sidecar_path(record_path)
    if not os.path.exists(path):
        return None
    try:
        values = json.loads(files.read_text(path))
        if values.get("version") != FORMAT_VERSION:
            raise ValueError(
                f"version {values.get('version')!r}, wanted {FORMAT_VERSION}"
            )
        return Sidecar(**values)
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path!r} is not a sidecar this version reads ({error}). "
            "Build the records again."
        ) from error


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildCounts:
    """Counts of a block, a shard or a whole build; they add up.

    Args:
        documents: Documents with at least one token.
        sentences: Sentences with at least one token.
        tokens: Tokens of the text, counted once whatever the copies.
        unknown_tokens: Those that are the unknown token.
        chunks_without_pair: Chunks of one sentence, left out, of all copies.
        records: Records, of all copies.
        label_1_records: Records whose label is 1.
        record_tokens: Tokens in records, special ones too, no padding.
        masked_tokens: Prediction slots in use.
    """

    documents: int = 0
    sentences: int = 0
    tokens: int = 0
    unknown_tokens: int = 0
    chunks_without_pair: int = 0
    records: int = 0
    label_1_records: int = 0
    record_tokens: int = 0
    masked_tokens: int = 0

    def __add__(self, other: "BuildCounts") -> "BuildCounts":
        return BuildCounts(
            **{
                name: value + getattr(other, name)
                for name, value in vars(self).items()
            }
        )

    @property
    def unknown_share(self) -> float:
        """Share of the text's tokens that are unknown."""
        return self.unknown_tokens / max(1, self.tokens)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildReport:
    """What a build did.

    Args:
        counts: Of all shards, those found finished too.
        built: Of the shards that this run built.
        kept_files: Shards that were found finished.
        seconds: How long this run took.
        masking: `static` or `dynamic`.
        pair_objective: `sop`, `nsp` or `none`.
        max_seq_length: S, which padding is counted against.
    """

    counts: BuildCounts
    built: BuildCounts
    kept_files: tuple[str, ...]
    seconds: float
    masking: str
    pair_objective: str
    max_seq_length: int

    def __str__(self) -> str:
        counts = self.counts
        mean_length = counts.record_tokens / max(1, counts.records)
        values = {
            "documents": f"{counts.documents:,}",
            "sentences": f"{counts.sentences:,}",
            "tokens": f"{counts.tokens:,}",
            "unknown tokens": f"{counts.unknown_share:.2%}",
            "records": f"{counts.records:,}",
            "chunks without a pair": f"{counts.chunks_without_pair:,}",
            "label 1": self._label_balance(),
            "mean length": f"{mean_length:.1f} of {self.max_seq_length}",
            "padding": f"{1 - mean_length / self.max_seq_length:.1%}",
            "masked tokens": self._masked_share(),
            "tokens a second": self._speed(),
        }
        lines = [f"{path} is finished; it is kept" for path in self.kept_files]
        lines += [f"{name:<22} {text}" for name, text in values.items()]
        return "\n".join(lines)

    def _label_balance(self) -> str:
        if self.pair_objective == "none":
            return "no pairs"
        if self.pair_objective == "sop" and self.masking == "dynamic":
            return "half, drawn when read"
        share = self.counts.label_1_records / max(1, self.counts.records)
        return f"{share:.1%}"

    def _masked_share(self) -> str:
        if self.masking == "dynamic":
            return "drawn when read"
        share = self.counts.masked_tokens / max(1, self.counts.record_tokens)
        return f"{share:.1%}"

    def _speed(self) -> str:
        if not self.built.records:
            return "nothing to build"
        read = self.built.tokens / self.seconds
        written = self.built.record_tokens / self.seconds
        return f"{read:,.0f} read, {written:,.0f} written"
