"""Output files of a record build: which blocks each gets, which are finished.

Floor: data. Plain Python.
"""

import dataclasses
import logging
import os
from collections.abc import Sequence
from typing import Any

from albert_tf.data import sidecar
from albert_tf.data.build_summary import BuildCounts

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
