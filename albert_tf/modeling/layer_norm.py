"""Layer normalization over the last axis, in float32 in every precision.

Floor: modeling.

Source: `tf.contrib.layers.layer_norm`, as google-research/albert calls it.
"""

from typing import Any

import keras
from keras import ops

from albert_tf.modeling import serialization

# TF1: contrib.layer_norm used 1e-12; the Keras default, 1e-3, moves every
# output of the published checkpoints.
LAYER_NORM_EPSILON = 1e-12


def layer_norm(inputs: Any, gamma: Any, beta: Any) -> Any:
    """Gives every row the mean `beta` and the standard deviation `gamma`.

    Args:
        inputs: Float tensor `[..., H]` of any float dtype.
        gamma: Float32 tensor `[H]`.
        beta: Float32 tensor `[H]`.

    Returns:
        Float32 tensor `[..., H]`.
    """
    inputs = ops.cast(inputs, "float32")
    centered = inputs - ops.mean(inputs, axis=-1, keepdims=True)
    variance = ops.mean(ops.square(centered), axis=-1, keepdims=True)
    return centered * ops.rsqrt(variance + LAYER_NORM_EPSILON) * gamma + beta


@serialization.register
class LayerNorm(serialization.SerializableLayer):
    """Normalizes rows, then applies a trainable scale and shift.

    Args:
        size: Width of a row, H.
        dtype: Keras dtype policy; weights and arithmetic are always float32.
        name: Name of the layer.

    Call arguments:
        inputs: Float tensor `[..., H]`.

    Returns:
        Float tensor `[..., H]` in the compute dtype.
    """

    def __init__(
        self, size: int, *, dtype: Any = None, name: str = "layer_norm"
    ) -> None:
        super().__init__(dtype=dtype, name=name)
        self.size = size

    def build(self, input_shape: Any = None) -> None:
        self.beta = self._add_float32("beta", "zeros")
        self.gamma = self._add_float32("gamma", "ones")

    def _add_float32(self, name: str, initializer: str) -> keras.Variable:
        return self.add_weight(
            name=name,
            shape=(self.size,),
            initializer=initializer,
            dtype="float32",
            autocast=False,
        )

    def call(self, inputs: Any) -> Any:
        outputs = layer_norm(inputs, self.gamma, self.beta)
        return ops.cast(outputs, self.compute_dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape
