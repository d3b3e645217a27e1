"""Translates checkpoints to the formats of other programs, and back."""

import dataclasses
import json
from collections.abc import Iterable

import numpy as np

from albert_tf import checks
from albert_tf.checkpoints import heads, variable_names
from albert_tf.checkpoints.checkpoint import (
    OUTPUT_BIAS,
    OUTPUT_WEIGHTS,
    Arrays,
    Checkpoint,
    Note,
    head_groups,
)
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.config import AlbertConfig


def notes_on_metadata(metadata: Metadata, reason: str) -> list[Note]:
    """Returns notes on metadata in a file that other programs do not read."""
    facts = metadata.known()
    silent = {"tokenizer_hash", "task", "head", "settings", "evaluation"}
    if "pooling" in (metadata.settings or {}):
        silent.remove("settings")
    return [
        Note("unread", f"{name}={json.dumps(facts[name])} ({reason})")
        for name in facts
        if name not in silent
    ]


def stored_head(metadata: Metadata, left_out: Iterable[str]) -> Metadata:
    """Returns metadata that name no head whose arrays are left out."""
    head = heads.HEADS.get(metadata.head or "")
    if head and head.groups.isdisjoint(head_groups(left_out)):
        return metadata
    return dataclasses.replace(metadata, head=None)


def as_groups(config: AlbertConfig, format_name: str) -> AlbertConfig:
    """Returns an equivalent config in which groups share whole layers."""
    inexpressible = ["attention_window"] if config.attention_window else []
    if config.parameter_sharing not in ("all", "none"):
        inexpressible.append(f"parameter_sharing={config.parameter_sharing!r}")
    if inexpressible:
        raise ValueError(
            f"{format_name} cannot express {checks.listed(inexpressible)}. "
            "Pass --output_format=keras; or, of layers that share a half, "
            "--parameter_sharing=none, which copies the shared weights."
        )
    if config.parameter_sharing == "all":
        return config
    return dataclasses.replace(
        config,
        parameter_sharing="all",
        num_hidden_groups=config.num_hidden_layers,
    )


def in_units_of_labels(checkpoint: Checkpoint) -> Checkpoint:
    """Returns a regression whose outputs are numbers like the labels.

    Of a classifier, its temperature becomes 1. Other formats do not know that
    our outputs may be scaled. A regression stays scaled if float32 is too
    coarse for the numbers, such as times in seconds since 1970.
    """
    metadata = checkpoint.metadata
    scale, mean = metadata.target_scale, metadata.target_mean
    if metadata.temperature is not None:
        scale, mean = 1 / metadata.temperature, 0.0
    if scale is None or mean is None:
        return checkpoint
    if np.spacing(np.float32(mean)) > scale / 1000:
        return checkpoint
    metadata = dataclasses.replace(
        metadata,
        target_scale=None,
        target_mean=None,
        # It is known, and not chosen again on other rows.
        temperature=metadata.temperature and 1.0,
    )
    arrays = dict(checkpoint.arrays)
    arrays[OUTPUT_WEIGHTS] = arrays[OUTPUT_WEIGHTS] * np.float32(scale)
    bias = arrays[OUTPUT_BIAS] * scale + mean
    arrays[OUTPUT_BIAS] = bias.astype(np.float32)
    return dataclasses.replace(checkpoint, arrays=arrays, metadata=metadata)


def rename(
    arrays: Arrays, *, source: str, target: str
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Renames arrays from one format, a column of the table, to another.

    Returns the arrays, and the sorted names that the target does not have.
    """
    renamed, left_out = {}, []
    for name, array in arrays.items():
        match = variable_names.translate(name, source=source, target=target)
        if match is None:
            left_out.append(name)
        else:
            new_name, is_transposed = match
            renamed[new_name] = array.T if is_transposed else array
    return renamed, sorted(left_out)


def from_tf1(
    checkpoint: Checkpoint, target: str
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Does as `rename`; a projection that is missing becomes an identity."""
    config, arrays = checkpoint.known_config, dict(checkpoint.arrays)
    if not config.has_projection:
        kernel, bias = (row.tf1 for row in variable_names.PROJECTION)
        arrays[kernel] = np.eye(config.hidden_size, dtype=np.float32)
        arrays[bias] = np.zeros(config.hidden_size, np.float32)
    return rename(arrays, source="tf1", target=target)


def to_tf1(arrays: Arrays, source: str) -> dict[str, np.ndarray]:
    """Returns all arrays of another format by their TF1 names."""
    renamed, unknown = rename(arrays, source=source, target="tf1")
    if unknown:
        raise ValueError(f"arrays that no ALBERT has: {checks.listed(unknown)}")
    return renamed


def with_projection(checkpoint: Checkpoint) -> Checkpoint:
    """Returns a checkpoint of other programs, which project even if E = H.

    An identity, as `from_tf1` makes it, is left out. Of another projection, the
    config tells.
    """
    config, arrays = checkpoint.known_config, checkpoint.arrays
    kernel, bias = (row.tf1 for row in variable_names.PROJECTION)
    if config.has_projection or kernel not in arrays:
        return checkpoint
    is_identity = np.array_equal(arrays[kernel], np.eye(config.hidden_size))
    if is_identity and not np.any(arrays[bias]):
        names = arrays.keys() - {kernel, bias}
        arrays = {name: arrays[name] for name in names}
        return dataclasses.replace(checkpoint, arrays=arrays)
    config = dataclasses.replace(config, always_projects=True)
    return dataclasses.replace(checkpoint, config=config)
