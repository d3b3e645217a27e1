"""Sublayers that keep their inputs only, and compute the rest again.

A sublayer keeps many times its input for the gradient. One that is recomputed
keeps its input alone; its gradient first computes the sublayer once more.

The gradients of a weight that many blocks share are added one after the other,
as soon as each is known, not kept and added at the end: for xxlarge, twelve of
800 MB each.

Floor: modeling.

Source: Chen et al. 2016, "Training deep nets with sublinear memory cost".
"""

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops


class Recomputed:
    """Calls a layer once or more, recomputing it for each gradient.

    Args:
        layer: A layer that is built. It is called with a float tensor, and
            returns one.
    """

    def __init__(self, layer: keras.layers.Layer) -> None:
        self._layer = layer
        # As the next call finds them; see `_in_another_shape`.
        self._weights = [
            ops.convert_to_tensor(variable.value)
            for variable in layer.trainable_variables
        ]

    def __call__(self, hidden: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls the layer; only `hidden` and the weights have a gradient."""
        variables = self._layer.trainable_variables

        def call(hidden: Any, *weights: Any) -> Any:
            mapping = [
                (variable, ops.reshape(weight, variable.shape))
                for variable, weight in zip(variables, weights, strict=True)
            ]
            with keras.StatelessScope(state_mapping=mapping):
                return self._layer(hidden, *args, **kwargs)

        output = keras.remat(call)(hidden, *self._weights)
        self._weights = [
            _in_another_shape(weight, variable.shape)
            for variable, weight in zip(variables, self._weights, strict=True)
        ]
        return output


def _in_another_shape(weight: Any, shape: Sequence[int]) -> Any:
    """Returns a weight of some shape as a row, and a row in that shape.

    It is another tensor, so its gradient is the sum of two: those of one call,
    and of all later ones. A chain of sums of one shape would not do: TensorFlow
    makes one sum of it, which waits for the gradients of all calls.
    """
    size = math.prod(shape)
    row = (1, size)
    return ops.reshape(weight, shape if tuple(weight.shape) == row else row)
