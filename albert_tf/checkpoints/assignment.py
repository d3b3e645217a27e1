"""Arrays into the variables of a model: all of them, or none.

Floor: checkpoints.
"""

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from albert_tf.checkpoints import checkpoint, variable_names

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
