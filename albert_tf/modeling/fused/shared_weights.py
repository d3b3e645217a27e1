"""Calls of a layer whose weights several blocks share.

In a lower precision, its matrices are cast once for all calls, and their
gradients of all calls are added in float32.

A call that is recomputed keeps its input alone; its gradient first computes
the call once more. Then the gradients of a matrix are added one after the
other, as soon as each is known, not kept and added at the end: for xxlarge in
float32, twelve of 800 MB each.

A variable with three axes has a matrix for each call, see `adapters`.

Source: Chen et al. 2016, "Training deep nets with sublinear memory cost".
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
from keras import ops

from albert_tf.modeling.fused.fusion import (
    Fusion,
    add_up,
    fan_out,
    upstreams,
)

LayerCall = Callable[..., Any]


def calls(
    layers: Sequence[keras.layers.Layer],
    order: Sequence[int],
    *,
    recompute: bool = False,
    fusion: Fusion | None = None,
) -> list[LayerCall]:
    """Returns the calls of some layers, in the order in which they are made.

    Args:
        layers: Layers that are built.
        order: Index of the layer of each call.
        recompute: Whether each call is computed again for its gradient.
        fusion: How to add gradients, see `Fusion`.

    Returns:
        A function for each element of `order`, called as the layer is, once.
        If it recomputes, only the first argument and the weights have a
        gradient, and the layer must return a tensor.
    """
    by_layer = {}
    for index in set(order):
        by_layer[index] = _layer_call(
            layers[index], order.count(index), recompute, fusion
        )
    return [by_layer[index] for index in order]


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


def _layer_call(
    layer: keras.layers.Layer,
    num_calls: int,
    recompute: bool,
    fusion: Fusion | None,
) -> LayerCall:
    is_cast = layer.compute_dtype != layer.variable_dtype
    if not (recompute or is_cast or any(map(is_stack, layer.variables))):
        return layer
    dtype = _dtype_of_matrices(layer)
    add_gradients = _one_by_one if recompute else _all_at_once
    copies = [
        iter(ops.unstack(ops.cast(variable, dtype)))
        if is_stack(variable)
        else add_gradients(
            variable.value,
            dtype if _is_float_matrix(variable) else variable.dtype,
            num_calls,
            fusion,
        )
        for variable in layer.variables
    ]
    call = _call_recomputed if recompute else _call

    def call_next(*args: Any, **kwargs: Any) -> Any:
        output, *losses = call(layer, [*map(next, copies)], *args, **kwargs)
        layer.add_loss(losses)
        return output

    return call_next


def _dtype_of_matrices(layer: keras.layers.Layer) -> str:
    """Returns the dtype in which all parts of a layer use their matrices.

    If a part has its own, or LoRA adds to a matrix, that of the variables.
    """
    dtypes = {
        part.variable_dtype
        if getattr(part, "lora_enabled", False)
        else part.compute_dtype
        for part in layer._flatten_layers()
    }
    return dtypes.pop() if len(dtypes) == 1 else layer.variable_dtype


def _is_float_matrix(variable: keras.Variable) -> bool:
    is_float = keras.backend.is_float_dtype(variable.dtype)
    return is_float and len(variable.shape) > 1


def is_stack(variable: Any) -> bool:
    """Returns whether a variable has a matrix for each call."""
    return len(variable.shape) == 3


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


def _all_at_once(
    weight: Any, dtype: str, num_copies: int, fusion: Fusion | None
) -> Iterator[Any]:
    """Returns copies of a weight whose gradients are added in one kernel."""
    if weight.dtype == dtype:
        return itertools.repeat(weight)
    return iter(fan_out(weight, num_copies, fusion, dtype))


def _one_by_one(
    weight: Any, dtype: str, num_copies: int, fusion: Fusion | None
) -> Iterator[Any]:
    """Returns copies of a weight; the gradient of each is added to a sum.

    The last copy that is used has the first gradient.
    """
    value = ops.stop_gradient(ops.cast(weight, dtype))
    rest = weight
    use_once = _use_once(fusion)
    for _ in range(num_copies - 1):
        copy, rest = use_once(value, rest)
        yield copy
    yield ops.reshape(ops.cast(rest, dtype), weight.shape)


def _use_once(fusion: Fusion | None) -> Callable[..., Any]:
    """Returns a function of a weight for one call, and for all later calls.

    It takes the weight in the compute dtype, and in float32, in its shape or
    as one row. It returns the first, and the second in the other of the two
    shapes. A chain of sums of one shape would not do: TensorFlow makes one sum
    of it, which waits for the gradients of all calls.
    """

    @ops.custom_gradient
    def use_once(value: Any, rest: Any) -> Any:
        def grad(*args: Any, upstream: Any = None) -> Any:
            of_call, of_rest = upstreams(args, upstream)
            shape = rest.shape
            both = [ops.reshape(of_call, shape), ops.reshape(of_rest, shape)]
            return ops.zeros_like(value), add_up(both, fusion)

        row = (1, math.prod(value.shape))
        is_row = tuple(rest.shape) == row
        return (value, ops.reshape(rest, value.shape if is_row else row)), grad

    return use_once
