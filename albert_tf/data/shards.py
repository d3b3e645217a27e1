"""The output files of a build: their names, their shares, which are finished.

A shard is one output file. It holds the records of a range of the corpus'
blocks; or, if there are more files than blocks, every n-th record of a block.
The blocks are in the order of the corpus: so a shard is built from few files,
each read once, from its beginning, as compressed files must be, and a finished
one is kept. Mixing is left to the reader, who draws a new order of all records
for each epoch.
"""

import contextlib
import dataclasses
import itertools
import logging
import os
import re
from collections.abc import (
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from typing import Any, NamedTuple

import numpy as np

from albert_tf import checks, files, storage
from albert_tf.data import corpus, record_index, remote_files, sidecar
from albert_tf.data.deduplication import Duplicates
from albert_tf.data.pretraining_config import PretrainingDataConfig
from albert_tf.data.sidecar import BuildCounts
from albert_tf.text.tokenizer import Tokenizer

_LOGGER = logging.getLogger(__name__)

_NUM_CORPUS_FILES = 10
# What is meant for shards, but names one file: `train@8.tfrecord`.
_NUMBER_INSIDE = re.compile(r"(.*[^/])(@\d+)(\.[^/@]+)", re.DOTALL)
# Longer lists of files are cut off in a sidecar.
_MAX_CHARACTERS = 1000
# What only a finished build knows, what follows from the vocabulary, and where
# the corpus lies; `config` is compared field by field.
_FIELDS_NOT_COMPARED = (
    *("config", "counts", "num_bytes", "sha256"),
    *("vocab_size", "special_ids", "forbidden_ids"),
    *("corpus_files", "num_corpus_files"),
)


class Outcome(NamedTuple):
    """What a run of a build did, with the counts of each shard."""

    kept: dict[str, BuildCounts]
    built: dict[str, BuildCounts]
    num_bad_lines: int
    duplicates: Duplicates | None


def output_files(
    config: PretrainingDataConfig, inputs: Sequence[str]
) -> list[str]:
    """Returns the record files to write, whose names are checked.

    Args:
        config: Names the files, and the vocabulary.
        inputs: The files of the corpus.

    Raises:
        ValueError: A file cannot be written under such a name, or without
            overwriting an input.
    """
    names = [name.strip() for name in (config.output_file or "").split(",")]
    paths = [path for name in names if name for path in files.shard_names(name)]
    vocabulary = (config.spm_model_file, config.vocab_file)
    existing = [
        p
        for p in (*inputs, *vocabulary)
        if p and (files.is_remote(p) or os.path.exists(p))
    ]
    for path in paths:
        if path.endswith(os.sep) or os.path.isdir(path):
            raise ValueError(
                f"{path!r} is a folder. Name a file in it as output file."
            )
        if path.endswith(record_index.OTHER_SUFFIXES):
            raise ValueError(
                f"{path!r} has the name of a sidecar, an index or an "
                "unfinished file. Choose an output file that does not end in "
                f"{', '.join(record_index.OTHER_SUFFIXES)}."
            )
        if found := _NUMBER_INSIDE.fullmatch(path):
            stem, number, ending = found.groups()
            raise ValueError(
                f"{path!r} would be a single file. Put the number of shards at "
                f"its end: {f'{stem}{ending}{number}'!r}."
            )
        for written in written_files(path):
            _check_not_an_input(path, written, existing)
    if len({os.path.realpath(path) for path in paths}) < len(paths):
        raise ValueError(
            "An output file is named twice. Name each once. Received: "
            f"{checks.listed(paths, at_most=3)}."
        )
    return paths


def chosen(
    config: PretrainingDataConfig, paths: Sequence[str]
) -> Sequence[str]:
    """Returns the output files that are built here, in order.

    Raises:
        ValueError: `config.shards` names one that does not exist.
    """
    ranges = config.shard_numbers()
    if ranges is None:
        return paths
    if max(numbers.stop for numbers in ranges) > len(paths):
        raise ValueError(
            f"`shards` must be from 0 to {len(paths) - 1}, the numbers of the "
            f"{len(paths)} output files. Received: shards={config.shards!r}."
        )
    numbers = set(itertools.chain(*ranges))
    return [path for number, path in enumerate(paths) if number in numbers]


def written_files(path: str) -> list[str]:
    """Returns what a build writes for an output file, itself included."""
    return [path, sidecar.sidecar_path(path), record_index.index_path(path)]


def _check_not_an_input(path: str, written: str, inputs: Sequence[str]) -> None:
    if files.is_remote(written):
        if written in inputs:
            raise _would_overwrite(path, written)
        return
    if not os.path.exists(written):
        if os.path.islink(written):
            raise ValueError(
                f"{written!r} is a link to a file that does not exist. Remove "
                "it, or choose another output file."
            )
        return
    for name in inputs:
        if not files.is_remote(name) and os.path.samefile(name, written):
            raise _would_overwrite(path, name)


def _would_overwrite(path: str, name: str) -> ValueError:
    return ValueError(
        f"The output file {path!r} would overwrite the input {name!r}. "
        "Choose another output file."
    )


def plan(
    config: PretrainingDataConfig,
    tokenizer: Tokenizer,
    contents: corpus.CorpusContents,
    paths: Sequence[str],
) -> dict[str, sidecar.Sidecar]:
    """Divides the records over the output files, in order and evenly.

    Returns:
        By output file that is built here, its sidecar without what the build
        will measure.

    Raises:
        ValueError: As `chosen`.
    """
    shortened = dataclasses.replace(
        config.without_builder(),
        input_file=_shortened(config.input_file),
        output_file=_shortened(config.output_file),
    )
    facts = {
        "config": shortened,
        "corpus_files": [
            [os.path.basename(path), storage.size(path)]
            for path in contents.paths[:_NUM_CORPUS_FILES]
        ],
        "num_corpus_files": len(contents.paths),
        "corpus_sha256": contents.sha256,
        "duplicates": contents.duplicates,
        "tokenizer_hash": tokenizer.hash,
        "vocab_size": tokenizer.vocab_size,
        "special_ids": tokenizer.special_ids,
        "forbidden_ids": tokenizer.forbidden_ids.tolist(),
        "word_starts": None
        if config.token_boundary
        else np.packbits(tokenizer.word_starts).tobytes().hex(),
    }
    shares = _shares(len(contents.block_sizes), len(paths))
    by_path = dict(zip(paths, shares, strict=True))
    return {
        path: sidecar.Sidecar(**facts, blocks=blocks, part=part)
        for path in chosen(config, paths)
        for blocks, part in [by_path[path]]
    }


def _shortened(text: str | None) -> str | None:
    if text is None or len(text) <= _MAX_CHARACTERS:
        return text
    return f"{text[:_MAX_CHARACTERS]}... ({len(text):,} characters)"


def _shares(
    num_blocks: int, num_shards: int
) -> list[tuple[list[int], list[int]]]:
    """Returns `blocks` and `part` of each shard, see `Sidecar`."""
    if num_shards <= num_blocks:
        borders = [i * num_blocks // num_shards for i in range(num_shards + 1)]
        return [(list(b), [0, 1]) for b in itertools.pairwise(borders)]
    # The shards of each block.
    borders = [i * num_shards // num_blocks for i in range(num_blocks + 1)]
    return [
        ([block, block + 1], [part, end - first])
        for block, (first, end) in enumerate(itertools.pairwise(borders))
        for part in range(end - first)
    ]


def finished_counts(path: str, planned: sidecar.Sidecar) -> BuildCounts | None:
    """Returns the counts of a finished shard; None if it has to be built.

    Raises:
        ValueError: The file, or one in place of its sidecar, was not made by
            this build, which would destroy it.
    """
    found = read_sidecar(path)
    if not storage.exists(path):
        return None
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
    if storage.size(path) != found.num_bytes:
        _LOGGER.warning("%s was cut short; building it again.", path)
        return None
    if not storage.exists(record_index.index_path(path)):
        _LOGGER.warning("%s has lost its index; building it again.", path)
        return None
    return found.counts


def read_sidecar(path: str) -> sidecar.Sidecar | None:
    """Reads the sidecar of an output file; None if it has none.

    Raises:
        ImportError, OSError: A remote one cannot be read.
        ValueError: It is not a sidecar.
    """
    try:
        return sidecar.read(path, read_remote=storage.read_bytes)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ValueError(
            f"{sidecar.sidecar_path(path)!r} is in the place of the sidecar of "
            f"{path!r}, and not a sidecar that this version can read. Remove "
            "it, or choose another output file."
        ) from error


def _build_settings(values: sidecar.Sidecar) -> dict[str, Any]:
    others = {
        name: value
        for name, value in vars(values).items()
        if name not in _FIELDS_NOT_COMPARED
    }
    return values.config.record_settings() | others


def split_planned(
    planned: Mapping[str, sidecar.Sidecar],
) -> tuple[dict[str, BuildCounts], dict[str, sidecar.Sidecar]]:
    """Returns the counts of finished shards, and the shards to build.

    What killed builds have left beside the finished ones is removed.

    Raises:
        ValueError: A file that this build did not make is in the way; or
            another process builds a shard.
    """
    found = remote_files.open_all(
        lambda path: finished_counts(path, planned[path]), [*planned]
    )
    by_path = zip(planned, found, strict=True)
    finished = {path: counts for path, counts in by_path if counts}
    pending = {path: s for path, s in planned.items() if path not in finished}
    remote_files.open_all(record_index.check_replaceable, [*pending])
    clean_up(finished)
    return finished, pending


def wanted(
    pending: Iterable[sidecar.Sidecar], contents: corpus.CorpusContents
) -> list[corpus.WantedFile]:
    """Returns the blocks to read for these shards, each once, by file."""
    num_parts = {n: s.part[1] for s in pending for n in range(*s.blocks)}
    return contents.wanted(num_parts)


def clean_up(paths: Iterable[str]) -> None:
    """Removes what killed builds have left beside local shards.

    Raises:
        ValueError: Another process builds a shard.
    """
    for path in paths:
        # Whoever writes has a lock file, which a kill leaves behind.
        if not files.is_remote(path) and os.path.exists(files.lock_path(path)):
            with locked(path):
                remove_partials(path)


def remove_partials(path: str) -> None:
    """Removes what killed builds have left of a local shard that is locked."""
    if not files.is_remote(path):
        for written in written_files(path):
            files.remove_partials(written)


def locked_in_turn(paths: Sequence[str]) -> Generator[str, None, None]:
    """Yields shards, each locked until the next one is asked for.

    The next one is locked before the lock of the last one is released, so that
    of two builds of the same files, the one that started first goes on.

    Raises:
        ValueError: Another process builds the shard.
    """
    turn = contextlib.ExitStack()
    for number, path in enumerate(paths):
        if number == 0:
            turn.enter_context(locked(path))
        next_turn = contextlib.ExitStack()
        with turn:
            yield path
            for following in paths[number + 1 : number + 2]:
                next_turn.enter_context(locked(following))
        turn = next_turn


def locked(path: str) -> contextlib.AbstractContextManager[None]:
    """Locks a shard for this process, unless it is remote.

    Raises:
        ValueError: Another process builds it.
    """
    if files.is_remote(path):
        return contextlib.nullcontext()
    return files.locked(
        files.lock_path(path),
        f"Another process is building {path!r}. Wait until it ends, or choose "
        "another output file.",
    )
