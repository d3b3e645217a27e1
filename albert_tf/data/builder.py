"""Builds pretraining record files from text files.

Data flow: text files -> blocks -> [worker processes: records] -> shards.
A shard is one output file, which holds the records of a range of the corpus'
blocks. It appears whole, with its sidecar, or not at all, and a finished shard
is not built again.

Floor: data. No TensorFlow.
"""

import dataclasses
import functools
import itertools
import logging
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

import tqdm

from albert_tf import files
from albert_tf.data import (
    corpus,
    ordered_workers,
    pretraining_instances,
    record_files,
    sidecar,
)
from albert_tf.data.pretraining_config import PretrainingDataConfig
from albert_tf.data.sidecar import BuildCounts
from albert_tf.text.tokenizer import Tokenizer

_LOGGER = logging.getLogger(__name__)

# Below 0.1% of English text is unknown to the English vocabulary; capitals
# with a lower-case vocabulary, or a foreign script, give far more.
_MANY_UNKNOWN = 0.05
# What only a finished build knows; `config` is compared field by field.
_FIELDS_NOT_COMPARED = ("config", "counts", "num_bytes", "sha256")


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildReport:
    """What a build did; `str` gives a summary to print.

    Args:
        config: The settings.
        counts: Counts of all shards, including those that were kept.
        built: Counts of the shards that this run built.
        kept_files: Shards that were already finished.
        seconds: Duration of this run.
    """

    config: PretrainingDataConfig
    counts: BuildCounts
    built: BuildCounts
    kept_files: tuple[str, ...]
    seconds: float

    def __str__(self) -> str:
        counts = self.counts
        max_seq_length = self.config.max_seq_length
        mean_length = counts.record_tokens / max(1, counts.records)
        values = {
            "documents": f"{counts.documents:,}",
            "sentences": f"{counts.sentences:,}",
            "tokens": f"{counts.tokens:,}",
            "unknown tokens": f"{counts.unknown_share:.2%}",
            "records": f"{counts.records:,}",
            "chunks without a pair": f"{counts.chunks_without_pair:,}",
            "label 1": self._label_balance(),
            "mean length": f"{mean_length:.1f} of {max_seq_length}",
            "padding": f"{1 - mean_length / max_seq_length:.1%}",
            "masked tokens": self._masked_share(),
            "tokens a second": self._speed(),
        }
        lines = [f"{path} is finished; it is kept" for path in self.kept_files]
        lines += [f"{name:<22} {text}" for name, text in values.items()]
        return "\n".join(lines)

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
        share = self.counts.masked_tokens / max(1, self.counts.record_tokens)
        return f"{share:.1%}"

    def _speed(self) -> str:
        if not self.built.records:
            return "nothing to build"
        read = self.built.tokens / self.seconds
        written = self.built.record_tokens / self.seconds
        return f"{read:,.0f} read, {written:,.0f} written"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Shard:
    """An output file, and its sidecar without what the build will measure."""

    path: str
    sidecar: sidecar.Sidecar

    @property
    def blocks(self) -> range:
        return range(*self.sidecar.blocks)


def build(config: PretrainingDataConfig) -> BuildReport:
    """Builds record files, each with its sidecar.

    The records depend on the corpus, the vocabulary and
    `config.record_settings()`, and not on the number of workers. Output files
    that an identical build has finished before are kept.

    Raises:
        FileNotFoundError: No file matches, or there is no vocabulary.
        OSError: An output file cannot be written.
        ValueError: No input or output file is given; the corpus is empty, too
            small for so many output files, damaged, or gives no pair; or an
            output file of another build is in the way.
    """
    started = time.monotonic()
    for name in ("input_file", "output_file"):
        if not getattr(config, name):
            raise ValueError(f"`{name}` must be given.")
    paths = files.expand_globs(config.input_file or "")
    tokenizer = config.load_tokenizer()
    survey = _survey(paths)
    planned = _plan_shards(
        config, tokenizer, paths, len(survey.block_characters)
    )
    found = {shard.path: _finished_counts(shard) for shard in planned}
    kept = {path: counts for path, counts in found.items() if counts}
    pending = [shard for shard in planned if shard.path not in kept]
    with ordered_workers.map_in_order(
        functools.partial(_build_block, config=config),
        _pending_blocks(paths, pending),
        num_workers=config.num_workers,
    ) as results:
        built = _write_shards(pending, results, survey)
    counts = sum(kept.values(), start=built)
    if counts.unknown_share > _MANY_UNKNOWN:
        _LOGGER.warning(
            "%.1f%% of the tokens are unknown to the vocabulary. Check that "
            "it was made for this language and this `do_lower_case`.",
            100 * counts.unknown_share,
        )
    return BuildReport(
        config=config,
        counts=counts,
        built=built,
        kept_files=tuple(kept),
        seconds=time.monotonic() - started,
    )


def _survey(paths: Sequence[str]) -> corpus.Survey:
    survey = corpus.survey(paths)
    if not survey.num_documents:
        raise ValueError(
            f"The corpus has no sentence: {', '.join(paths)}. Pass files with "
            "one sentence a line and a blank line between documents."
        )
    _LOGGER.debug(
        "%d files, %d documents, %d characters",
        len(paths),
        survey.num_documents,
        sum(survey.block_characters),
    )
    return survey


def _plan_shards(
    config: PretrainingDataConfig,
    tokenizer: Tokenizer,
    paths: Sequence[str],
    num_blocks: int,
) -> list[_Shard]:
    """Divides the blocks over the output files, in order and evenly."""
    names = (config.output_file or "").split(",")
    output_files = [files.check_local(name.strip()) for name in names if name]
    num_shards = len(output_files)
    if len({os.path.abspath(path) for path in output_files}) < num_shards:
        raise ValueError(
            "An output file is named twice. Name each once. Received: "
            f"{', '.join(output_files)}."
        )
    if num_shards > num_blocks:
        raise ValueError(
            f"The corpus has {num_blocks} blocks (of about half a million "
            "characters), which is too few for so many output files. Name at "
            f"most {num_blocks}. Received: {num_shards} files."
        )
    # Names and sizes identify a corpus, wherever it is copied to.
    corpus_files: list[list[str | int]] = [
        [os.path.basename(path), os.path.getsize(path)] for path in paths
    ]
    borders = [i * num_blocks // num_shards for i in range(num_shards + 1)]
    return [
        _Shard(
            path=path,
            sidecar=sidecar.Sidecar(
                config=config,
                corpus_files=corpus_files,
                blocks=list(blocks),
                tokenizer_hash=tokenizer.hash,
                vocab_size=tokenizer.vocab_size,
                special_ids=tokenizer.special_ids,
                forbidden_ids=tokenizer.forbidden_ids.tolist(),
            ),
        )
        for path, blocks in zip(
            output_files, itertools.pairwise(borders), strict=True
        )
    ]


def _finished_counts(shard: _Shard) -> BuildCounts | None:
    """Returns the counts of a finished shard; None if it has to be built.

    A file of another build is an error, because building would destroy it.
    """
    if not os.path.exists(shard.path):
        return None
    found = sidecar.read(shard.path)
    if found is None:
        raise ValueError(
            f"{shard.path!r} exists already, and no sidecar says what made "
            "it. Remove it, or choose another output file."
        )
    there, wanted = _build_settings(found), _build_settings(shard.sidecar)
    differences = [
        f"{name} is {there[name]!r} there, {wanted[name]!r} here"
        for name in sorted(wanted)
        if there[name] != wanted[name]
    ]
    if differences:
        raise ValueError(
            f"{shard.path!r} was made by another build: "
            f"{'; '.join(differences)}. Remove it, or choose another output "
            "file."
        )
    if os.path.getsize(shard.path) != found.num_bytes:
        _LOGGER.warning("%s was cut short; building it again.", shard.path)
        return None
    return found.counts


def _build_settings(values: sidecar.Sidecar) -> dict[str, Any]:
    others = {
        name: value
        for name, value in vars(values).items()
        if name not in _FIELDS_NOT_COMPARED
    }
    return values.config.record_settings() | others


def _pending_blocks(
    paths: Sequence[str], pending: Sequence[_Shard]
) -> Iterator[corpus.Block]:
    wanted = set(itertools.chain.from_iterable(s.blocks for s in pending))
    for block in corpus.read_blocks(paths) if wanted else ():
        if block.number in wanted:
            yield block


def _build_block(
    block: corpus.Block, *, config: PretrainingDataConfig
) -> tuple[bytes, BuildCounts]:
    return pretraining_instances.build_block(block, _load_once(config), config)


@functools.lru_cache(maxsize=1)
def _load_once(config: PretrainingDataConfig) -> Tokenizer:
    return config.load_tokenizer()


def _write_shards(
    pending: Sequence[_Shard],
    results: Iterator[tuple[bytes, BuildCounts]],
    survey: corpus.Survey,
) -> BuildCounts:
    """Writes the results, which come in the order of the shards' blocks."""
    built = BuildCounts()
    sizes = [[survey.block_characters[b] for b in s.blocks] for s in pending]
    with tqdm.tqdm(
        total=sum(map(sum, sizes)),
        unit="char",
        unit_scale=True,
        disable=None,  # Off where stderr is not a terminal.
    ) as progress:
        for shard, block_sizes in zip(pending, sizes, strict=True):
            with record_files.open_writer(shard.path) as writer:
                counts = BuildCounts()
                for size in block_sizes:
                    framed, block_counts = next(results)
                    writer.write(framed)
                    counts += block_counts
                    progress.update(size)
                _check_has_records(shard, counts)
                finished = dataclasses.replace(
                    shard.sidecar,
                    counts=counts,
                    num_bytes=writer.num_bytes,
                    sha256=writer.sha256,
                )
                # The sidecar comes first: no record file is ever without one.
                sidecar.write(shard.path, finished)
            built += counts
    return built


def _check_has_records(shard: _Shard, counts: BuildCounts) -> None:
    if counts.records:
        return
    raise ValueError(
        f"No record can be made for {shard.path!r} from "
        f"{counts.documents} documents with {counts.sentences} sentences: a "
        "pair needs two sentences of one document. Put one sentence a line "
        "and a blank line between documents only, or use "
        "pair_objective='none'."
    )
