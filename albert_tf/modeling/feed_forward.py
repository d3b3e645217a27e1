"""The feed-forward half of a block: H to F, activation, F to H.

Source: google-research/albert, `modeling.get_activation` and the second half of
`modeling.attention_ffn_block`.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from albert_tf import config as config_lib
from albert_tf.modeling import base, dropout, fused, layers
from albert_tf.modeling.layers import LayerNorm

# The functions that `hidden_act` can name.
ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "gelu": fused.gelu,
    "relu": ops.relu,
    "tanh": ops.tanh,
    "linear": keras.activations.linear,
}


@base.register
class FeedForwardSublayer(base.AlbertLayer):
    """Applies two linear layers, a residual connection, layer normalization.

    Call arguments:
        hidden: Float tensor `[B, S, H]`.

    Returns:
        Float tensor `[B, S, H]` in the compute dtype.
    """

    default_name = "feed_forward"

    def __init__(self, config: config_lib.AlbertConfig, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        size, inner_size = config.hidden_size, config.intermediate_size
        self.intermediate = layers.dense(
            self,
            "intermediate",
            size,
            inner_size,
            activation=ACTIVATIONS[config.hidden_act],
        )
        self.output_projection = layers.dense(self, "output", inner_size, size)
        self.layer_norm = LayerNorm(size, dtype=self.dtype_policy)

    def call(
        self,
        hidden: Any,
        seed: Any | None = None,
        site: int = 0,
        fusion: fused.Fusion | None = None,
    ) -> Any:
        inner = self.intermediate(hidden, fusion=fusion)  # [B, S, F]
        output = self.output_projection(inner, fusion=fusion)  # [B, S, H]
        output = dropout.dropout(
            output, rate=self.config.hidden_dropout_prob, seed=seed, site=site
        )
        return self.layer_norm(hidden, output, fusion=fusion)
