"""The feed-forward half of a block: H to F, activation, F to H.

Source: google-research/albert, `modeling.get_activation` and the second half of
`modeling.attention_ffn_block`.
"""

import math
from collections.abc import Callable
from typing import Any

from keras import ops

from albert_tf import config as config_lib
from albert_tf.modeling import base, dropout, kernels, layers
from albert_tf.modeling.layers import LayerNorm

Activation = Callable[..., Any]

_GELU_SCALE = math.sqrt(2 / math.pi)
_GELU_CUBIC = 0.044715


def activation(name: str) -> Activation:
    """Returns one of the activation functions that `hidden_act` can name."""
    return _ACTIVATIONS[name]


@kernels.of_sum
def gelu(*addends: Any) -> Any:
    """Computes the Gaussian error linear unit of a sum, in its tanh form."""
    return kernels.apply(_gelu, _gelu_gradient, addends)


def _gelu(inputs: Any) -> Any:
    # TF1: every released model was trained with the tanh form; the exact one
    # (by erf) moves the outputs by 5e-4 of their largest value.
    return ops.gelu(inputs, approximate=True)


def _gelu_gradient(upstream: Any, output: Any, inputs: Any) -> list[Any]:
    # x (1 + tanh(z)) / 2 with z = sqrt(2 / pi) (x + c x^3).
    del output
    cubic = _GELU_CUBIC * inputs * inputs
    tanh = ops.tanh(_GELU_SCALE * inputs * (1 + cubic))
    slope = (1 - tanh * tanh) * _GELU_SCALE * (1 + 3 * cubic)
    return [upstream * (1 + tanh + inputs * slope) / 2]


_ACTIVATIONS: dict[str, Activation] = {
    "gelu": gelu,
    "relu": ops.relu,
    "tanh": ops.tanh,
    "linear": lambda inputs: inputs,
}


@base.register
class FeedForwardSublayer(base.SerializableLayer):
    """Applies two linear layers, a residual connection, layer normalization.

    Call arguments:
        hidden: Float tensor `[B, S, H]`.
        seed: Int tensor `[2]`, seed of the dropout mask; None drops nothing.
        site: Dropout site of this call.

    Returns:
        Float tensor `[B, S, H]` in the compute dtype.
    """

    def __init__(
        self,
        config: config_lib.AlbertConfig,
        *,
        seed: int,
        dtype: Any = None,
        name: str = "feed_forward",
    ) -> None:
        super().__init__(dtype=dtype, name=name)
        self.config = config
        self.seed = seed
        dense, size = layers.dense, config.hidden_size
        self.intermediate = dense(
            self,
            "intermediate",
            config.intermediate_size,
            activation=activation(config.hidden_act),
        )
        self.output_projection = dense(self, "output", size)
        self.layer_norm = LayerNorm(size, dtype=self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        shape = (None, None, self.config.hidden_size)
        self.intermediate.build(shape)
        self.output_projection.build(
            (None, None, self.config.intermediate_size)
        )
        self.layer_norm.build(shape)

    def call(self, hidden: Any, seed: Any | None = None, site: int = 0) -> Any:
        inner = self.intermediate(hidden)  # [B, S, F]
        output = dropout.dropout(
            self.output_projection(inner),
            rate=self.config.hidden_dropout_prob,
            seed=seed,
            site=site,
        )
        return self.layer_norm(hidden, output)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape
