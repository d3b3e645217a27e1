"""Builds pretraining record files from text files.

Data flow: text files -> blocks -> [worker processes: records] -> shards.
A shard, one output file, appears whole, with its sidecar, or not at all, and a
finished shard is not built again.

Floor: data. No TensorFlow.
"""

import contextlib
import dataclasses
import functools
import hashlib
import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping

import tqdm

from albert_tf import files
from albert_tf.data import (
    corpus,
    ordered_workers,
    pretraining_instances,
    record_index,
    shards,
    sidecar,
)
from albert_tf.data.pretraining_config import PretrainingDataConfig
from albert_tf.data.pretraining_instances import BlockPart
from albert_tf.data.sidecar import BuildCounts
from albert_tf.text.documents import Documents

_LOGGER = logging.getLogger(__name__)

# Below 0.1% of English text is unknown to the English vocabulary; capitals
# with a lower-case vocabulary, or a foreign script, give far more.
_MANY_UNKNOWN = 0.05
# The original leaves out 13% to 15% of text with one sentence a line.
_MANY_LEFT_OUT = 0.2
# Of the share that was asked for. Whole words that do not fit cost a little.
_FEW_MASKED = 0.75


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildReport:
    """What a build did in these seconds; `str` gives a summary to print.

    `counts` is of all shards, `built` of those that this run built;
    `kept_files` are those that were already finished. `num_bad_lines` is the
    number of lines that were skipped.
    """

    config: PretrainingDataConfig
    counts: BuildCounts
    built: BuildCounts
    kept_files: tuple[str, ...]
    seconds: float
    num_bad_lines: int = 0

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


def build(config: PretrainingDataConfig) -> BuildReport:
    """Builds record files, each with its sidecar.

    The records depend on the corpus, the vocabulary and
    `config.record_settings()`, and not on the number of workers. Output files
    that an identical build has finished before are kept.

    Raises:
        FileNotFoundError: No file matches, or there is no vocabulary.
        OSError: An output file cannot be written.
        ValueError: No input or output file is given; the corpus is empty,
            damaged, or gives no pair; a file that this build did not make is
            in the way; or another process is building the same files.
    """
    started = time.monotonic()
    for name in ("input_file", "output_file"):
        if not getattr(config, name):
            raise ValueError(f"`{name}` must be given.")
    documents = Documents(config)
    paths = shards.output_files(config, documents.paths)
    tokenizer = config.load_tokenizer()
    contents = corpus.survey(documents)
    planned = shards.plan(config, tokenizer, documents, contents, paths)
    found = {p: shards.finished_counts(p, s) for p, s in planned.items()}
    kept = {path: counts for path, counts in found.items() if counts}
    pending = {path: s for path, s in planned.items() if path not in kept}
    for path in pending:
        record_index.check_replaceable(path)
    shards.clean_up(kept)
    with ordered_workers.map_in_order(
        functools.partial(
            pretraining_instances.build_block,
            tokenizer=tokenizer,
            config=config,
        ),
        _pending_blocks(documents, contents, pending.values()),
        num_workers=config.num_workers,
    ) as results:
        built = _write_shards(pending, results, contents)
    counts = sum([*kept.values(), *built.values()], start=BuildCounts())
    if not counts.records:
        for path in built:
            for written in shards.written_files(path):
                os.remove(written)
        raise ValueError(_no_record(config, counts))
    report = BuildReport(
        config=config,
        counts=counts,
        built=sum(built.values(), start=BuildCounts()),
        kept_files=tuple(kept),
        seconds=time.monotonic() - started,
        num_bad_lines=contents.num_bad_lines,
    )
    _warn(report)
    empty = [path for path, c in (kept | built).items() if not c.records]
    if empty:
        _LOGGER.warning(
            "%d of %d files have no record: %s",
            len(empty),
            len(paths),
            files.list_paths(empty),
        )
    return report


def _pending_blocks(
    documents: Documents,
    contents: corpus.CorpusContents,
    pending: Iterable[sidecar.Sidecar],
) -> Iterator[corpus.Block]:
    """Yields the blocks of the shards to build, in order.

    Raises:
        ValueError: The corpus is not the one that was surveyed.
    """
    num_parts = {n: s.part[1] for s in pending for n in range(*s.blocks)}
    digests = contents.block_digests
    for block in corpus.read_blocks(documents) if num_parts else ():
        number = block.number
        if number not in num_parts:
            continue
        if number >= len(digests) or block.digest != digests[number]:
            break
        yield dataclasses.replace(block, num_parts=num_parts.pop(number))
    if num_parts:
        raise ValueError(
            "The corpus was changed while it was read: "
            f"{files.list_paths(documents.paths)}. Run the command again when "
            "it is complete; finished files must then be removed."
        )


def _write_shards(
    pending: Mapping[str, sidecar.Sidecar],
    results: Iterator[list[BlockPart]],
    contents: corpus.CorpusContents,
) -> dict[str, BuildCounts]:
    """Writes the results, which come in the order of the shards' blocks."""
    built: dict[str, BuildCounts] = {}
    wanted = {n for s in pending.values() for n in range(*s.blocks)}
    parts: list[BlockPart] = []
    newest = -1
    with (
        tqdm.tqdm(
            total=sum(contents.block_sizes[number] for number in wanted),
            unit="char",
            unit_scale=True,
            disable=None,  # Off where stderr is not a terminal.
        ) as progress,
        contextlib.closing(shards.locked_in_turn([*pending])) as paths,
    ):
        for path in paths:
            shard = pending[path]
            if shards.finished_counts(path, shard):
                raise ValueError(
                    f"Another process has built {path!r} in the meantime. Run "
                    "the command again when it has ended."
                )
            for written in shards.written_files(path):
                files.remove_partials(written)
            # The record file takes its name last: then it is finished.
            with (
                files.atomic_write(path) as file,
                record_index.index_writer(path) as index,
            ):
                counts, digest = BuildCounts(), hashlib.sha256()
                for number in range(*shard.blocks):
                    if number != newest:
                        parts = []  # Two blocks need twice the memory.
                        parts, newest = next(results), number
                        progress.update(contents.block_sizes[number])
                    part = shard.part[0]
                    with files.naming_file(path):
                        file.write(parts[part].framed)
                    digest.update(parts[part].framed)
                    index.add(parts[part].framed)
                    counts += parts[part].counts
                finished = dataclasses.replace(
                    shard,
                    counts=counts,
                    num_bytes=file.tell(),
                    sha256=digest.hexdigest(),
                )
                # Nothing takes its name before all have room on the disk.
                with files.naming_file(path):
                    files.flush(file)
                index.finish(finished.sha256)
                sidecar.write(path, finished)
            built[path] = counts
    return built


def _no_record(config: PretrainingDataConfig, counts: BuildCounts) -> str:
    divide = "" if config.keep_more_text else "pass `keep_more_text`, "
    return (
        f"No record can be made from {counts.documents} documents with "
        f"{counts.sentences} sentences: a pair needs two sentences of one "
        "document. Put one sentence a line and a blank line between documents "
        f"only, {divide}or use pair_objective='none'."
    )


def _warn(report: BuildReport) -> None:
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
