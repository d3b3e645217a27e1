"""Builds pretraining record files from text files.

Data flow: text files -> blocks -> [worker processes: records] -> shards.
A shard, one output file, appears whole, with its sidecar, or not at all, and a
finished shard is not built again.

No TensorFlow.
"""

import contextlib
import functools
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tqdm

from albert_tf import checks, storage
from albert_tf.data import (
    beam_runner,
    build_report,
    corpus,
    ordered_workers,
    pretraining_instances,
    shard_writer,
    shards,
    sidecar,
)
from albert_tf.data.build_report import BuildReport
from albert_tf.data.pretraining_config import PretrainingDataConfig
from albert_tf.data.pretraining_instances import BlockPart
from albert_tf.data.sidecar import BuildCounts

_LOGGER = logging.getLogger(__name__)


def build(config: PretrainingDataConfig) -> BuildReport:
    """Builds record files, each with its sidecar.

    The records depend on the corpus, the vocabulary and
    `config.record_settings()`, and not on the runner or the number of workers.
    Output files that an identical build has finished before are kept.

    Raises:
        FileNotFoundError: No file matches, or there is no vocabulary.
        ImportError: A package that the settings or an input file need is not
            installed, such as Apache Beam.
        OSError: An output file cannot be written.
        ValueError: No input or output file is given; the corpus is empty,
            damaged, or gives no pair; a file that this build did not make is
            in the way; or another process is building the same files.
    """
    started = time.monotonic()
    for name in ("input_file", "output_file"):
        if not getattr(config, name):
            raise ValueError(f"`{name}` must be given.")
    inputs = storage.expand_globs(config.input_file or "")
    paths = shards.output_files(config, inputs)
    run = beam_runner.run if config.runner == "beam" else run_here
    outcome = run(config, inputs, paths)
    kept, built = outcome.kept, outcome.built
    counts = sum([*kept.values(), *built.values()], start=BuildCounts())
    if not counts.records and config.shards is None:
        for path in built:
            for written in shards.written_files(path):
                storage.remove(written)
        raise ValueError(_no_record(config, counts))
    report = BuildReport(
        config=config,
        counts=counts,
        built=sum(built.values(), start=BuildCounts()),
        kept_files=tuple(kept),
        seconds=time.monotonic() - started,
        num_bad_lines=outcome.num_bad_lines,
        duplicates=outcome.duplicates,
    )
    build_report.warn(report)
    empty = [path for path, c in (kept | built).items() if not c.records]
    if empty:
        _LOGGER.warning(
            "%d of %d files have no record: %s",
            len(empty),
            len(kept | built),
            checks.listed(empty, at_most=3),
        )
    return report


def run_here(
    config: PretrainingDataConfig, inputs: Sequence[str], paths: Sequence[str]
) -> shards.Outcome:
    """Builds the shards with processes of this machine.

    Args:
        config: The settings.
        inputs: The files of the corpus.
        paths: All output files.

    Raises:
        ChildProcessError, FileNotFoundError, OSError, ValueError: As `build`.
    """
    tokenizer = config.load_tokenizer()
    contents = corpus.survey(
        inputs, config, config.hashing(), num_workers=config.num_workers
    )
    kept, pending = shards.split_planned(
        shards.plan(config, tokenizer, contents, paths)
    )
    with ordered_workers.map_in_order(
        functools.partial(
            pretraining_instances.build_block,
            tokenizer=tokenizer,
            config=config,
        ),
        corpus.read_wanted(shards.wanted(pending.values(), contents), config),
        num_workers=config.num_workers,
    ) as results:
        built = _write_shards(pending, results, contents)
    return shards.Outcome(
        kept, built, contents.num_bad_lines, contents.duplicates
    )


def _write_shards(
    pending: Mapping[str, sidecar.Sidecar],
    results: Iterator[list[BlockPart]],
    contents: corpus.CorpusContents,
) -> dict[str, BuildCounts]:
    """Writes the results, which come in the order of the shards' blocks."""
    built: dict[str, BuildCounts] = {}
    wanted = {n for s in pending.values() for n in range(*s.blocks)}
    with (
        tqdm.tqdm(
            total=sum(contents.block_sizes[number] for number in wanted),
            unit="char",
            unit_scale=True,
            disable=None,  # Off where stderr is not a terminal.
        ) as progress,
        contextlib.closing(shards.locked_in_turn([*pending])) as paths,
    ):
        dealer = _Dealer(results, contents.block_sizes, progress)
        for path in paths:
            shard = pending[path]
            built[path] = shard_writer.write(path, shard, dealer.parts(shard))
    return built


class _Dealer:
    """Deals the results of blocks to shards; two may share a block."""

    def __init__(
        self,
        results: Iterator[list[BlockPart]],
        block_sizes: Sequence[int],
        progress: "tqdm.tqdm[Any]",
    ) -> None:
        self._results = results
        self._block_sizes = block_sizes
        self._progress = progress
        self._newest = -1
        self._parts: list[BlockPart] = []

    def parts(self, shard: sidecar.Sidecar) -> Iterator[BlockPart]:
        """Yields the records of a shard; shards must come in order."""
        for number in range(*shard.blocks):
            if number != self._newest:
                self._parts = []  # Two blocks need twice the memory.
                self._parts, self._newest = next(self._results), number
                self._progress.update(self._block_sizes[number])
            yield self._parts[shard.part[0]]


def _no_record(config: PretrainingDataConfig, counts: BuildCounts) -> str:
    divide = "" if config.keep_more_text else "pass `keep_more_text`, "
    return (
        f"No record can be made from {counts.documents} documents with "
        f"{counts.sentences} sentences: a pair needs two sentences of one "
        "document. Put one sentence a line and a blank line between documents "
        f"only, {divide}or use pair_objective='none'."
    )
