"""Makes a model from another's weights: deeper, in more groups, or unshared.

The result has no optimizer slots and no step counter, because a new training
begins with it.

NumPy: no TensorFlow.
"""

import dataclasses
import re
from collections.abc import Sequence

import numpy as np

from albert_tf.checkpoints import checkpoint, variable_names
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.config import AlbertConfig

# The set of weights in the name of a layer's variable, and the half that the
# variable belongs to: attention, otherwise feed-forward.
_SUBLAYER = re.compile(
    r"(?P<front>.*/group_)(?P<set>\d+)"
    r"(?P<back>/inner_group_\d+/(?P<attention>attention_1/|LayerNorm/)?.*)"
)
_HALVES = ("attention", "ffn")
# What each sharing strategy can be turned into by copying weights.
_UNSHARED = {
    "all": ("attention", "ffn", "none"),
    "attention": ("none",),
    "ffn": ("none",),
    "none": (),
}


def merge(source: Checkpoint, other: Checkpoint) -> Checkpoint:
    """Adds the heads, the pooler and the metadata that only the other one has.

    Both are checkpoints of the same encoder.

    Raises:
        ValueError: The other has no head or pooler that this one lacks, or
            its config or metadata contradict this one's.
    """
    if None not in (source.config, other.config):
        checkpoint.check_same_meaning(
            checkpoint.known_config(other),
            checkpoint.known_config(source),
            "--merge_from",
        )
    present = {_part_of(name) for name in source.weights} | {""}
    added = {
        name: array
        for name, array in other.weights.items()
        if _part_of(name) not in present
    }
    if not added:
        raise ValueError(
            "--merge_from has no head that --input_path lacks. Its heads: "
            f"{checkpoint.some(sorted(other.heads)) or 'none'}. Pass a "
            "checkpoint with other heads, or leave --merge_from out."
        )
    own, others = source.metadata.known(), other.metadata.known()
    for name in ("do_lower_case", "tokenizer_hash"):
        if own.get(name, others.get(name)) != others.get(name, own.get(name)):
            raise ValueError(
                f"--merge_from has {name}={others[name]!r}, but --input_path "
                f"has {own[name]!r}. Their heads cannot work on the same text."
            )
    # Facts of a head come with it.
    heads = {_part_of(name) for name in added}
    facts = {
        name: value
        for name, value in others.items()
        if heads & {*_HEADS_OF_FACTS.get(name, heads)}
    } | own
    return dataclasses.replace(
        source, arrays=source.weights | added, metadata=Metadata(**facts)
    )


# The heads that each fact of the metadata is about, if it is about some.
_HEADS_OF_FACTS = {
    **dict.fromkeys(
        ("labels", "multi_label", "thresholds", "target_mean", "target_scale"),
        ("task",),
    ),
    "null_from_cls": ("cls/squad",),
    "null_threshold": ("cls/squad", "beam"),
}


def _part_of(name: str) -> str:
    """Returns the head of a variable, or `POOLER_PREFIX`, or ""."""
    if name.startswith(variable_names.POOLER_PREFIX):
        return variable_names.POOLER_PREFIX
    return variable_names.head_of(name)


def with_layers(source: Checkpoint, num_layers: int) -> Checkpoint:
    """Returns the model with another number of layers.

    Shared weights stay as they are. Where every layer has its own weights,
    each new layer copies those of the layer at the same relative depth.
    """
    config = checkpoint.known_config(source)
    old = config.num_hidden_layers
    return _with_sets(
        source,
        dataclasses.replace(config, num_hidden_layers=num_layers),
        shared=range(config.num_hidden_groups),
        unshared=[layer * old // num_layers for layer in range(num_layers)],
    )


def with_groups(source: Checkpoint, num_groups: int) -> Checkpoint:
    """Returns the model with another number of groups, copies of the first.

    Raises:
        ValueError: Its layers share nothing, so that it has no groups.
    """
    config = checkpoint.known_config(source)
    if config.parameter_sharing == "none":
        raise ValueError(
            "--num_hidden_groups cannot be used for a model whose layers share "
            "nothing (parameter_sharing='none'). Leave it out."
        )
    return _with_sets(
        source,
        dataclasses.replace(config, num_hidden_groups=num_groups),
        shared=[0] * num_groups,
        unshared=range(config.num_hidden_layers),
    )


def with_sharing(source: Checkpoint, parameter_sharing: str) -> Checkpoint:
    """Returns the model with less sharing: each layer copies shared weights.

    Its outputs stay the same.

    Raises:
        ValueError: The layers would have to share more than they do.
    """
    config = checkpoint.known_config(source)
    if parameter_sharing not in (
        config.parameter_sharing,
        *_UNSHARED[config.parameter_sharing],
    ):
        raise ValueError(
            f"A model with parameter_sharing={config.parameter_sharing!r} "
            f"cannot become {parameter_sharing!r}, because layers with "
            "different weights would have to share them. Pass a strategy that "
            "shares less."
        )
    new = dataclasses.replace(config, parameter_sharing=parameter_sharing)
    groups = [config.group_of_layer(n) for n in range(config.num_hidden_layers)]
    arrays = source.weights
    for half in _HALVES:
        if config.is_shared(half) and not new.is_shared(half):
            arrays = _copy_sets(arrays, half, groups)
    return dataclasses.replace(source, arrays=arrays, config=new)


def _with_sets(
    source: Checkpoint,
    config: AlbertConfig,
    *,
    shared: Sequence[int],
    unshared: Sequence[int],
) -> Checkpoint:
    """Returns the model with other sets of weights; see `_copy_sets`.

    The sources of a half that the layers share are `shared`; those of a half
    that they do not share are `unshared`.
    """
    arrays = source.weights
    for half in _HALVES:
        sources = shared if config.is_shared(half) else unshared
        arrays = _copy_sets(arrays, half, sources)
    return dataclasses.replace(source, arrays=arrays, config=config)


def _copy_sets(
    arrays: dict[str, np.ndarray], half: str, sources: Sequence[int]
) -> dict[str, np.ndarray]:
    """Gives set i of one half of the layers the weights of set sources[i]."""
    copied = {}
    for name, array in arrays.items():
        match = _SUBLAYER.fullmatch(name)
        if not match or (half == "attention") != bool(match["attention"]):
            copied[name] = array
            continue
        for target, origin in enumerate(sources):
            if origin == int(match["set"]):
                copied[f"{match['front']}{target}{match['back']}"] = array
    return copied
