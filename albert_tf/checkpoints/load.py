"""Weights into a model, whatever the checkpoint's format.

The format is recognised by what is at the path, not asked for.

Floor: checkpoints.

Arrays into the variables of a model: all of them, or none.

Floor: checkpoints.
"""

import logging
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from albert_tf import files
from albert_tf.checkpoints import (
    checkpoint,
    huggingface,
    keras_hub,
    tf1,
    variable_names,
)
from albert_tf.checkpoints.checkpoint import Checkpoint

_ACCEPTED = (
    "Accepted: a TF1 checkpoint or one of ours (the path without `.index`, or "
    "its folder), the folder of a run, a Hugging Face folder with "
    "model.safetensors, a KerasHub preset folder"
)
_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle")


def load_checkpoint(
    model: Any,
    path: files.Path,
    *,
    allow_new_heads: bool = False,
    from_group_0: bool = False,
) -> list[str]:
    """Sets all weights of a model from a checkpoint.

    If anything is wrong, no weight is changed.

    Args:
        model: An `AlbertModel`, a `PretrainingModel`, or another Keras model
            made of their layers.
        path: Of a checkpoint in any format that `recognise` knows.
        allow_new_heads: Whether a head of the model may be absent from the
            checkpoint, or be another task's there, of another shape; it then
            keeps the weights that it has.
        from_group_0: Whether every group of layers takes the weights of the
            checkpoint's first group.

    Returns:
        Names of what the checkpoint holds for heads that the model has not.

    Raises:
        FileNotFoundError: There is no checkpoint there.
        ImportError: The format needs a package that is not installed.
        ValueError: The format is not one of the accepted ones; or the
            checkpoint is damaged, or a variable is missing, left over or of
            another shape, or its config gives the model's weights another
            meaning.
    """
    name = os.fspath(path)
    if recognise(path) == "tf1":
        weights = tf1.read_arrays(path, with_slots=False)
    else:
        source = read(path)
        _check_same_meaning(model, source, name)
        weights = source.weights
    return assign(
        model,
        weights,
        name,
        allow_new_heads=allow_new_heads,
        from_group_0=from_group_0,
    )


def read(path: files.Path) -> Checkpoint:
    """Reads a checkpoint of any format.

    Args:
        path: Of a checkpoint in any format that `recognise` knows.

    Raises:
        FileNotFoundError, ImportError, ValueError: See `load_checkpoint`.
    """
    kind = recognise(path)
    if kind == "huggingface":
        return huggingface.read(path)
    if kind == "keras_hub":
        return keras_hub.read(path)
    return tf1.read_folder(path)


def recognise(path: files.Path) -> str:
    """Returns `tf1` (ours are too), `huggingface` or `keras_hub`.

    Raises:
        ValueError: What is there is of another format.
    """
    name = files.check_local(path)
    if huggingface.is_folder(name):
        return "huggingface"
    if keras_hub.is_folder(name):
        return "keras_hub"
    _refuse_other_formats(name)
    return "tf1"


def global_step(path: files.Path) -> int:
    """Returns the number of updates that made a checkpoint; 0 if unknown.

    Raises:
        FileNotFoundError: There is no checkpoint there.
        ValueError: It is damaged, or of another format.
    """
    if recognise(path) != "tf1":
        return 0
    prefix = tf1.resolve(path)
    name = variable_names.GLOBAL_STEP
    if name not in tf1.read_shapes(prefix):
        return 0
    return int(tf1.read(prefix, [name])[name])


def _check_same_meaning(model: Any, source: Checkpoint, where: str) -> None:
    """Checks what the shapes of the weights do not tell."""
    wanted = getattr(model, "config", None)
    if wanted is None or source.config is None:
        return
    for field in ("hidden_act", "num_attention_heads"):
        theirs, ours = getattr(source.config, field), getattr(wanted, field)
        if theirs != ours:
            raise ValueError(
                f"Checkpoint {where!r} was made with {field}={theirs!r}, the "
                f"model has {field}={ours!r}. Use the config that the "
                "checkpoint was made with."
            )


def _refuse_other_formats(path: str) -> None:
    names = os.listdir(path) if os.path.isdir(path) else [path]
    if any(name.endswith(".index") for name in names):
        return
    pickles = [name for name in names if name.endswith(_PICKLES)]
    if pickles and not os.path.isfile(f"{path}.index"):
        raise ValueError(
            f"{path!r} is a pickle ({os.path.basename(pickles[0])}), which "
            f"can run any code when it is read. {_ACCEPTED}."
        )
    others = [n for n in names if n.endswith((".safetensors", ".h5", ".keras"))]
    if others:
        raise ValueError(
            f"{path!r} holds {os.path.basename(others[0])}, a format that is "
            f"not read. {_ACCEPTED}."
        )


_LOGGER = logging.getLogger(__name__)
_GROUP = re.compile(r"/group_\d+/")


def assign(
    model: Any,
    weights: Mapping[str, np.ndarray],
    where: str,
    *,
    allow_new_heads: bool = False,
    from_group_0: bool = False,
) -> list[str]:
    """Sets all weights of a model; if anything is wrong, none.

    Args:
        model: A Keras model whose variables are in `variable_table`.
        weights: By TF1 name, without optimizer slots and step counter.
        where: Path of the checkpoint, for messages.
        allow_new_heads: Whether a head may be absent from the checkpoint, or
            be another task's there, of another shape; it then keeps the
            weights that it has.
        from_group_0: Whether every group of layers takes the weights of the
            checkpoint's first group; its other groups are not used.

    Returns:
        Sorted names of the arrays that belong to heads the model has not.

    Raises:
        ValueError: A variable is missing, left over or of another shape; the
            message names it.
    """
    variables = variable_names.variables_by_tf1_name(model.weights)
    if from_group_0:
        weights = _first_group_everywhere(variables, weights)
    if allow_new_heads:
        variables = _without_new_heads(variables, weights, where)
    unused = sorted(set(weights) - set(variables))
    unused_heads = [name for name in unused if variable_names.is_head(name)]
    _check_complete(where, variables, weights)
    _check_nothing_left(where, sorted(set(unused) - set(unused_heads)))
    _check_shapes(where, variables, weights)
    for name, variable in variables.items():
        variable.assign(weights[name])
    if unused_heads:
        _LOGGER.info("%s: not used: %s", where, ", ".join(unused_heads))
    return unused_heads


def _first_group_everywhere(
    names: Iterable[str], weights: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    kept = {name: weights[name] for name in weights if not _GROUP.search(name)}
    for name in names:
        source = _GROUP.sub("/group_0/", name)
        if source in weights:
            kept[name] = weights[source]
    return kept


def _without_new_heads(
    variables: Mapping[str, Any], weights: Mapping[str, np.ndarray], where: str
) -> dict[str, Any]:
    """Leaves out heads that are absent, or another task's: of other shape."""
    head_of = variable_names.head_of
    kept = {"", *map(head_of, weights)} - {
        head_of(name)
        for name, variable in variables.items()
        if name in weights and tuple(variable.shape) != weights[name].shape
    }
    new = [n for n in variables if head_of(n) and head_of(n) not in kept]
    if new:
        _LOGGER.info("%s: new heads: %s", where, ", ".join(new))
    return {n: v for n, v in variables.items() if n not in new}


def _check_complete(
    where: str, variables: Mapping[str, Any], weights: Mapping[str, np.ndarray]
) -> None:
    missing = sorted(set(variables) - set(weights))
    if not missing:
        return
    raise ValueError(
        f"Checkpoint {where!r} lacks {len(missing)} variables of the model: "
        f"{checkpoint.some(missing)}. {_advice(missing)}"
    )


def _advice(names: Iterable[str]) -> str:
    if all(variable_names.is_head(name) for name in names):
        return (
            "Take a checkpoint that has this head, or a model without it; or "
            "start it anew: --allow_new_heads, in Python allow_new_heads=True."
        )
    return "Use the config that the checkpoint was made with."


def _check_nothing_left(where: str, left_over: list[str]) -> None:
    if left_over:
        raise ValueError(
            f"Checkpoint {where!r} has {len(left_over)} variables that the "
            f"model has not: {checkpoint.some(left_over)}. Use the config "
            "that the checkpoint was made with."
        )


def _check_shapes(
    where: str, variables: Mapping[str, Any], weights: Mapping[str, np.ndarray]
) -> None:
    wrong = {
        name: f"{name} is {list(weights[name].shape)}, wanted "
        f"{list(variable.shape)}"
        for name, variable in variables.items()
        if tuple(variable.shape) != weights[name].shape
    }
    if wrong:
        raise ValueError(
            f"Checkpoint {where!r} has {len(wrong)} variables of another "
            f"shape than the model's: {checkpoint.some(wrong.values(), '; ')}. "
            f"{_advice(wrong)}"
        )
