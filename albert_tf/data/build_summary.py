"""What a build of pretraining records counted, and its printed summary.

Floor: data. Plain Python.
"""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildCounts:
    """Counts of a block, a shard or a whole build; they add up.

    Args:
        documents: Documents with at least one piece.
        sentences: Sentences with at least one piece.
        pieces: Pieces of the text, counted once whatever the copies.
        unknown_pieces: Those that are the unknown piece.
        chunks_without_pair: Chunks of one sentence, left out, of all copies.
        records: Records, of all copies.
        label_1_records: Records whose label is 1.
        record_pieces: Pieces in records, special ones too, no padding.
        masked_pieces: Prediction slots in use.
    """

    documents: int = 0
    sentences: int = 0
    pieces: int = 0
    unknown_pieces: int = 0
    chunks_without_pair: int = 0
    records: int = 0
    label_1_records: int = 0
    record_pieces: int = 0
    masked_pieces: int = 0

    def __add__(self, other: "BuildCounts") -> "BuildCounts":
        return BuildCounts(
            **{
                name: value + getattr(other, name)
                for name, value in vars(self).items()
            }
        )

    @property
    def unknown_share(self) -> float:
        """Share of the text's pieces that are unknown."""
        return self.unknown_pieces / max(1, self.pieces)


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
        mean_length = counts.record_pieces / max(1, counts.records)
        values = {
            "documents": f"{counts.documents:,}",
            "sentences": f"{counts.sentences:,}",
            "pieces": f"{counts.pieces:,}",
            "unknown pieces": f"{counts.unknown_share:.2%}",
            "records": f"{counts.records:,}",
            "chunks without a pair": f"{counts.chunks_without_pair:,}",
            "label 1": self._label_balance(),
            "mean length": f"{mean_length:.1f} of {self.max_seq_length}",
            "padding": f"{1 - mean_length / self.max_seq_length:.1%}",
            "masked pieces": self._masked_share(),
            "pieces a second": self._speed(),
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
        share = self.counts.masked_pieces / max(1, self.counts.record_pieces)
        return f"{share:.1%}"

    def _speed(self) -> str:
        if not self.built.records:
            return "nothing to build"
        read = self.built.pieces / self.seconds
        written = self.built.record_pieces / self.seconds
        return f"{read:,.0f} read, {written:,.0f} written"
