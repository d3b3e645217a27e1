"""Pretraining record files from text files: the build as a whole.

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
    shards,
    sidecar,
)
from albert_tf.data.build_summary import BuildCounts, BuildReport
from albert_tf.data.pretraining_config import PretrainingDataConfig, Vocabulary
from albert_tf.text.tokenizer import Tokenizer

_LOGGER = logging.getLogger(__name__)

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
    planned = shards.plan_shards(
        [files.check_local(path) for path in output_files],
        survey.num_blocks,
        _made_by(config, vocabulary, tokenizer, paths),
    )
    found = {shard.path: shards.finished_counts(shard) for shard in planned}
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
    _warn_of_unknown_pieces(counts)
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
    for name in shards.VOCABULARY_FLAGS:
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
    paths: Sequence[str], pending: Sequence[shards.Shard]
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
    pending: Sequence[shards.Shard],
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


def _check_has_records(shard: shards.Shard, counts: BuildCounts) -> None:
    if counts.records:
        return
    raise ValueError(
        f"No record can be made for {shard.path!r} from "
        f"{counts.documents} documents with {counts.sentences} sentences: a "
        "pair needs two sentences of one document. Put one sentence a line "
        "and a blank line between documents only, or use "
        "pair_objective='none'."
    )


def _warn_of_unknown_pieces(counts: BuildCounts) -> None:
    if counts.unknown_share > _MANY_UNKNOWN:
        _LOGGER.warning(
            "%.1f%% of the pieces are unknown to the vocabulary; check that "
            "it is made for this language and this do_lower_case",
            100 * counts.unknown_share,
        )
