"""The report of a build of records: its counts, and what to know of them."""

import dataclasses
import logging

from albert_tf.data.deduplication import Duplicates
from albert_tf.data.pretraining_config import PretrainingDataConfig
from albert_tf.data.sidecar import BuildCounts

_LOGGER = logging.getLogger(__name__)

# Below 0.1% of English text is unknown to the English vocabulary; capitals
# with a lower-case vocabulary, or a foreign script, give far more.
_MANY_UNKNOWN = 0.05
# The original leaves out 13% to 15% of text with one sentence a line.
_MANY_LEFT_OUT = 0.2
# Of the share that was asked for. Whole words that do not fit cost a little.
_FEW_MASKED = 0.75
# Share of the text whose unrelated segments come from its own document.
_MANY_LONE = 0.1


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildReport:
    """What a build did in these seconds; `str` gives a summary to print.

    `counts` is of all shards, `built` of those that this run built;
    `kept_files` are those that were already finished. `num_bad_lines` is the
    number of lines that were skipped; `duplicates` are the documents that were
    left out.
    """

    config: PretrainingDataConfig
    counts: BuildCounts
    built: BuildCounts
    kept_files: tuple[str, ...]
    seconds: float
    num_bad_lines: int = 0
    duplicates: Duplicates | None = None

    def __str__(self) -> str:
        counts = self.counts
        max_seq_length = self.config.max_seq_length
        mean_length = counts.record_tokens / max(1, counts.records)
        values = {
            "documents": f"{counts.documents:,}",
            "sentences": f"{counts.sentences:,}",
            "tokens": f"{counts.tokens:,}",
            "unknown tokens": f"{counts.unknown_share:.2%}",
            "tokens left out": self._left_out(),
            "records": f"{counts.records:,}",
            "chunks without a pair": f"{counts.chunks_without_pair:,}",
            "label 1": self._label_balance(),
            "mean length": f"{mean_length:.1f} of {max_seq_length}",
            "padding": f"{1 - mean_length / max_seq_length:.1%}",
            "masked tokens": self._masked_share(),
            "tokens a second": self._speed(),
        }
        if self.config.draws_unrelated:
            values["lone documents"] = f"{counts.lone_share:.1%} of the tokens"
        if self.duplicates:
            values["duplicates left out"] = (
                f"{self.duplicates.documents:,} documents, "
                f"{self.duplicates.characters:,} characters"
            )
        if self.num_bad_lines:
            values["bad lines skipped"] = f"{self.num_bad_lines:,}"
        lines = [f"{path} is finished; it is kept" for path in self.kept_files]
        lines += [f"{name:<22} {text}" for name, text in values.items()]
        return "\n".join(lines)

    @property
    def left_out_share(self) -> float:
        """Share of the text, of all copies, that is in no record."""
        num_read = self.counts.tokens * self.config.dupe_factor
        return self.counts.tokens_left_out / max(1, num_read)

    @property
    def masked_share(self) -> float:
        """Share of the tokens in static records that are to be predicted."""
        return self.counts.masked_tokens / max(1, self.counts.record_tokens)

    def _left_out(self) -> str:
        num_copies = self.config.dupe_factor
        copies = f"{num_copies} copies" if num_copies > 1 else "the text"
        return (
            f"{self.counts.tokens_left_out:,} of {copies} "
            f"({self.left_out_share:.1%})"
        )

    def _label_balance(self) -> str:
        objective = self.config.pair_objective
        if objective == "none":
            return "no pairs"
        if objective == "sop" and self.config.masking == "dynamic":
            return "half, drawn when read"
        share = self.counts.label_1_records / max(1, self.counts.records)
        return f"{share:.1%}"

    def _masked_share(self) -> str:
        if self.config.masking == "dynamic":
            return "drawn when read"
        return f"{self.masked_share:.1%}"

    def _speed(self) -> str:
        if not self.built.records:
            return "nothing to build"
        read = self.built.tokens / self.seconds
        written = self.built.record_tokens / self.seconds
        return f"{read:,.0f} read, {written:,.0f} written"


def warn(report: BuildReport) -> None:
    """Warns of what a user should know before training on the records."""
    config, counts = report.config, report.counts
    if counts.unknown_share > _MANY_UNKNOWN:
        _LOGGER.warning(
            "%.1f%% of the tokens are unknown to the vocabulary. Check that "
            "it was made for this language and this `do_lower_case`.",
            100 * counts.unknown_share,
        )
    if report.left_out_share > _MANY_LEFT_OUT:
        _LOGGER.warning(
            "%.1f%% of the text is in no record. %s",
            100 * report.left_out_share,
            "Documents of a single sentence give no pair: put blank lines "
            "between documents only, or use pair_objective='none'."
            if config.keep_more_text
            else "Put one sentence (not a paragraph) on a line, or pass "
            "keep_more_text, which divides what is too long.",
        )
    if config.draws_unrelated and report.counts.lone_share > _MANY_LONE:
        _LOGGER.warning(
            "%.1f%% of the tokens are in a file, or in the rest of one, with a "
            "single document, so their unrelated segments come from that same "
            "document. Put more documents into a file.",
            100 * report.counts.lone_share,
        )
    wanted = config.masked_lm_prob * (2 if config.do_permutation else 1)
    if config.masking == "static" and report.masked_share < (
        _FEW_MASKED * wanted
    ):
        _LOGGER.warning(
            "%.1f%% of the tokens are to be predicted, not %.1f%%: "
            "max_predictions_per_seq=%d is too few for max_seq_length=%d. "
            "Full records need %d.",
            100 * report.masked_share,
            100 * wanted,
            config.max_predictions_per_seq,
            config.max_seq_length,
            round(config.max_seq_length * config.masked_lm_prob),
        )
