"""Multi-head self-attention, the first half of a block.

Source: Vaswani et al. 2017, section 3.2; google-research/albert,
`modeling.attention_layer` and the first half of `attention_ffn_block`.
"""

import functools
from collections.abc import Sequence
from typing import Any

from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.modeling import Tensor, base, dropout, fused, layers
from albert_tf.modeling.fused import Fusion
from albert_tf.modeling.layers import LayerNorm


@base.register
class AttentionSublayer(base.AlbertLayer):
    """Applies self-attention, a residual connection and layer normalization.

    Query, key and value have separate kernels, not one wide kernel, because
    LAMB computes its trust ratio for each variable.

    Call arguments:
        hidden: Float tensor `[B, S, H]`.
        attention_mask: Int tensor `[B, 1, 1, S]` or `[B, 1, S, S]`, 1 where a
            key may be attended to. Integer, so that Keras does not cast it to
            a lower precision.
        output_positions: Int tensor `[B, Q]`, those to compute; None for all.

    Returns:
        Float tensor `[B, S, H]`, or `[B, Q, H]`, in the compute dtype.
    """

    def __init__(self, config: AlbertConfig, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        size = config.hidden_size
        self.query = layers.dense(self, "query", size, size)
        self.key = layers.dense(self, "key", size, size)
        self.value = layers.dense(self, "value", size, size)
        # `output` is taken: a property of every Keras layer.
        self.output_projection = layers.dense(self, "output", size, size)
        self.layer_norm = LayerNorm(size, dtype=self.dtype_policy)

    def call(
        self,
        hidden: Tensor,
        attention_mask: Tensor,
        seed: Tensor | None = None,
        dropout_index: int = 0,
        fusion: Fusion | None = None,
        output_positions: Tensor | None = None,
    ) -> Tensor:
        residual, *inputs = fused.copy_for_gradients(
            hidden, 4, fusion
        )  # [B, S, H]
        if output_positions is not None:
            residual = layers.gather_positions(
                residual, output_positions
            )  # [B, Q, H]
        attended = self.attend(
            inputs,
            attention_mask,
            output_positions,
            seed=seed,
            dropout_index=dropout_index,
            fusion=fusion,
        )
        output = self.output_projection(attended, fusion=fusion)
        output = dropout.dropout(
            output,
            rate=self.config.hidden_dropout_prob,
            seed=seed,
            dropout_index=dropout_index + 1,
        )
        return self.layer_norm(residual, output, fusion=fusion)

    def attend(
        self,
        inputs: Sequence[Tensor],
        attention_mask: Tensor,
        output_positions: Tensor | None,
        *,
        fusion: Fusion | None,
        **options: Any,
    ) -> Tensor:
        """Computes attention, `[B, Q, H]`.

        The inputs are those of query, key and value, each `[B, S, H]`.
        """
        to_query, to_key, to_value = inputs
        if output_positions is not None:
            to_query = layers.gather_positions(to_query, output_positions)
        query = self.query(to_query, fusion=fusion)
        key = self.key(to_key, fusion=fusion)
        value = self.value(to_value, fusion=fusion)
        shape = ops.shape(key)
        attended = self.attend_by_head(
            self._split_heads(query, ops.shape(query)),  # [B, N, Q, D]
            self._split_heads(key, shape),
            self._split_heads(value, shape),
            attention_mask,
            fusion=fusion,
            **options,
        )
        attended = ops.transpose(attended, (0, 2, 1, 3))
        return ops.reshape(attended, ops.shape(query))

    def attend_by_head(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor,
        *,
        dropout_index: int,
        **options: Any,
    ) -> Tensor:
        """Computes attention of all heads, `[B, N, Q, D]`."""
        drop = functools.partial(
            dropout.dropout,
            rate=self.config.attention_probs_dropout_prob,
            dropout_index=dropout_index,
        )
        return fused.attend(
            query, key, value, attention_mask, drop=drop, **options
        )

    def _split_heads(self, inputs: Tensor, shape: Tensor) -> Tensor:
        """Splits vectors, `[B, S, H]`, into a slice a head, `[B, N, S, D]`."""
        *leading, width = shape
        num_heads = self.config.num_attention_heads
        shape = (*leading, num_heads, width // num_heads)
        return ops.transpose(ops.reshape(inputs, shape), (0, 2, 1, 3))
