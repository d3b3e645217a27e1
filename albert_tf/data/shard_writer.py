"""Writes a shard: its records, its index, its sidecar, whole or not at all.

Data flow: records of blocks -> [this file] -> shard, index, sidecar.
"""

import dataclasses
import hashlib
from collections.abc import Iterable

from albert_tf import files, storage
from albert_tf.data import record_index, shards, sidecar
from albert_tf.data.pretraining_instances import BlockPart
from albert_tf.data.sidecar import BuildCounts


def write(
    path: str, planned: sidecar.Sidecar, parts: Iterable[BlockPart]
) -> BuildCounts:
    """Writes a shard that this process has locked, if it is local.

    Args:
        path: The record file.
        planned: Its sidecar, without what is measured here.
        parts: Its records, block by block.

    Returns:
        What it holds.

    Raises:
        OSError: A file cannot be written.
        ValueError: Another process has built it.
    """
    _check_unfinished(path, planned)
    shards.remove_partials(path)
    # The record file takes its name last: then it is finished.
    with (
        storage.atomic_write(path) as file,
        record_index.index_writer(path) as index,
    ):
        counts, digest = BuildCounts(), hashlib.sha256()
        for part in parts:
            with files.naming_file(path):
                file.write(part.framed)
            digest.update(part.framed)
            index.add(part.framed)
            counts += part.counts
        finished = dataclasses.replace(
            planned,
            counts=counts,
            num_bytes=file.tell(),
            sha256=digest.hexdigest(),
        )
        # Nothing takes its name before all have room on the disk.
        with files.naming_file(path):
            files.flush(file)
        if files.is_remote(path):  # It is not locked.
            _check_unfinished(path, planned)
        index.finish(finished.sha256)
        sidecar.write(path, finished)
    return counts


def _check_unfinished(path: str, planned: sidecar.Sidecar) -> None:
    if shards.finished_counts(path, planned):
        raise ValueError(
            f"Another process has built {path!r} in the meantime. Run the "
            "command again when it has ended."
        )
