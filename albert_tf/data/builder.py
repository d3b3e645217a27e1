"""Output files of a record build: which blocks each gets, which are finished.

Floor: data. Plain Python.

Pretraining record files from text files: the build as a whole.

Data flow: text files -> blocks -> [worker processes: records] -> shards.
A shard is one output file, with a range of the corpus' blocks. It appears
whole, with its sidecar, or not at all, and a finished one is not built again.

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
from albert_tf.data.pretraining_config import PretrainingDataConfig, Vocabulary
from albert_tf.data.sidecar import BuildCounts, BuildReport
from albert_tf.text.tokenizer import Tokenizer

_LOGGER = logging.getLogger(__name__)

# What a build finds out, as opposed to what it is told.
# Where the vocabulary lay; what it holds is in `tokenizer_hash`.
VOCABULARY_FLAGS = ("spm_model_file", "vocab_file")
_MEASURED_FIELDS = ("counts", "num_bytes", "sha256")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shard:
    """An output file, finished or to be built.

    Args:
        path: Its name.
        blocks: Numbers of the corpus' blocks that it holds.
        made_by: What made it; what is measured is not yet filled in.
    """

    path: str
    blocks: range
    made_by: sidecar.Sidecar

    def finished_sidecar(
        self, counts: BuildCounts, num_bytes: int, sha256: str
    ) -> sidecar.Sidecar:
        """Returns the sidecar of the file once it is written."""
        return dataclasses.replace(
            self.made_by,
            counts=dataclasses.asdict(counts),
            num_bytes=num_bytes,
            sha256=sha256,
        )


def plan_shards(
    output_files: Sequence[str], num_blocks: int, made_by: sidecar.Sidecar
) -> list[Shard]:
    """Divides the blocks over the output files, in order and evenly.

    Args:
        output_files: At least one.
        num_blocks: Blocks of the corpus.
        made_by: The sidecar of every file, but for what is measured.

    Raises:
        ValueError: A file is named twice, or there are more files than
            blocks.
    """
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
    shards = []
    for index, path in enumerate(output_files):
        blocks = range(
            index * num_blocks // num_shards,
            (index + 1) * num_blocks // num_shards,
        )
        flags = made_by.flags | {"blocks": [blocks.start, blocks.stop]}
        shards.append(
            Shard(
                path=path,
                blocks=blocks,
                made_by=dataclasses.replace(made_by, flags=flags),
            )
        )
    return shards


def finished_counts(shard: Shard) -> BuildCounts | None:
    """Returns the counts of a shard that is there already.

    Returns:
        None if it has to be built: it is not there, or was cut short.

    Raises:
        ValueError: Another build made the file, so that building would
            destroy it; the message says what differs.
    """
    if not os.path.exists(shard.path):
        return None
    found = sidecar.read(shard.path)
    if found is None:
        raise ValueError(
            f"{shard.path!r} is there already, and no sidecar says what made "
            "it. Remove it, or choose another output file."
        )
    differences = _differences(_told(found), _told(shard.made_by))
    if differences:
        raise ValueError(
            f"{shard.path!r} was made by another build: "
            f"{'; '.join(differences)}. Remove it, or choose another output "
            "file."
        )
    if os.path.getsize(shard.path) != found.num_bytes:
        _LOGGER.warning("%s was cut short; it is built again", shard.path)
        return None
    return BuildCounts(**found.counts)


def _told(values: sidecar.Sidecar) -> dict[str, Any]:
    """Returns what a build was told, by name; flags by theirs."""
    told = dataclasses.asdict(values)
    told |= told.pop("flags")
    for name in _MEASURED_FIELDS + VOCABULARY_FLAGS:
        told.pop(name, None)
    return told


def _differences(found: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    return [
        f"{name} is {found.get(name)!r} there, {wanted.get(name)!r} wanted"
        for name in sorted(found.keys() | wanted.keys())
        if found.get(name) != wanted.get(name)
    ]


# English text in the English vocabulary has below 0.1%; capitals in a
# lower-case vocabulary, or a foreign script, give far more.
_MANY_UNKNOWN = 0.05


def build(
    *,
    config: PretrainingDataConfig,
    vocabulary: Vocabulary,
    input_files: str | list[str],
    output_files: Sequence[str],
    num_workers: int = 1,
) -> BuildReport:
    """Builds record files, each with its sidecar.

    The records depend on the corpus, the vocabulary and the config, and not
    on `num_workers`. Output files that this same build has finished before
    are kept.

    Args:
        config: The settings.
        vocabulary: The tokenizer's files.
        input_files: Globs of text files; `corpus.py` says how they look.
        output_files: What to write; each gets an equal part of the corpus.
        num_workers: Processes that make records.

    Returns:
        The counts, to be printed.

    Raises:
        FileNotFoundError: No file matches, or there is no vocabulary.
        OSError: An output file cannot be written.
        ValueError: The corpus is empty, too small for so many files, damaged,
            or gives no pair; an output file of another build is in the way;
            or an argument is impossible.
    """
    started = time.monotonic()
    if num_workers < 1 or not output_files:
        raise ValueError(
            "A build needs at least one worker and one output file. Received: "
            f"num_workers={num_workers}, output_files={list(output_files)}."
        )
    paths = files.expand_globs(input_files)
    tokenizer = vocabulary.load()
    survey = _survey(paths)
    planned = plan_shards(
        [files.check_local(path) for path in output_files],
        survey.num_blocks,
        _made_by(config, vocabulary, tokenizer, paths),
    )
    found = {shard.path: finished_counts(shard) for shard in planned}
    kept = {path: counts for path, counts in found.items() if counts}
    pending = [shard for shard in planned if shard.path not in kept]
    make_records = functools.partial(
        _make_records, vocabulary=vocabulary, config=config
    )
    with ordered_workers.map_in_order(
        make_records, _pending_blocks(paths, pending), num_workers=num_workers
    ) as results:
        built = _write_shards(pending, results, survey)
    counts = sum(kept.values(), start=built)
    _warn_of_unknown_tokens(counts)
    return BuildReport(
        counts=counts,
        built=built,
        kept_files=tuple(kept),
        seconds=time.monotonic() - started,
        masking=config.masking,
        pair_objective=config.pair_objective,
        max_seq_length=config.max_seq_length,
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


def _made_by(
    config: PretrainingDataConfig,
    vocabulary: Vocabulary,
    tokenizer: Tokenizer,
    paths: Sequence[str],
) -> sidecar.Sidecar:
    """Returns a sidecar, but for what is measured."""
    # Names and sizes tell one corpus from another, wherever it is copied to.
    corpus_files = [[os.path.basename(p), os.path.getsize(p)] for p in paths]
    flags: dict[str, Any] = dataclasses.asdict(config)
    for name in VOCABULARY_FLAGS:
        path = getattr(vocabulary, name)
        flags[name] = path and os.fspath(path)
    flags |= {
        "do_lower_case": tokenizer.do_lower_case,
        "corpus_files": corpus_files,
    }
    return sidecar.Sidecar(
        masking=config.masking,
        max_seq_length=config.max_seq_length,
        max_predictions_per_seq=config.max_predictions_per_seq,
        num_prediction_slots=config.num_prediction_slots,
        pair_objective=config.pair_objective,
        masked_lm_prob=config.masked_lm_prob,
        ngram=config.ngram,
        favor_shorter_ngram=config.favor_shorter_ngram,
        do_whole_word_mask=config.do_whole_word_mask,
        tokenizer_hash=tokenizer.hash,
        vocab_size=tokenizer.vocab_size,
        special_ids=dataclasses.asdict(tokenizer.special_ids),
        forbidden_ids=tokenizer.forbidden_ids.tolist(),
        flags=flags,
        counts={},
        num_bytes=0,
        sha256="",
    )


def _pending_blocks(
    paths: Sequence[str], pending: Sequence[Shard]
) -> Iterator[corpus.Block]:
    if not pending:
        return
    wanted = set(itertools.chain.from_iterable(s.blocks for s in pending))
    for block in corpus.read_blocks(paths):
        if block.number in wanted:
            yield block


def _make_records(
    block: corpus.Block,
    *,
    vocabulary: Vocabulary,
    config: PretrainingDataConfig,
) -> tuple[bytes, BuildCounts]:
    """The work of a worker process."""
    tokenizer = _load_once(vocabulary)
    return pretraining_instances.build_block(block, tokenizer, config)


@functools.lru_cache(maxsize=1)
def _load_once(vocabulary: Vocabulary) -> Tokenizer:
    return vocabulary.load()


def _write_shards(
    pending: Sequence[Shard],
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
                # First the sidecar: no record file is ever without one.
                sidecar.write(
                    shard.path,
                    shard.finished_sidecar(
                        counts, writer.num_bytes, writer.sha256
                    ),
                )
            built += counts
    return built


def _check_has_records(shard: Shard, counts: BuildCounts) -> None:
    if counts.records:
        return
    raise ValueError(
        f"No record can be made for {shard.path!r} from "
        f"{counts.documents} documents with {counts.sentences} sentences: a "
        "pair needs two sentences of one document. Put one sentence a line "
        "and a blank line between documents only, or use "
        "pair_objective='none'."
    )


def _warn_of_unknown_tokens(counts: BuildCounts) -> None:
    if counts.unknown_share > _MANY_UNKNOWN:
        _LOGGER.warning(
            "%.1f%% of the tokens are unknown to the vocabulary; check that "
            "it is made for this language and this do_lower_case",
            100 * counts.unknown_share,
        )
