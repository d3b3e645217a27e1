"""Multi-head self-attention: its arithmetic, and the sublayer around it.

Source: Vaswani et al. 2017, section 3.2; google-research/albert,
`modeling.attention_layer` and the first half of `attention_ffn_block`.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

from keras import ops

from albert_tf import config as config_lib
from albert_tf.modeling import base, dropout, kernels, layers
from albert_tf.modeling.layers import LayerNorm

# TF1: a finite number, so that a row that is all padding attends evenly to
# its padding instead of becoming NaN.
MASKED_SCORE = -10000.0


def split_heads(inputs: Any, num_heads: int) -> Any:
    """Splits vectors, `[B, S, H]`, into a slice a head, `[B, N, S, D]`."""
    batch, length, width = ops.shape(inputs)
    shape = (batch, length, num_heads, width // num_heads)
    return ops.transpose(ops.reshape(inputs, shape), (0, 2, 1, 3))


def join_heads(inputs: Any) -> Any:
    """Undoes `split_heads`."""
    batch, num_heads, length, head_size = ops.shape(inputs)
    shape = (batch, length, num_heads * head_size)
    return ops.reshape(ops.transpose(inputs, (0, 2, 1, 3)), shape)


def attend(
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    *,
    rate: float = 0.0,
    seed: Any | None = None,
    site: int = 0,
) -> Any:
    """Averages the values, by how much each position attends to the others.

    The softmax is computed in float32 in every precision.

    Args:
        query: Float tensor `[B, N, S, D]`.
        key: Float tensor `[B, N, S, D]`.
        value: Float tensor `[B, N, S, D]`.
        attention_mask: Int tensor `[B, 1, 1, S]`, or `[B, 1, S, S]` with one
            row for each query; 1 where the key may be attended to, else 0.
        rate: Share of the probabilities, `[B, N, S, S]`, that is dropped.
        seed: Int tensor `[2]`, see `dropout.dropout`; None drops nothing.
        site: Dropout site of this call.

    Returns:
        Float tensor `[B, N, S, D]` in the dtype of `query`.
    """
    scores = ops.matmul(query, _transposed(key))
    mask = MASKED_SCORE * (1.0 - ops.cast(attention_mask, "float32"))
    scale = query.shape[-1] ** -0.5
    if kernels.is_compiled(scores):
        constants = [mask]
        if seed is not None:
            constants.append(ops.convert_to_tensor(seed))
        call = _with_gradient(scale=scale, rate=rate, site=site)
        return call(scores, value, *constants)
    probabilities = dropout.dropout(
        _softmax(scores, mask, scale), rate=rate, seed=seed, site=site
    )
    return ops.matmul(probabilities, value)


def _with_gradient(
    *, scale: float, rate: float, site: int
) -> Callable[..., Any]:
    """Returns a function of scores, values, mask and seed, as in `attend`.

    Its gradient is in closed form, of which the elementwise parts are compiled.
    """
    drop = functools.partial(dropout.dropout, rate=rate, site=site)
    # Only a power of two scales without rounding.
    is_exact = math.frexp(scale)[0] == 0.5

    @ops.custom_gradient
    def call(scores: Any, value: Any, mask: Any, *seeds: Any) -> Any:
        seed = seeds[0] if seeds else None
        if is_exact and kernels.has_softmax(scores):
            # A softmax is the same if all scores of a row are shifted. Added
            # to the mask of a row that is all padding, they would be rounded
            # to multiples of 64 in bfloat16.
            shifted = mask - ops.max(mask, axis=-1, keepdims=True)
            scaled = scores * ops.cast(scale, scores.dtype)
            probabilities = ops.softmax(
                scaled + ops.cast(shifted, scores.dtype)
            )
        else:
            probabilities = kernels.call(_softmax, scores, mask, scale)
        dropped = drop(probabilities, seed=seed)
        output = ops.matmul(dropped, value)

        def grad(*args: Any, upstream: Any = None) -> Any:
            [upstream] = kernels.upstreams(args, upstream)
            of_dropped = ops.matmul(upstream, _transposed(value))
            of_scores = kernels.call(
                _softmax_gradient,
                drop(of_dropped, seed=seed),
                probabilities,
                scale,
            )
            of_value = ops.matmul(_transposed(dropped), upstream)
            return of_scores, of_value, None, *[None] * len(seeds)

        return output, grad

    return call


def _transposed(tensor: Any) -> Any:
    return ops.swapaxes(tensor, -1, -2)


def _softmax(scores: Any, mask: Any, scale: Any) -> Any:
    scaled = ops.cast(scores, "float32") * scale
    return ops.cast(ops.softmax(scaled + mask, axis=-1), scores.dtype)


def _softmax_gradient(upstream: Any, probabilities: Any, scale: Any) -> Any:
    """Returns the gradient of the scores, given that of the probabilities.

    The gradients of a row add up to 0. So the average of `upstream` is not
    taken from the rounded output, which would be less to compute, and the
    probabilities, which are rounded, too, are not assumed to add up to 1. A
    rest would be multiplied by the mean of all keys.
    """
    dtype = probabilities.dtype
    upstream, probabilities = (
        ops.cast(x, "float32") for x in (upstream, probabilities)
    )
    total = kernels.row_sums(upstream * probabilities)
    change = upstream - total / kernels.row_sums(probabilities)
    return ops.cast(change * probabilities * scale, dtype)


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
        projections = self.query, self.key, self.value
        hidden, *inputs = kernels.copies(hidden, 1 + len(projections))
        query, key, value = (
            split_heads(projection(one), self.config.num_attention_heads)
            for projection, one in zip(projections, inputs, strict=True)
        )
        attended = attend(
            query,
            key,
            value,
            attention_mask,
            rate=self.config.attention_probs_dropout_prob,
            seed=seed,
            site=site,
        )
        output = dropout.dropout(
            self.output_projection(join_heads(attended)),
            rate=self.config.hidden_dropout_prob,
            seed=seed,
            site=site + 1,
        )
        return self.layer_norm(hidden, output)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape
