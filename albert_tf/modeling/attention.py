"""Multi-head self-attention, the first half of a block.

Source: Vaswani et al. 2017, section 3.2; google-research/albert,
`modeling.attention_layer` and the first half of `attention_ffn_block`.
"""

import functools
from collections.abc import Sequence
from typing import Any

from keras import ops

from albert_tf import config as config_lib
from albert_tf.modeling import base, dropout, fused, layers
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
        read_at: Int tensor `[B, Q]`, the positions to compute; None for all.

    Returns:
        Float tensor `[B, S, H]`, or `[B, Q, H]`, in the compute dtype.
    """

    default_name = "attention"

    def __init__(self, config: config_lib.AlbertConfig, **kwargs: Any) -> None:
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
        hidden: Any,
        attention_mask: Any,
        seed: Any | None = None,
        site: int = 0,
        fusion: fused.Fusion | None = None,
        read_at: Any | None = None,
    ) -> Any:
        residual, *inputs = fused.fan_out(hidden, 4, fusion)  # [B, S, H]
        if read_at is not None:
            residual = layers.gather_positions(residual, read_at)  # [B, Q, H]
        attended = self.attend(
            inputs, attention_mask, read_at, seed=seed, site=site, fusion=fusion
        )
        output = self.output_projection(attended, fusion=fusion)
        output = dropout.dropout(
            output,
            rate=self.config.hidden_dropout_prob,
            seed=seed,
            site=site + 1,
        )
        return self.layer_norm(residual, output, fusion=fusion)

    def attend(
        self,
        inputs: Sequence[Any],
        attention_mask: Any,
        read_at: Any | None,
        *,
        fusion: fused.Fusion | None,
        **options: Any,
    ) -> Any:
        """Computes attention, `[B, Q, H]`.

        The inputs are those of query, key and value, each `[B, S, H]`.
        """
        to_query, to_key, to_value = inputs
        if read_at is not None:
            to_query = layers.gather_positions(to_query, read_at)
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
        query: Any,
        key: Any,
        value: Any,
        attention_mask: Any,
        *,
        site: int,
        **options: Any,
    ) -> Any:
        """Computes attention of all heads, `[B, N, Q, D]`."""
        drop = functools.partial(
            dropout.dropout,
            rate=self.config.attention_probs_dropout_prob,
            site=site,
        )
        return fused.attend(
            query, key, value, attention_mask, drop=drop, **options
        )

    def _split_heads(self, inputs: Any, shape: Any) -> Any:
        """Splits vectors, `[B, S, H]`, into a slice a head, `[B, N, S, D]`."""
        *leading, width = shape
        num_heads = self.config.num_attention_heads
        shape = (*leading, num_heads, width // num_heads)
        return ops.transpose(ops.reshape(inputs, shape), (0, 2, 1, 3))
