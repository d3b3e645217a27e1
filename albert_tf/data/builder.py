"""Builds pretraining record files from text files.

Data flow: text files -> blocks -> [worker processes: records] -> shards.
A shard is one output file, which holds the records of a range of the corpus'
blocks. It appears whole, with its sidecar, or not at all, and a finished shard
is not built again.

Floor: data. No TensorFlow.
"""

import dataclasses
import functools
import hashlib
import itertools
import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import tqdm

from albert_tf import files
from albert_tf.data import (
    corpus,
    ordered_workers,
    pretraining_instances,
    record_index,
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
    """What a build did in these seconds; `str` gives a summary to print.

    `counts` is of all shards, `built` of those that this run built;
    `kept_files` are those that were already finished.
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
    block_sizes = corpus.block_sizes(paths)
    planned = _plan_shards(config, tokenizer, paths, len(block_sizes))
    found = {path: _finished_counts(path, s) for path, s in planned.items()}
    kept = {path: counts for path, counts in found.items() if counts}
    pending = {path: s for path, s in planned.items() if path not in kept}
    with ordered_workers.map_in_order(
        functools.partial(
            pretraining_instances.build_block,
            tokenizer=tokenizer,
            config=config,
        ),
        _pending_blocks(paths, pending.values()),
        num_workers=config.num_workers,
    ) as results:
        built = _write_shards(pending, results, block_sizes)
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


def _plan_shards(
    config: PretrainingDataConfig,
    tokenizer: Tokenizer,
    paths: Sequence[str],
    num_blocks: int,
) -> dict[str, sidecar.Sidecar]:
    """Divides the blocks over the output files, in order and evenly.

    Returns:
        By output file, its sidecar without what the build will measure.
    """
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
    return {
        path: sidecar.Sidecar(
            config=config,
            corpus_files=corpus_files,
            blocks=list(blocks),
            tokenizer_hash=tokenizer.hash,
            vocab_size=tokenizer.vocab_size,
            special_ids=tokenizer.special_ids,
            forbidden_ids=tokenizer.forbidden_ids.tolist(),
        )
        for path, blocks in zip(
            output_files, itertools.pairwise(borders), strict=True
        )
    }


def _finished_counts(path: str, planned: sidecar.Sidecar) -> BuildCounts | None:
    """Returns the counts of a finished shard; None if it has to be built.

    A file of another build is an error, because building would destroy it.
    """
    if not os.path.exists(path):
        return None
    found = sidecar.read(path)
    if found is None:
        raise ValueError(
            f"{path!r} exists already, and no sidecar says what made "
            "it. Remove it, or choose another output file."
        )
    there, wanted = _build_settings(found), _build_settings(planned)
    differences = [
        f"{name} is {there[name]!r} there, {wanted[name]!r} here"
        for name in sorted(wanted)
        if there[name] != wanted[name]
    ]
    if differences:
        raise ValueError(
            f"{path!r} was made by another build: "
            f"{'; '.join(differences)}. Remove it, or choose another output "
            "file."
        )
    if os.path.getsize(path) != found.num_bytes:
        _LOGGER.warning("%s was cut short; building it again.", path)
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
    paths: Sequence[str], pending: Iterable[sidecar.Sidecar]
) -> Iterator[corpus.Block]:
    wanted = {number for s in pending for number in range(*s.blocks)}
    for block in corpus.read_blocks(paths) if wanted else ():
        if block.number in wanted:
            yield block


def _write_shards(
    pending: Mapping[str, sidecar.Sidecar],
    results: Iterator[tuple[bytes, BuildCounts]],
    block_sizes: Sequence[int],
) -> BuildCounts:
    """Writes the results, which come in the order of the shards' blocks."""
    built = BuildCounts()
    sizes = [block_sizes[slice(*s.blocks)] for s in pending.values()]
    with tqdm.tqdm(
        total=sum(map(sum, sizes)),
        unit="char",
        unit_scale=True,
        disable=None,  # Off where stderr is not a terminal.
    ) as progress:
        for path, own_sizes in zip(pending, sizes, strict=True):
            with (
                record_index.index_writer(path) as index,
                files.atomic_write(path) as file,
            ):
                counts, digest = BuildCounts(), hashlib.sha256()
                for size in own_sizes:
                    framed, block_counts = next(results)
                    file.write(framed)
                    digest.update(framed)
                    index.add(framed)
                    counts += block_counts
                    progress.update(size)
                _check_has_records(path, counts)
                finished = dataclasses.replace(
                    pending[path],
                    counts=counts,
                    num_bytes=file.tell(),
                    sha256=digest.hexdigest(),
                )
                # The sidecar comes first: no record file is ever without one.
                sidecar.write(path, finished)
                index.finish(finished.sha256)
            built += counts
    return built


def _check_has_records(path: str, counts: BuildCounts) -> None:
    if counts.records:
        return
    raise ValueError(
        f"No record can be made for {path!r} from "
        f"{counts.documents} documents with {counts.sentences} sentences: a "
        "pair needs two sentences of one document. Put one sentence a line "
        "and a blank line between documents only, or use "
        "pair_objective='none'."
    )
