"""Multi-head self-attention, the first half of a block.

Source: Vaswani et al. 2017, section 3.2; google-research/albert,
`modeling.attention_layer` and the first half of `attention_ffn_block`.
"""

import functools
from typing import Any

from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.modeling import Tensor, base, dropout, layers


class AttentionSublayer(base.AlbertLayer):
    """Applies self-attention, a residual connection and layer normalization.

    Query, key and value have separate kernels, not one wide kernel, because
    LAMB computes its trust ratio for each variable.

    Call arguments:
        hidden: Float tensor `[B, S, H]`.
        attention_mask: Int tensor `[B, 1, 1, S]` or `[B, 1, S, S]`, 1 where a
            key may be attended to. Integer, so that Keras does not cast it to
            a lower precision.
        output_positions: Int tensor `[B, Q]`, positions to compute; or None.

    Returns:
        Float tensor `[B, S, H]`, or `[B, Q, H]`, in the compute dtype.
    """

    # Whether `attend` can compute the queries at `output_positions` alone.
    attends_by_query = True

    def __init__(self, config: AlbertConfig, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        size = config.hidden_size
        self.query = layers.dense(self, "query", size, size)
        self.key = layers.dense(self, "key", size, size)
        self.value = layers.dense(self, "value", size, size)
        # `output` is taken: a property of every Keras layer.
        self.output_projection = layers.dense(self, "output", size, size)
        self.layer_norm = layers.LayerNorm(size, dtype=self.dtype_policy)

    def call(
        self,
        hidden: Tensor,
        attention_mask: Tensor,
        seed: Tensor | None = None,
        dropout_index: int = 0,
        output_positions: Tensor | None = None,
    ) -> Tensor:
        copies = self.operations.copies(hidden, 4)  # [B, S, H]
        residual, to_query, to_key, to_value = copies
        is_partial = output_positions is not None
        if is_partial:
            residual = layers.gather_positions(residual, output_positions)
        if is_partial and self.attends_by_query:
            to_query = layers.gather_positions(to_query, output_positions)
        query = self.query(to_query)  # [B, Q, H]
        key = self.key(to_key)  # [B, S, H]
        value = self.value(to_value)
        # Read once for key and value: if it is read twice, tf2onnx takes their
        # shape inside `linear`.
        key_shape = ops.shape(key)
        attended = self.attend(
            self._split_heads(query, ops.shape(query)),  # [B, N, Q, D]
            self._split_heads(key, key_shape),
            self._split_heads(value, key_shape),
            attention_mask,
            seed=seed,
            dropout_index=dropout_index,
        )
        attended = ops.transpose(attended, (0, 2, 1, 3))
        attended = ops.reshape(attended, ops.shape(query))
        if is_partial and not self.attends_by_query:
            attended = layers.gather_positions(attended, output_positions)
        output = self.output_projection(attended)
        rate = self.config.hidden_dropout_prob
        output = dropout.dropout(output, rate, seed, dropout_index + 1)
        return self.layer_norm(residual, output)

    @staticmethod
    def attention_mask(
        input_mask: Tensor, segment_ids: Tensor, global_segment: int | None
    ) -> Tensor:
        """Turns a mask `[B, S]` into an attention mask `[B, 1, 1, S]`."""
        return ops.expand_dims(input_mask, (1, 2))

    def attend(
        self, *inputs: Tensor, dropout_index: int, seed: Tensor | None
    ) -> Tensor:
        """Computes the attention of all heads, `[B, N, Q, D]`.

        `inputs` are query, key, value and mask; see `Operations.attend`.
        """
        rate = self.config.attention_probs_dropout_prob
        drop = functools.partial(
            dropout.dropout, rate=rate, dropout_index=dropout_index
        )
        seed = seed if rate else None
        return self.operations.attend(*inputs, drop=drop, seed=seed)

    def _split_heads(self, inputs: Tensor, shape: Tensor) -> Tensor:
        """Splits vectors `[B, S, H]` into heads, `[B, N, S, D]`."""
        *leading, width = shape
        num_heads = self.config.num_attention_heads
        shape = (*leading, num_heads, width // num_heads)
        return ops.transpose(ops.reshape(inputs, shape), (0, 2, 1, 3))
