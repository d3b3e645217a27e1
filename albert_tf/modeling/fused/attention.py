"""The arithmetic of attention: softmax of scaled scores, weighted average.

Source: Vaswani et al. 2017, section 3.2.1; google-research/albert,
`modeling.dot_product_attention`.
"""

import math
from collections.abc import Callable
from typing import Any

from keras import ops

from albert_tf.modeling.fused.fusion import Fusion, row_sums, upstreams

# TF1: a finite number, so that a row that is all padding attends evenly to
# its padding instead of becoming NaN.
MASKED_SCORE = -10000.0


def attend(
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    *,
    drop: Callable[..., Any],
    seed: Any | None = None,
    fusion: Fusion | None = None,
) -> Any:
    """Averages the values, by how much each position attends to the others.

    The softmax is computed in float32 in every precision.

    Args:
        query: Float tensor `[B, N, S, D]`.
        key: Float tensor `[B, N, S, D]`.
        value: Float tensor `[B, N, S, D]`.
        attention_mask: Int tensor `[B, 1, 1, S]`, or `[B, 1, S, S]` with one
            row for each query; 1 where the key may be attended to, else 0.
        drop: Drops a share of the probabilities, `[B, N, S, S]`, by their
            `seed`.
        seed: Int tensor `[2]`, see `dropout.dropout`; None drops nothing.
        fusion: How to compute, see `Fusion`.

    Returns:
        Float tensor `[B, N, S, D]` in the dtype of `query`.
    """
    scores = ops.matmul(query, ops.swapaxes(key, -1, -2))  # [B, N, S, S]
    mask = MASKED_SCORE * (1.0 - ops.cast(attention_mask, "float32"))
    scale = query.shape[-1] ** -0.5
    if fusion and fusion.fuses(scores):
        constants = [mask]
        if seed is not None:
            constants.append(ops.convert_to_tensor(seed))
        average = _average_with_gradient(fusion, scale, drop)
        return average(scores, value, *constants)
    probabilities = drop(_softmax(scores, mask, scale), seed=seed)
    return ops.matmul(probabilities, value)


def _softmax(scores: Any, mask: Any, scale: Any) -> Any:
    scaled = ops.cast(scores, "float32") * scale
    return ops.cast(ops.softmax(scaled + mask, axis=-1), scores.dtype)


def _average_with_gradient(
    fusion: Fusion, scale: float, drop: Callable[..., Any]
) -> Callable[..., Any]:
    """Returns a function of scores, values, mask and seed, as in `attend`.

    Its gradient is in closed form, of which the elementwise parts are compiled.
    """

    @ops.custom_gradient
    def average(scores: Any, value: Any, mask: Any, *seeds: Any) -> Any:
        seed = seeds[0] if seeds else None
        probabilities = _fused_softmax(fusion, scores, mask, scale)
        dropped = drop(probabilities, seed=seed)
        output = ops.matmul(dropped, value)

        def grad(*args: Any, upstream: Any = None) -> Any:
            [upstream] = upstreams(args, upstream)
            of_dropped = ops.matmul(upstream, ops.swapaxes(value, -1, -2))
            of_scores = fusion.call(
                _softmax_gradient,
                drop(of_dropped, seed=seed),
                probabilities,
                scale,
            )
            of_value = ops.matmul(ops.swapaxes(dropped, -1, -2), upstream)
            return of_scores, of_value, None, *[None] * len(seeds)

        return output, grad

    return average


def _fused_softmax(fusion: Fusion, scores: Any, mask: Any, scale: float) -> Any:
    # Only a power of two scales without rounding.
    is_exact = math.frexp(scale)[0] == 0.5
    if not (is_exact and fusion.uses_softmax(scores)):
        return fusion.call(_softmax, scores, mask, scale)
    # A softmax is the same if all scores of a row are shifted. Added to the
    # mask of a row that is all padding, they would be rounded to multiples of
    # 64 in bfloat16.
    shifted = mask - ops.max(mask, axis=-1, keepdims=True)
    scaled = scores * ops.cast(scale, scores.dtype)
    return ops.softmax(scaled + ops.cast(shifted, scores.dtype))


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
    total = row_sums(upstream * probabilities)
    change = upstream - total / row_sums(probabilities)
    return ops.cast(change * probabilities * scale, dtype)
