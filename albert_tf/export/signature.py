"""One thing that a served model can be asked.

Floor: export.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

DEFAULT = "serving_default"
TOKENS = "tokens"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Signature:
    """A traced function, by the name that requests know it by.

    Args:
        name: Such as `serving_default`.
        function: Takes tensors by name, returns a dict of them.
        warmup: Inputs of a typical request; one for each kind of request
            that TF Serving shall run before it takes others.
    """

    name: str
    function: Any
    warmup: tuple[Mapping[str, np.ndarray], ...]


def trace(function: Any, **inputs: tf.TensorSpec) -> Any:
    """Traces a function of named inputs.

    The graph ends in an `InvalidArgumentError` for inputs of other shapes: the
    loader in C++ does not look at them, and such inputs might be answered.
    """

    def checked(**values: tf.Tensor) -> Any:
        return function(
            **{
                name: tf.ensure_shape(value, inputs[name].shape)
                for name, value in values.items()
            }
        )

    return tf.function(checked, autograph=False).get_concrete_function(
        **{
            name: tf.TensorSpec(spec.shape, spec.dtype, name=name)
            for name, spec in inputs.items()
        }
    )


def strings(*shape: int | None) -> tf.TensorSpec:
    """Returns the specification of an input of strings."""
    return tf.TensorSpec(shape, tf.string)


def integers(*shape: int | None) -> tf.TensorSpec:
    """Returns the specification of an input of int32 numbers."""
    return tf.TensorSpec(shape, tf.int32)
