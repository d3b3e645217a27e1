"""The feed-forward half of a block: H to F, activation, F to H.

Floor: modeling.

Source: google-research/albert, the second half of
`modeling.attention_ffn_block`.
"""

from typing import Any

import keras

from albert_tf import config as config_lib
from albert_tf.modeling import (
    activations,
    dropout,
    initialization,
    serialization,
)
from albert_tf.modeling.layer_norm import LayerNorm


@serialization.register
class FeedForwardSublayer(serialization.SerializableLayer):
    """Applies two linear layers, a residual connection, layer normalization.

    Args:
        config: Configuration of the model.
        seed: Seed of the initial weights.
        dtype: Keras dtype policy.
        name: Name of the layer.

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
        self.activation = activations.activation(config.hidden_act)
        self.intermediate = self._linear(
            "intermediate", config.intermediate_size
        )
        self.output_projection = self._linear("output", config.hidden_size)
        self.layer_norm = LayerNorm(config.hidden_size, dtype=self.dtype_policy)

    def _linear(self, name: str, units: int) -> keras.layers.Dense:
        return initialization.dense(
            units,
            stddev=self.config.initializer_range,
            seed=self.seed,
            name=name,
            dtype=self.dtype_policy,
        )

    def build(self, input_shape: Any = None) -> None:
        shape = (None, None, self.config.hidden_size)
        self.intermediate.build(shape)
        self.output_projection.build(
            (None, None, self.config.intermediate_size)
        )
        self.layer_norm.build(shape)

    def call(self, hidden: Any, seed: Any | None = None, site: int = 0) -> Any:
        inner = self.activation(self.intermediate(hidden))  # [B, S, F]
        output = dropout.dropout(
            self.output_projection(inner),
            rate=self.config.hidden_dropout_prob,
            seed=seed,
            site=site,
        )
        return self.layer_norm(hidden + output)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape
