"""Attention in one kernel, where the back end has one: cuDNN's, or torch's.

Scores and probabilities, `[B, N, Q, S]`, are not kept: for long sequences, they
are most of the memory traffic of a block.

Source: Dao et al. 2022, "FlashAttention".
"""

from keras import ops

from albert_tf.modeling import Tensor, operations
from albert_tf.modeling.operations import Function


class FlashAttention(operations.Operations):
    """Operations of which attention is the one of Keras, without dropout.

    For `computing_with`, on JAX and PyTorch, in bfloat16 or float16. In a row
    that is all padding, attention is even, not that of the masked scores.
    """

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor,
        *,
        drop: Function,
        seed: Tensor | None = None,
    ) -> Tensor:
        """See `Operations`. Probabilities that are dropped have no kernel."""
        inputs = query, key, value
        if seed is not None:
            return super().attend(*inputs, attention_mask, drop=drop, seed=seed)
        # cuDNN takes a mask with a row for each query only.
        *_, num_queries, _ = ops.shape(query)
        batch, *_, num_keys = ops.shape(attention_mask)
        shape = (batch, 1, num_queries, num_keys)
        attended = ops.dot_product_attention(
            *(ops.transpose(heads, (0, 2, 1, 3)) for heads in inputs),
            mask=ops.broadcast_to(ops.cast(attention_mask, "bool"), shape),
        )
        return ops.transpose(attended, (0, 2, 1, 3))
