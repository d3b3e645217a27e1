"""Calls of a layer whose weights several blocks share.

In a lower precision, its matrices are cast once for all calls, and their
gradients of all calls are added in float32.

A call that is recomputed keeps its input alone; its gradient first computes
the call once more. Then the gradients of a matrix are added one after the
other, as soon as each is known, not kept and added at the end: for xxlarge in
float32, twelve of 800 MB each.

Source: Chen et al. 2016, "Training deep nets with sublinear memory cost".
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
from keras import ops

from albert_tf.modeling import kernels

LayerCall = Callable[..., Any]


def calls(
    layers: Sequence[keras.layers.Layer],
    order: Sequence[int],
    *,
    recomputes: bool,
) -> list[LayerCall]:
    """Returns the calls of some layers, in the order in which they are made.

    Args:
        layers: Layers that are built.
        order: Index of the layer of each call.
        recomputes: Whether each call is computed again for its gradient.

    Returns:
        A function for each element of `order`, called as the layer is, once.
        If it recomputes, only the first argument and the weights have a
        gradient, and the layer must return a tensor.
    """
    of_layers = [
        _calls_of_one(layer, order.count(index), recomputes=recomputes)
        for index, layer in enumerate(layers)
    ]
    return [of_layers[index] for index in order]


def _calls_of_one(
    layer: keras.layers.Layer, num_calls: int, *, recomputes: bool
) -> LayerCall:
    dtype = _dtype_of_matrices(layer)
    if not recomputes and dtype == layer.variable_dtype:
        return layer
    add_gradients = _one_by_one if recomputes else _all_at_once
    copies = [
        add_gradients(
            weight, dtype if len(weight.shape) > 1 else weight.dtype, num_calls
        )
        for weight in (variable.value for variable in layer.variables)
    ]
    call = _call_recomputed if recomputes else _call

    def call_next(*args: Any, **kwargs: Any) -> Any:
        output, *losses = call(layer, [*map(next, copies)], *args, **kwargs)
        layer.add_loss(losses)
        return output

    return call_next


def _dtype_of_matrices(layer: keras.layers.Layer) -> str:
    """Returns the dtype in which all parts of a layer use their matrices.

    If a part has a precision of its own, that of the variables.
    """
    dtypes = {part.compute_dtype for part in layer._flatten_layers()}
    return dtypes.pop() if len(dtypes) == 1 else layer.variable_dtype


def in_place_of(
    variables: Sequence[keras.Variable], values: Sequence[Any]
) -> keras.StatelessScope:
    """Returns a context in which values are read instead of variables.

    They are tensors or TensorFlow's variables, of any float dtype.
    """
    scope = keras.StatelessScope(collect_losses=True)
    for variable, value in zip(variables, values, strict=True):
        # As an argument of the scope, it would be cast to float32.
        scope.add_update((variable, value))
    return scope


def _call(
    layer: keras.layers.Layer, weights: Sequence[Any], *args: Any, **kwargs: Any
) -> list[Any]:
    """Returns the output of a layer, and the losses that it has added."""
    with in_place_of(layer.variables, weights) as scope:
        output = layer(*args, **kwargs)
    return [output, *scope.losses]


def _call_recomputed(
    layer: keras.layers.Layer,
    weights: Sequence[Any],
    hidden: Any,
    *args: Any,
    **kwargs: Any,
) -> list[Any]:
    def call(hidden: Any, *weights: Any) -> list[Any]:
        return _call(layer, weights, hidden, *args, **kwargs)

    return keras.remat(call)(hidden, *weights)


def _all_at_once(weight: Any, dtype: str, num_copies: int) -> Iterator[Any]:
    """Returns copies of a weight whose gradients are added in one kernel."""
    if weight.dtype == dtype:
        return itertools.repeat(weight)
    return iter(kernels.copies(weight, num_copies, dtype))


def _one_by_one(weight: Any, dtype: str, num_copies: int) -> Iterator[Any]:
    """Returns copies of a weight; the gradient of each is added to a sum.

    The last copy that is used has the first gradient.
    """
    value = ops.stop_gradient(ops.cast(weight, dtype))
    rest = weight
    for _ in range(num_copies - 1):
        copy, rest = _take(value, rest)
        yield copy
    yield ops.reshape(ops.cast(rest, dtype), weight.shape)


@ops.custom_gradient
def _take(value: Any, rest: Any) -> Any:
    """Returns a weight for one call, and the same for all later calls.

    Args:
        value: The weight in the compute dtype.
        rest: The weight in float32, in its shape or as one row.

    Returns:
        `value`, and `rest` in the other of the two shapes. A chain of sums of
        one shape would not do: TensorFlow makes one sum of it, which waits for
        the gradients of all calls.
    """

    def grad(*args: Any, upstream: Any = None) -> Any:
        own, later = kernels.upstreams(args, upstream)
        shape = rest.shape
        both = [ops.reshape(own, shape), ops.reshape(later, shape)]
        return ops.zeros_like(value), kernels.add_up(both)

    row = (1, math.prod(value.shape))
    is_row = tuple(rest.shape) == row
    return (value, ops.reshape(rest, value.shape if is_row else row)), grad
