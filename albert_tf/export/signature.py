"""One thing that a served model can be asked.

Floor: export.

Checks of what a request holds, and the requests that warm a model up.

Floor: export.
"""

import dataclasses
from collections.abc import Mapping, Sequence
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


WARMUP_BATCHES = (1, 8)
_WARMUP_LENGTH = 32
ID_INPUTS = ("input_ids", "input_mask", "segment_ids")


def same_size(**texts: tf.Tensor) -> list[tf.Tensor]:
    """Returns inputs `[B, ...]`, after a check that their B is the same.

    In the graph, others end in an `InvalidArgumentError`.
    """
    sizes = [tf.shape(values)[0] for values in texts.values()]
    checks = [
        tf.Assert(
            tf.equal(size, sizes[0]),
            [
                f"{' and '.join(texts)} must have as many strings. Received:",
                *sizes,
            ],
        )
        for size in sizes[1:]
    ]
    with tf.control_dependencies(checks):
        return [tf.identity(values) for values in texts.values()]


def text_requests(
    **texts: str | Sequence[str],
) -> tuple[dict[str, np.ndarray], ...]:
    """Returns requests of one text for each input, in batches."""
    return tuple(
        {name: np.array([text] * batch, object) for name, text in texts.items()}
        for batch in WARMUP_BATCHES
    )


def id_requests(
    *inner: int, **others: Sequence[int]
) -> tuple[Mapping[str, Any], ...]:
    """Returns requests of ids, in batches.

    Args:
        *inner: Sizes between batch and sequence, such as of the choices.
        **others: Another input of each row.
    """
    requests = []
    for batch in WARMUP_BATCHES:
        ones = np.ones((batch, *inner, _WARMUP_LENGTH), np.int32)
        request = {name: ones for name in ID_INPUTS}
        request["segment_ids"] = ones * 0
        for name, row in others.items():
            request[name] = np.array([row] * batch, np.int32)
        requests.append(request)
    return tuple(requests)
