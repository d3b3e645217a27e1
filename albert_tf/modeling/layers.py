"""The elementary layers: linear layers, layer normalization, output layers.

A model has one seed, and each layer derives the seeds of its parts from its
own seed and their names. So the initial value of a variable depends only on
the seed of the model and on the path of the variable.

Source: google-research/albert, `modeling.create_initializer`;
`run_pretraining.get_sentence_order_output`, `classifier_utils.create_model` and
`squad_utils.create_v1_model` for output layers.
"""

import hashlib
from typing import Any

import keras
from keras import ops

from albert_tf.modeling import Tensor, base
from albert_tf.modeling.operations import PLAIN, Operations

# TF1: fine-tuning heads do not use `initializer_range`.
TASK_STDDEV = 0.02


def derive_seed(seed: int, name: str) -> int:
    """Returns the seed, below 2**31, of a named part of a layer or model."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).hexdigest()
    return int(digest[:8], 16) % 2**31


def truncated_normal(
    stddev: float, *, seed: int, name: str
) -> keras.initializers.Initializer:
    """Returns an initializer; values beyond 2 `stddev` are drawn again."""
    return keras.initializers.TruncatedNormal(
        stddev=stddev, seed=derive_seed(seed, name)
    )


@base.register
class Linear(keras.layers.Dense):
    """A `Dense` layer that is computed by `Operations.linear`.

    The weights are cast where they are used, not where they are read, so that
    a training step can cast a matrix once for many calls.
    """

    input_width: int  # set by `dense`
    # Whether to refuse quantization.
    stays_float: bool = False
    # See `base.SerializableLayer`.
    operations: Operations = PLAIN

    def add_weight(self, *args: object, **kwargs: object) -> keras.Variable:
        return super().add_weight(*args, **(kwargs | {"autocast": False}))

    def call(self, inputs: Tensor) -> Tensor:
        return self.operations.linear(
            inputs, self.kernel, self.bias, activation=self.activation
        )

    def quantize(self, mode: object = None, **options: object) -> None:
        if self.stays_float:
            raise NotImplementedError(f"{self.name!r} stays float32.")
        # Keras refuses subclasses of `Dense`; this one has the same weights.
        super().quantize(mode, **(options | {"type_check": False}))

    def quantized_call(self, inputs: Tensor) -> Tensor:
        return ops.cast(super().quantized_call(inputs), self.compute_dtype)


def dense(
    parent: Any, name: str, input_width: int, units: int, **options: Any
) -> Linear:
    """Returns a linear layer for `parent` to contain.

    The parent gives dtype policy, seed and standard deviation of the kernel,
    `[input_width, units]`; the bias starts at 0. `options` go to `Dense`.
    """
    stddev, seed = parent.config.initializer_range, parent.seed
    layer = Linear(
        units,
        kernel_initializer=truncated_normal(
            stddev, seed=derive_seed(seed, name), name="kernel"
        ),
        dtype=parent.dtype_policy,
        name=name,
        **options,
    )
    layer.input_width = input_width
    return layer


class LayerNorm(base.SerializableLayer):
    """Adds up float tensors, then normalizes, scales and shifts each row.

    The tensors are `[..., size]`, H or E wide. The scale, `gamma`, and shift,
    `beta`, are trainable. Weights and arithmetic are always float32.
    """

    def __init__(
        self, size: int, *, dtype: object = None, name: str = "layer_norm"
    ) -> None:
        super().__init__(dtype=dtype, name=name)
        self.size = self.input_width = size

    def build(self, input_shape: object = None) -> None:
        self.beta, self.gamma = (
            self.add_weight(
                (self.size,), initial, "float32", autocast=False, name=name
            )
            for name, initial in (("beta", "zeros"), ("gamma", "ones"))
        )

    def call(self, inputs: Tensor, *others: Tensor) -> Tensor:
        return self.operations.add_and_normalize(
            inputs, *others, gamma=self.gamma, beta=self.beta
        )


def output_layer(parent: Any, name: str, units: int) -> "OutputLayer":
    """Returns the output layer of a fine-tuning model, `parent`.

    It is float32 in every precision: bfloat16 has only 128 values from 2 to 4,
    so that logits would tie.
    """
    return OutputLayer(
        units,
        hidden_size=parent.config.hidden_size,
        seed=derive_seed(parent.seed, name),
        dtype="float32",
        name=name,
    )


class OutputLayer(base.SerializableLayer):
    """Computes float32 logits by a linear layer, `[..., H]` to `[..., K]`.

    `units` is K, `stddev` the standard deviation of the initial weights.
    """

    def __init__(
        self,
        units: int,
        *,
        hidden_size: int,
        stddev: float = TASK_STDDEV,
        seed: int,
        dtype: object = None,
        name: str,
    ) -> None:
        super().__init__(dtype=dtype, name=name)
        self.units = units
        self.hidden_size = self.input_width = hidden_size
        self.stddev = stddev
        self.seed = seed

    def build(self, input_shape: object = None) -> None:
        # TF1: `[out, in]`, unlike the kernel of a linear layer.
        name = "output_weights"
        initial = truncated_normal(self.stddev, seed=self.seed, name=name)
        shape = (self.units, self.hidden_size)
        self.output_weights = self.add_weight(shape, initial, name=name)
        name = "output_bias"
        self.output_bias = self.add_weight(
            (self.units,), "zeros", "float32", autocast=False, name=name
        )

    def call(self, inputs: Tensor) -> Tensor:
        logits = ops.matmul(inputs, ops.transpose(self.output_weights))
        return ops.cast(logits, "float32") + self.output_bias

    def compute_output_shape(self, input_shape: Any) -> Any:
        return (*input_shape[:-1], self.units)


def gather_positions(sequence: Tensor, positions: Tensor) -> Tensor:
    """Returns vectors `[B, P, H]` of `[B, S, H]` at int positions `[B, P]`."""
    batch, length, width = ops.shape(sequence)
    offsets = ops.arange(batch, dtype=positions.dtype)[:, None] * length
    flat = ops.reshape(sequence, (batch * length, width))
    return ops.take(flat, positions + offsets, axis=0)
