"""Sublayers that keep their inputs only, and compute the rest again.

A sublayer keeps many times its input for the gradient. One that is recomputed
keeps its input alone; its gradient first computes the sublayer once more.

The gradients of a weight that many blocks share are added one after the other,
as soon as each is known. A back end would keep them all, and add them at the
end: for xxlarge, twelve of 800 MB each.

Floor: modeling.

Source: Chen et al. 2016, "Training deep nets with sublinear memory cost".
"""

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
        # As the next call finds them; see `_passed_on`.
        self._weights = [
            ops.convert_to_tensor(variable.value)
            for variable in layer.trainable_variables
        ]

    def __call__(self, hidden: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls the layer; only `hidden` and the weights have a gradient."""

        def call(hidden: Any, *weights: Any) -> Any:
            mapping = zip(self._layer.trainable_variables, weights, strict=True)
            with keras.StatelessScope(state_mapping=[*mapping]):
                return self._layer(hidden, *args, **kwargs)

        output = keras.remat(call)(hidden, *self._weights)
        self._weights = [_passed_on(weight) for weight in self._weights]
        return output


@ops.custom_gradient
def _passed_on(weight: Any) -> Any:
    """Returns a weight as another tensor.

    So its gradient is the sum of two: those of one call, and of all later ones.
    """

    def grad(*args: Any, upstream: Any = None) -> Any:
        return args[0] if upstream is None else upstream

    return weight, grad
