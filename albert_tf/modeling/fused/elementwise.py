"""Linear layer, GELU and layer normalization.

Source: google-research/albert, `modeling.gelu`, and its calls of
`tf.contrib.layers.layer_norm`.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from albert_tf.modeling.fused.fusion import Fusion, add_plainly, row_sums

# TF1: contrib.layer_norm used 1e-12; the Keras default, 1e-3, moves every
# output of the published checkpoints.
LAYER_NORM_EPSILON = 1e-12

_GELU_SCALE = math.sqrt(2 / math.pi)
_GELU_CUBIC = 0.044715


def linear(
    inputs: Any,
    kernel: Any,
    bias: Any | None = None,
    *,
    activation: Callable[..., Any] = keras.activations.linear,
    fusion: Fusion | None = None,
) -> Any:
    """Applies a linear map to vectors, and an activation to its outputs.

    Args:
        inputs: Float tensor `[..., in]`.
        kernel: Float tensor `[in, out]` of any dtype.
        bias: Float tensor `[out]` of any dtype.
        activation: A function of one tensor.
        fusion: How to compute, see `Fusion`.

    Returns:
        Float tensor `[..., out]` in the dtype of `inputs`.
    """
    *leading, size = ops.shape(inputs)
    shape = (*leading, kernel.shape[-1])
    rows = ops.reshape(inputs, (-1, size))
    outputs = ops.matmul(rows, ops.cast(kernel, inputs.dtype))
    # Without a change of shape between them, TensorFlow computes product, bias
    # and activation in one kernel. That pays for an activation alone.
    is_linear = activation is keras.activations.linear
    if is_linear or (fusion and fusion.fuses(inputs)):
        outputs = ops.reshape(outputs, shape)
    if bias is not None:
        if not (fusion and fusion.fuses(outputs)):
            outputs = ops.add(outputs, ops.cast(bias, outputs.dtype))
        elif activation is gelu:
            return ops.reshape(gelu(outputs, bias, fusion=fusion), shape)
        else:
            outputs = fusion.add(outputs, bias)
    return ops.reshape(activation(outputs), shape)


# TF1: every released model was trained with the tanh form; the exact one (by
# erf) moves the outputs by 5e-4 of their largest value.
_gelu = functools.partial(ops.gelu, approximate=True)


def gelu(
    inputs: Any, bias: Any | None = None, *, fusion: Fusion | None = None
) -> Any:
    """Computes the Gaussian error linear unit of `inputs` and a bias `[H]`."""
    addends = [inputs] if bias is None else [inputs, bias]
    if fusion and fusion.fuses(inputs):
        return fusion.call_on_sum(_gelu, _gelu_gradient, addends)
    return _gelu(inputs if bias is None else add_plainly(inputs, bias))


def _gelu_gradient(upstream: Any, output: Any, inputs: Any) -> list[Any]:
    # x (1 + tanh(z)) / 2 with z = sqrt(2 / pi) (x + c x^3).
    del output
    cubic = _GELU_CUBIC * inputs * inputs
    tanh = ops.tanh(_GELU_SCALE * inputs * (1 + cubic))
    slope = (1 - tanh * tanh) * _GELU_SCALE * (1 + 3 * cubic)
    return [upstream * (1 + tanh + inputs * slope) / 2]


def add_and_normalize(
    *addends: Any, gamma: Any, beta: Any, fusion: Fusion | None = None
) -> Any:
    """Gives every row of a sum the mean `beta` and the deviation `gamma`.

    Args:
        *addends: Float tensors `[..., H]` of any float dtype; the arithmetic
            is in float32.
        gamma: Float32 tensor `[H]`.
        beta: Float32 tensor `[H]`.
        fusion: How to compute, see `Fusion`.

    Returns:
        Tensor of the shape and dtype of the first addend.
    """
    if fusion and fusion.fuses(addends[0]):
        return fusion.call_on_sum(
            _normalize_in_kernel, _normalize_gradient, addends, gamma, beta
        )
    inputs = add_plainly(*addends)
    standard, _ = _standardize(inputs, _row_means)
    return ops.cast(standard * gamma + beta, inputs.dtype)


def _standardize(inputs: Any, row_means: Callable[[Any], Any]) -> Any:
    """Returns rows of mean 0 and deviation 1, and what they were scaled by."""
    inputs = ops.cast(inputs, "float32")
    centered = inputs - row_means(inputs)
    variance = row_means(ops.square(centered))
    scale = ops.rsqrt(variance + LAYER_NORM_EPSILON)
    return centered * scale, scale


_row_means = functools.partial(ops.mean, axis=-1, keepdims=True)


def _row_means_in_kernel(tensor: Any) -> Any:
    return row_sums(tensor) / tensor.shape[-1]


def _normalize_in_kernel(inputs: Any, gamma: Any, beta: Any) -> Any:
    standard, _ = _standardize(inputs, _row_means_in_kernel)
    return standard * gamma + beta


def _normalize_gradient(
    upstream: Any, output: Any, inputs: Any, gamma: Any, beta: Any
) -> list[Any]:
    del output, beta
    standard, scale = _standardize(inputs, _row_means_in_kernel)
    # The part of the gradient that changes neither mean nor deviation.
    gradient = upstream * gamma
    mean = _row_means_in_kernel(gradient)
    along = _row_means_in_kernel(gradient * standard)
    gradient = (gradient - mean - along * standard) * scale
    return [gradient, upstream * standard, upstream]
