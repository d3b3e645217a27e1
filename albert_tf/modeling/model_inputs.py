"""Checks the dict of tensors that a model is called with.

Keras would otherwise fail deep inside the model, or broadcast silently.

Floor: modeling.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spec:
    """One entry of the dict.

    Args:
        rank: Number of axes.
        dtype: Type in an exported signature. An `int32` accepts any integer
            or bool, a `float32` any number.
        is_required: Whether every call needs it.
    """

    rank: int = 2
    dtype: str = "int32"
    is_required: bool = True


def encoder_specs(rank: int = 2) -> dict[str, Spec]:
    """Returns the entries that an encoder takes; only the ids are required.

    Args:
        rank: Number of axes: 2, or 3 for several choices.
    """
    return {
        "input_ids": Spec(rank=rank),
        "input_mask": Spec(rank=rank, is_required=False),
        "segment_ids": Spec(rank=rank, is_required=False),
    }


def check(inputs: Any, specs: Mapping[str, Spec], model_name: str) -> None:
    """Checks what a model is called with, as far as it is known in a graph.

    Args:
        inputs: First argument of the call.
        specs: Entries that the model knows; others are not looked at.
        model_name: Name of the model's class, for messages.

    Raises:
        ValueError: `inputs` is not a dict, lacks an entry, or an entry is not
            a tensor of the expected rank and type.
    """
    required = [name for name, spec in specs.items() if spec.is_required]
    if not isinstance(inputs, Mapping):
        raise ValueError(
            f"`{model_name}` must be called on a dict of tensors. Received: "
            f"an object of type {type(inputs).__name__}. Pass a dict with "
            f"the keys {_listed(specs)}; `tokenizer.batch` makes one."
        )
    missing = [name for name in required if name not in inputs]
    if missing:
        raise ValueError(
            f"`{model_name}` needs the inputs {_listed(required)}. Received: "
            f"a dict with the keys {_listed(inputs)}. Add {_listed(missing)}."
        )
    for name in specs:
        if name in inputs:
            _check_tensor(name, inputs[name], specs[name])


def _check_tensor(name: str, value: Any, spec: Spec) -> None:
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        raise ValueError(
            f"`{name}` must be a tensor or a NumPy array. Received: an object "
            f"of type {type(value).__name__}. Convert it, for example with "
            f"np.array(..., dtype={spec.dtype!r})."
        )
    if len(value.shape) != spec.rank:
        raise ValueError(
            f"`{name}` must have rank {spec.rank}. Received: shape "
            f"{tuple(value.shape)}."
        )
    dtype = keras.backend.standardize_dtype(value.dtype)
    wants_integers = spec.dtype == "int32"
    if wants_integers and not dtype.startswith(("int", "uint", "bool")):
        raise ValueError(
            f"`{name}` must hold integers. Received: dtype {dtype!r}. Cast it "
            "to 'int32'."
        )


def _listed(names: Any) -> str:
    return ", ".join(map(repr, names)) or "(none)"
