"""Plans the shards of a build, tells which are finished, and writes the others.

Data flow: contents of the corpus -> planned shards, records -> files.

A shard holds the records of a range of the corpus' blocks; or, if there are
more shards than blocks, every n-th record of a block. The blocks are in the
order of the corpus: so a shard is built from few files, each read once, from
its beginning, as compressed files must be, and a finished one is kept. Mixing
is left to the reader, who draws a new order of all records for each epoch.

A `shards.Shard` is planned here with all that is known before its records are,
and written with the rest.
"""

import contextlib
import dataclasses
import hashlib
import itertools
import logging
import os
import re
from collections.abc import Iterable
from typing import NamedTuple

from albert_tf import checks, files, folders, globs
from albert_tf.data import corpus, record_files, shards
from albert_tf.data.pretraining_config import PretrainingDataConfig
from albert_tf.data.pretraining_instances import BlockPart
from albert_tf.data.shards import BuildCounts, Shard
from albert_tf.text.base import Tokenizer

_LOGGER = logging.getLogger(__name__)

_SHARD_RANGE = re.compile(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?")


class BuildResult(NamedTuple):
    """The shards of a build: the shards it found, and the shards it wrote."""

    finished: list[Shard]
    built: list[Shard]
    num_bad_lines: int


def output_files(config: PretrainingDataConfig) -> list[str]:
    """Returns the record files of all shards."""
    names = [name.strip() for name in (config.output_file or "").split(",")]
    paths = [path for name in names if name for path in globs.shard_names(name)]
    for path in paths:
        if path.endswith((os.sep, *record_files.OTHER_SUFFIXES)):
            raise ValueError(
                f"{path!r} has the name of a folder, a sidecar, an index or an "
                "unfinished file. Choose another output file."
            )
    if len({os.path.realpath(path) for path in paths}) < len(paths):
        raise ValueError(
            "An output file is named twice. Name each once. Received: "
            f"{checks.listed(paths, at_most=3)}."
        )
    return paths


def chosen(config: PretrainingDataConfig, paths: list[str]) -> list[str]:
    """Returns the record files that are built here, in order."""
    if config.shards is None:
        return paths
    shard_numbers: set[int] = set()
    for text in config.shards.split(","):
        match = _SHARD_RANGE.fullmatch(text)
        first, last = match.groups() if match else ("0", "-1")
        named = range(int(first), int(last or first) + 1)
        if not named or named.stop > len(paths):
            raise ValueError(
                "`shards` must be numbers and ranges of numbers, such as "
                f"0-511 or 3,7, up to {len(paths) - 1}. Received: "
                f"shards={config.shards!r}."
            )
        shard_numbers.update(named)
    return [paths[shard] for shard in sorted(shard_numbers)]


def plan(
    config: PretrainingDataConfig,
    tokenizer: Tokenizer,
    contents: corpus.CorpusContents,
    paths: list[str],
) -> tuple[list[Shard], list[Shard]]:
    """Divides the records over the shards that are built here.

    Returns the finished shards, and the shards that have to be built.
    """
    tokenizer.special_ids.num_around(config.num_segments)  # Or an error.
    common = Shard(
        path="",
        config=config.record_settings(),
        origin=config.origin(),
        corpus_sha256=contents.sha256,
        duplicates=contents.duplicates,
        tokenizer_hash=tokenizer.fingerprint,
        vocab_size=tokenizer.vocab_size,
        special_ids=tokenizer.special_ids,
        forbidden_ids=tokenizer.forbidden_ids.tolist(),
        added_tokens=(
            tokenizer.settings.added_tokens if config.new_tokens else None
        ),
    )
    shares = _shares(len(contents.block_sizes), len(paths))
    planned = {
        path: dataclasses.replace(common, path=path, blocks=blocks, part=part)
        for path, (blocks, part) in zip(paths, shares, strict=True)
    }
    here = chosen(config, paths)
    written = globs.for_all(lambda path: finished(planned[path]), here)
    missing = [p for p, shard in zip(here, written, strict=True) if not shard]
    return [s for s in written if s], [planned[path] for path in missing]


def _shares(
    num_blocks: int, num_shards: int
) -> list[tuple[list[int], list[int]]]:
    """Returns `blocks` and `part` of each shard, see `Shard`."""
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


def finished(planned: Shard) -> Shard | None:
    """Returns a shard as it was written; None if it has to be built."""
    path = planned.path
    try:
        shard = shards.read(path)
    except FileNotFoundError:
        for name in (path, record_files.index_path(path)):
            if files.status(name):
                raise ValueError(
                    f"{name!r} exists already, and has no sidecar. Choose "
                    "another output file."
                ) from None
        return None
    status = files.status(path)
    if status is None:
        return None
    written, wanted = (
        {**each.build, "blocks": each.blocks, "part": each.part}
        for each in (shard, planned)
    )
    if differences := checks.differences(written, wanted):
        raise ValueError(
            f"{path!r} was made by another build: "
            f"{checks.listed(differences)}. Choose another output file."
        )
    is_whole = status.num_bytes == shard.num_bytes
    if is_whole and files.status(record_files.index_path(path)):
        return shard
    _LOGGER.warning(
        "%s was cut short, or has lost its index; building it again.", path
    )
    return None


def write(planned: Shard, parts: Iterable[BlockPart]) -> Shard:
    """Writes a shard with its index and sidecar, whole or not at all.

    `parts` are its records, block by block. Returns the shard, with its counts
    and digest.
    """
    path = planned.path
    index_path = record_files.index_path(path)
    lock: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if not files.is_remote(path):
        message = (
            f"Another process is building {path!r}. Wait until it ends, or "
            "choose another output file."
        )
        lock = folders.locked(folders.lock_path(path), message)
    # The record file takes its name last: then it is finished.
    with (
        lock,
        files.atomic_write(path) as file,
        files.atomic_write(index_path) as index,
    ):
        digest, num_bytes, counts = hashlib.sha256(), 0, BuildCounts()
        for part in parts:
            file.write(part.framed)
            digest.update(part.framed)
            entries, _ = record_files.index_entries(part.framed, num_bytes)
            index.write(entries)
            num_bytes += len(part.framed)
            counts += part.counts
        end = record_files.index_end(counts.records, num_bytes, digest.digest())
        index.write(end)
        shard = dataclasses.replace(
            planned,
            sha256=digest.hexdigest(),
            num_bytes=num_bytes,
            counts=counts,
        )
        # Nothing takes its name before all have room on the disk.
        files.flush(file)
        files.flush(index)
        # Another build may have had the lock before, or needs none.
        if finished(planned):
            raise ValueError(
                f"Another process has built {path!r} in the meantime. Run the "
                "command again when it has ended."
            )
        write_sidecar(shard)
    return shard


def write_sidecar(shard: Shard) -> None:
    """Writes the sidecar of a shard, which may be remote."""
    fields = dataclasses.asdict(shard)
    path = fields.pop("path")
    if fields["added_tokens"] is None:  # As in records of older versions.
        del fields["added_tokens"]
    files.write_json(
        path + ".json",
        {"version": shards.FORMAT_VERSION, **fields},
        sort_keys=True,
    )
