"""The feed-forward half of a block: H to F, activation, F to H.

Source: google-research/albert, `modeling.get_activation` and the second half of
`modeling.attention_ffn_block`.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.modeling import Tensor, base, dropout, layers, operations

# Activation functions by the value of `hidden_act` in the config.
ACTIVATIONS: dict[str, Callable[..., Tensor]] = {
    "gelu": operations.gelu,
    "gelu_erf": operations.gelu_erf,
    "relu": ops.relu,
    "silu": ops.silu,
    "tanh": ops.tanh,
    "linear": keras.activations.linear,
}


class FeedForwardSublayer(base.AlbertLayer):
    """Applies two linear layers, a residual connection, layer normalization.

    Call arguments:
        hidden: Float tensor `[B, S, H]`.

    Returns:
        Float tensor `[B, S, H]` in the compute dtype.
    """

    def __init__(self, config: AlbertConfig, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        size, inner_size = config.hidden_size, config.intermediate_size  # H, F
        activation = ACTIVATIONS[config.hidden_act]
        self.intermediate = layers.dense(
            self, "intermediate", size, inner_size, activation=activation
        )
        self.output_projection = layers.dense(self, "output", inner_size, size)
        self.layer_norm = layers.LayerNorm(size, dtype=self.dtype_policy)

    def call(
        self,
        hidden: Tensor,
        seed: Tensor | None = None,
        dropout_index: int = 0,
    ) -> Tensor:
        inner = self.intermediate(hidden)  # [B, S, F]
        output = self.output_projection(inner)  # [B, S, H]
        rate = self.config.hidden_dropout_prob
        output = dropout.dropout(output, rate, seed, dropout_index)
        return self.layer_norm(hidden, output)
