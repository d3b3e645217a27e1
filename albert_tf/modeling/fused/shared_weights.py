"""Calls of a layer whose weights several blocks share.

In a lower precision, its matrices are cast once for all calls, and their
gradients of all calls are added in float32.

A call that is recomputed keeps its input alone; its gradient first computes
the call once more. Then the gradients of a matrix are added one after the
other, as soon as each is known, not kept and added at the end: for xxlarge in
float32, twelve of 800 MB each.

Source: Chen et al. 2016, "Training deep nets with sublinear memory cost".
"""

import functools
import math
from collections.abc import Sequence

import keras
from keras import ops

from albert_tf.modeling import Tensor
from albert_tf.modeling.fused.fusion import (
    Fusion,
    add_up,
    copy_for_gradients,
    custom_gradient,
)
from albert_tf.modeling.operations import Function


def calls(
    layers: Sequence[keras.layers.Layer],
    order: Sequence[int],
    fusion: Fusion,
    recompute: bool = False,
) -> list[Function]:
    """Returns the passes of layers, which are built, for indices in `order`.

    Each is called as its layer is. With `recompute`, it is computed again for
    its gradient, which only its first argument and its weights have, and the
    layer must return a tensor. `fusion` adds gradients.
    """
    passes = {
        index: iter(
            _passes(layers[index], order.count(index), recompute, fusion)
        )
        for index in set(order)
    }
    return [next(passes[index]) for index in order]


def in_place_of(
    variables: Sequence[keras.Variable], values: Sequence[Tensor]
) -> keras.StatelessScope:
    """Returns a context in which values are read instead of variables.

    They are tensors or TensorFlow's variables, of any float dtype.
    """
    scope = keras.StatelessScope(collect_losses=True)
    for variable, value in zip(variables, values, strict=True):
        # As an argument of the scope, it would be cast to float32.
        scope.add_update((variable, value))
    return scope


def _passes(
    layer: keras.layers.Layer,
    num_passes: int,
    recompute: bool,
    fusion: Fusion,
) -> list[Function]:
    is_cast = layer.compute_dtype != layer.variable_dtype
    if not (recompute or is_cast):
        return [layer] * num_passes
    dtype = _dtype_of_matrices(layer)
    copies_of = _one_by_one if recompute else copy_for_gradients
    weights = [
        copies_of(
            variable.value,
            num_passes,
            fusion,
            dtype if _is_float_matrix(variable) else variable.dtype,
        )
        for variable in layer.variables
    ]
    return [
        functools.partial(_call, layer, of_pass, recompute)
        for of_pass in zip(*weights, strict=True)
    ]


def _call(
    layer: keras.layers.Layer,
    weights: Sequence[Tensor],
    recompute: bool,
    hidden: Tensor,
    *args: object,
    **kwargs: object,
) -> Tensor:
    """Calls a layer with weights in place of its variables."""

    def call(hidden: Tensor, *weights: Tensor) -> list[Tensor]:
        with in_place_of(layer.variables, weights) as scope:
            output = layer(hidden, *args, **kwargs)
        return [output, *scope.losses]

    run = keras.remat(call) if recompute else call
    output, *losses = run(hidden, *weights)
    layer.add_loss(losses)
    return output


def _dtype_of_matrices(layer: keras.layers.Layer) -> str:
    """Returns the dtype in which all parts of a layer use their matrices.

    If a part has its own, or LoRA adds to a matrix, that of the variables.
    """
    dtypes: set[str] = {
        inner.variable_dtype
        if getattr(inner, "lora_enabled", False)
        else inner.compute_dtype
        for inner in layer._flatten_layers()
    }
    return dtypes.pop() if len(dtypes) == 1 else str(layer.variable_dtype)


def _is_float_matrix(variable: keras.Variable) -> bool:
    is_float = keras.backend.is_float_dtype(variable.dtype)
    return is_float and len(variable.shape) > 1


def _one_by_one(
    weight: Tensor, num_copies: int, fusion: Fusion, dtype: str
) -> list[Tensor]:
    """Returns copies of a weight; the gradient of each is added to a sum.

    The last copy that is used has the first gradient. The sum is in the shape
    of the weight and as one row by turns: TensorFlow makes one sum of a chain
    of sums of one shape, which waits for the gradients of all calls.
    """
    row = (1, math.prod(weight.shape))

    @custom_gradient
    def use_once(value: Tensor, rest: Tensor) -> Tensor:
        def grad(of_call: Tensor, of_rest: Tensor) -> Tensor:
            shape = rest.shape
            both = [ops.reshape(of_call, shape), ops.reshape(of_rest, shape)]
            return ops.zeros_like(value), add_up(both, fusion)

        is_row = tuple(rest.shape) == row
        return (value, ops.reshape(rest, value.shape if is_row else row)), grad

    value = ops.stop_gradient(ops.cast(weight, dtype))
    rest = weight
    copies = []
    for _ in range(num_copies - 1):
        copy, rest = use_once(value, rest)
        copies.append(copy)
    return [*copies, ops.reshape(ops.cast(rest, dtype), weight.shape)]
