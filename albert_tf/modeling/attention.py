"""Multi-head self-attention: its arithmetic, and the sublayer around it.

Floor: modeling.

Source: Vaswani et al. 2017, section 3.2; google-research/albert,
`modeling.attention_layer` and the first half of `attention_ffn_block`.
"""

from typing import Any

from keras import ops

from albert_tf import config as config_lib
from albert_tf.modeling import base, dropout, kernels, layers
from albert_tf.modeling.layers import LayerNorm

# TF1: a finite number, so that a row that is all padding attends evenly to
# its padding instead of becoming NaN.
MASKED_SCORE = -10000.0


def split_heads(inputs: Any, num_heads: int) -> Any:
    """Splits vectors, `[B, S, H]`, into a slice a head, `[B, S, N, D]`."""
    batch, length, width = ops.shape(inputs)
    shape = (batch, length, num_heads, width // num_heads)
    return ops.reshape(inputs, shape)


def attention_probabilities(query: Any, key: Any, attention_mask: Any) -> Any:
    """Returns how much each position attends to each other, by head.

    Args:
        query: Float tensor `[B, S, N, D]`.
        key: Float tensor `[B, S, N, D]`.
        attention_mask: Int tensor `[B, 1, 1, S]`, or `[B, 1, S, S]` with one
            row for each query; 1 where the key may be attended to, else 0.

    Returns:
        Float tensor `[B, N, S, S]` in the dtype of `query`; the last axis
        sums to 1. The softmax is computed in float32.
    """
    scores = ops.einsum("bqnd,bknd->bnqk", query, key)
    is_masked = 1.0 - ops.cast(attention_mask, "float32")
    scale = query.shape[-1] ** -0.5
    return kernels.apply(
        _softmax, _softmax_gradient, [scores], MASKED_SCORE * is_masked, scale
    )


def _softmax(scores: Any, mask: Any, scale: Any) -> Any:
    scaled = ops.cast(scores, "float32") * scale
    return ops.cast(ops.softmax(scaled + mask, axis=-1), scores.dtype)


def _softmax_gradient(
    upstream: Any, output: Any, scores: Any, mask: Any, scale: Any
) -> list[Any]:
    del scores, mask
    change = upstream * output
    total = ops.sum(change, axis=-1, keepdims=True)
    return [(change - output * total) * scale]


def attended_values(probabilities: Any, value: Any) -> Any:
    """Averages the values by attention and concatenates the heads.

    Args:
        probabilities: Float tensor `[B, N, S, S]`.
        value: Float tensor `[B, S, N, D]`.

    Returns:
        Float tensor `[B, S, H]`.
    """
    context = ops.einsum("bnqk,bknd->bqnd", probabilities, value)
    batch, length, num_heads, head_size = ops.shape(context)
    return ops.reshape(context, (batch, length, num_heads * head_size))


@base.register
class AttentionSublayer(base.SerializableLayer):
    """Applies self-attention, a residual connection and layer normalization.

    Query, key and value have separate kernels, not one wide kernel, because
    LAMB computes its trust ratio for each variable.

    Call arguments:
        hidden: Float tensor `[B, S, H]`.
        attention_mask: Int tensor `[B, 1, 1, S]` or `[B, 1, S, S]`, 1 where a
            key may be attended to. Integer, so that Keras does not cast it to
            a lower precision.
        seed: Int tensor `[2]`, seed of the dropout masks; None drops nothing.
        site: The first of the two dropout sites of this call.

    Returns:
        Float tensor `[B, S, H]` in the compute dtype.
    """

    def __init__(
        self,
        config: config_lib.AlbertConfig,
        *,
        seed: int,
        dtype: Any = None,
        name: str = "attention",
    ) -> None:
        super().__init__(dtype=dtype, name=name)
        self.config = config
        self.seed = seed
        dense, size = layers.dense, config.hidden_size
        self.query = dense(self, "query", size)
        self.key = dense(self, "key", size)
        self.value = dense(self, "value", size)
        # `output` is taken: a property of every Keras layer.
        self.output_projection = dense(self, "output", size)
        self.layer_norm = LayerNorm(size, dtype=self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        for layer in (
            self.query,
            self.key,
            self.value,
            self.output_projection,
            self.layer_norm,
        ):
            layer.build((None, None, self.config.hidden_size))

    def call(
        self,
        hidden: Any,
        attention_mask: Any,
        seed: Any | None = None,
        site: int = 0,
    ) -> Any:
        query, key, value = (
            split_heads(projection(hidden), self.config.num_attention_heads)
            for projection in (self.query, self.key, self.value)
        )
        probabilities = dropout.dropout(
            attention_probabilities(query, key, attention_mask),
            rate=self.config.attention_probs_dropout_prob,
            seed=seed,
            site=site,
        )
        output = dropout.dropout(
            self.output_projection(attended_values(probabilities, value)),
            rate=self.config.hidden_dropout_prob,
            seed=seed,
            site=site + 1,
        )
        return self.layer_norm(hidden, output)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape
