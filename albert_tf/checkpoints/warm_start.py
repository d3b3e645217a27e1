"""A model made of another's weights: deeper, in more groups, or unshared.

Optimizer slots and step counter stay behind: a new training begins.

Floor: checkpoints. NumPy: no TensorFlow.
"""

import dataclasses
import re
from collections.abc import Sequence

import numpy as np

from albert_tf.checkpoints import checkpoint, variable_names
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.config import AlbertConfig

# The set of weights in the name of a block's variable, and its half: what is
# not of the attention is of the feed-forward half.
_SUBLAYER = re.compile(
    r"(?P<front>.*/group_)(?P<set>\d+)"
    r"(?P<back>/inner_group_\d+/(?P<attention>attention_1/|LayerNorm/)?.*)"
)
_UNSHARED = {
    "all": ("attention", "ffn", "none"),
    "attention": ("none",),
    "ffn": ("none",),
    "none": (),
}


def merge(source: Checkpoint, other: Checkpoint) -> Checkpoint:
    """Adds what another checkpoint of the same encoder has and this has not.

    Heads, and a pooler.

    Raises:
        ValueError: The other has nothing that this one lacks.
    """
    here = source.heads | _pooler(source)
    added = {
        name: array
        for name, array in other.weights.items()
        if _part(name) not in here | {""}
    }
    if not added:
        raise ValueError(
            "--merge_from has no head that --input_path lacks. Its heads: "
            f"{checkpoint.some(sorted(other.heads)) or 'none'}."
        )
    return dataclasses.replace(source, arrays=source.weights | added)


def _part(name: str) -> str:
    if name.startswith(variable_names.POOLER_PREFIX):
        return variable_names.POOLER_PREFIX
    return variable_names.head_of(name)


def _pooler(source: Checkpoint) -> set[str]:
    parts = {_part(name) for name in source.weights}
    return parts & {variable_names.POOLER_PREFIX}


def with_layers(source: Checkpoint, num_layers: int) -> Checkpoint:
    """Returns the model with another number of layers.

    Shared blocks stay as they are; where every layer has weights of its own,
    each takes those of the layer at the same share of the depth.
    """
    config = checkpoint.known_config(source)
    old = config.num_hidden_layers
    spread = [layer * old // num_layers for layer in range(num_layers)]
    return _with_sets(
        source,
        dataclasses.replace(config, num_hidden_layers=num_layers),
        shared=range(config.num_hidden_groups),
        unshared=spread,
    )


def with_groups(source: Checkpoint, num_groups: int) -> Checkpoint:
    """Returns the model with other groups, all copies of the first.

    Raises:
        ValueError: It shares nothing, so that it has no groups.
    """
    config = checkpoint.known_config(source)
    if config.parameter_sharing == "none":
        raise ValueError(
            "--num_hidden_groups has no meaning for a model that shares "
            "nothing."
        )
    return _with_sets(
        source,
        dataclasses.replace(config, num_hidden_groups=num_groups),
        shared=[0] * num_groups,
        unshared=range(config.num_hidden_layers),
    )


def with_sharing(source: Checkpoint, parameter_sharing: str) -> Checkpoint:
    """Returns the model with less shared: every layer takes its group's copy.

    Its outputs are the same.

    Raises:
        ValueError: More would be shared than is.
    """
    config = checkpoint.known_config(source)
    if parameter_sharing not in (
        config.parameter_sharing,
        *_UNSHARED[config.parameter_sharing],
    ):
        raise ValueError(
            f"A model with parameter_sharing={config.parameter_sharing!r} "
            f"cannot become {parameter_sharing!r}: layers with weights of "
            "their own would have to share. Only less can be shared."
        )
    new = dataclasses.replace(config, parameter_sharing=parameter_sharing)
    layers = range(config.num_hidden_layers)
    arrays = source.weights
    groups = [config.group_of_layer(layer) for layer in layers]
    for half in ("attention", "ffn"):
        if _is_shared(config, half) and not _is_shared(new, half):
            arrays = _copy_sets(arrays, half, groups)
    return dataclasses.replace(source, arrays=arrays, config=new)


def _is_shared(config: AlbertConfig, half: str) -> bool:
    return config.parameter_sharing in ("all", half)


def _with_sets(
    source: Checkpoint,
    config: AlbertConfig,
    *,
    shared: Sequence[int],
    unshared: Sequence[int],
) -> Checkpoint:
    arrays = source.weights
    for half in ("attention", "ffn"):
        sources = shared if _is_shared(config, half) else unshared
        arrays = _copy_sets(arrays, half, sources)
    return dataclasses.replace(source, arrays=arrays, config=config)


def _copy_sets(
    arrays: dict[str, np.ndarray], half: str, sources: Sequence[int]
) -> dict[str, np.ndarray]:
    """Gives set i of one half of the blocks the weights of set sources[i]."""
    copied = {}
    for name, array in arrays.items():
        match = _SUBLAYER.fullmatch(name)
        if not match or _half(match) != half:
            copied[name] = array
            continue
        for target, origin in enumerate(sources):
            if origin == int(match["set"]):
                copied[f"{match['front']}{target}{match['back']}"] = array
    return copied


def _half(match: re.Match[str]) -> str:
    return "attention" if match["attention"] else "ffn"
