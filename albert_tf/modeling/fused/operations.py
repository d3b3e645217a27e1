"""Linear layer, GELU, layer normalization, attention and cross entropy.

`fusion` says how each of them is computed, see `Fusion`.

Source: google-research/albert, `modeling.gelu`,
`modeling.dot_product_attention`, and its calls of
`tf.contrib.layers.layer_norm`; Vaswani et al. 2017, section 3.2.1.
"""

import functools
import math
from collections.abc import Callable

import keras
from keras import ops

from albert_tf.modeling import Tensor
from albert_tf.modeling.fused.fusion import (
    Fusion,
    add_plainly,
    custom_gradient,
    row_sums,
)

# TF1: contrib.layer_norm used 1e-12; the Keras default, 1e-3, moves every
# output of the published checkpoints.
LAYER_NORM_EPSILON = 1e-12

_GELU_SCALE = math.sqrt(2 / math.pi)
_GELU_CUBIC = 0.044715

# TF1: a finite number, so that a row that is all padding attends evenly to
# its padding instead of becoming NaN.
MASKED_SCORE = -10000.0


def linear(
    inputs: Tensor,
    kernel: Tensor,
    bias: Tensor | None = None,
    *,
    activation: Callable[..., Tensor] = keras.activations.linear,
    fusion: Fusion | None = None,
) -> Tensor:
    """Applies a linear map to vectors, and an activation to its outputs.

    The inputs are float `[..., in]`, the kernel `[in, out]` and the bias
    `[out]`; the result has the dtype of the inputs.
    """
    *leading, size = ops.shape(inputs)
    shape = (*leading, kernel.shape[-1])
    rows = ops.reshape(inputs, (-1, size))
    outputs = ops.matmul(rows, ops.cast(kernel, inputs.dtype))
    # Without a change of shape between them, TensorFlow computes product, bias
    # and activation in one kernel. That pays for an activation alone.
    is_linear = activation is keras.activations.linear
    if is_linear or (fusion and fusion.fuses(inputs)):
        outputs = ops.reshape(outputs, shape)
    if bias is not None:
        if not (fusion and fusion.fuses(outputs)):
            outputs = ops.add(outputs, ops.cast(bias, outputs.dtype))
        elif activation in (gelu, gelu_erf):
            return ops.reshape(activation(outputs, bias, fusion=fusion), shape)
        else:
            outputs = fusion.add(outputs, bias)
    return ops.reshape(activation(outputs), shape)


# TF1: every released model was trained with the tanh form; the exact one (by
# erf) moves the outputs by 5e-4 of their largest value.
_gelu = functools.partial(ops.gelu, approximate=True)
_gelu_erf = functools.partial(ops.gelu, approximate=False)


def gelu(*addends: Tensor, fusion: Fusion | None = None) -> Tensor:
    """Computes the Gaussian error linear unit of inputs, plus a bias `[H]`."""
    if fusion and fusion.fuses(addends[0]):
        return fusion.call_on_sum(_gelu, _gelu_gradient, addends)
    return _gelu(add_plainly(*addends))


def gelu_erf(*addends: Tensor, fusion: Fusion | None = None) -> Tensor:
    """Computes the exact `gelu`, by the error function."""
    if fusion and fusion.fuses(addends[0]):
        return fusion.call_on_sum(_gelu_erf, _gelu_erf_gradient, addends)
    return _gelu_erf(add_plainly(*addends))


def _gelu_gradient(inputs: Tensor, upstream: Tensor) -> list[Tensor]:
    # x (1 + tanh(z)) / 2 with z = sqrt(2 / pi) (x + c x^3).
    cubic = _GELU_CUBIC * inputs * inputs
    tanh = ops.tanh(_GELU_SCALE * inputs * (1 + cubic))
    slope = (1 - tanh * tanh) * _GELU_SCALE * (1 + 3 * cubic)
    return [upstream * (1 + tanh + inputs * slope) / 2]


def _gelu_erf_gradient(inputs: Tensor, upstream: Tensor) -> list[Tensor]:
    density = ops.exp(-inputs * inputs / 2) / math.sqrt(2 * math.pi)
    distribution = (1 + ops.erf(inputs / math.sqrt(2))) / 2
    return [upstream * (distribution + inputs * density)]


def add_and_normalize(
    *addends: Tensor, gamma: Tensor, beta: Tensor, fusion: Fusion | None = None
) -> Tensor:
    """Normalizes every row of a sum, scales it by `gamma` and adds `beta`.

    Both are float32 `[H]`. The addends are `[..., H]` of any float dtype; the
    arithmetic is in float32, and the result has the dtype of the first one.
    """
    if fusion and fusion.fuses(addends[0]):
        return fusion.call_on_sum(
            _normalize_in_kernel, _normalize_gradient, addends, gamma, beta
        )
    inputs = add_plainly(*addends)
    standard, _ = _standardize(inputs, _row_means)
    return ops.cast(standard * gamma + beta, inputs.dtype)


def _standardize(
    inputs: Tensor, row_means: Callable[[Tensor], Tensor]
) -> Tensor:
    """Returns rows of mean 0 and deviation 1, and what they were scaled by."""
    inputs = ops.cast(inputs, "float32")
    centered = inputs - row_means(inputs)
    variance = row_means(ops.square(centered))
    scale = ops.rsqrt(variance + LAYER_NORM_EPSILON)
    return centered * scale, scale


_row_means = functools.partial(ops.mean, axis=-1, keepdims=True)


def _row_means_in_kernel(tensor: Tensor) -> Tensor:
    return row_sums(tensor) / tensor.shape[-1]


def _normalize_in_kernel(inputs: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    standard, _ = _standardize(inputs, _row_means_in_kernel)
    return standard * gamma + beta


def _normalize_gradient(
    inputs: Tensor, gamma: Tensor, beta: Tensor, upstream: Tensor
) -> list[Tensor]:
    del beta
    standard, scale = _standardize(inputs, _row_means_in_kernel)
    # The part of the gradient that changes neither mean nor deviation.
    gradient = upstream * gamma
    mean = _row_means_in_kernel(gradient)
    along = _row_means_in_kernel(gradient * standard)
    gradient = (gradient - mean - along * standard) * scale
    return [gradient, upstream * standard, upstream]


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor,
    *,
    drop: Callable[..., Tensor],
    seed: Tensor | None = None,
    fusion: Fusion | None = None,
) -> Tensor:
    """Computes scaled dot-product attention, `softmax(Q K^T / sqrt(D)) V`.

    Query, key, value and the result are `[B, N, S, D]` of one float dtype; the
    softmax is computed in float32 in every precision. The mask is int
    `[B, 1, 1, S]`, or `[B, 1, S, S]` with one row for each query: 1 where the
    key may be attended to, else 0. `drop` drops a share of the probabilities,
    `[B, N, S, S]`, by the `seed`; see `dropout.dropout`.
    """
    scores = ops.matmul(query, ops.swapaxes(key, -1, -2))  # [B, N, S, S]
    mask = MASKED_SCORE * (1.0 - ops.cast(attention_mask, "float32"))
    scale = query.shape[-1] ** -0.5
    if not (fusion and fusion.fuses(scores)):
        probabilities = drop(_softmax(scores, mask, scale), seed=seed)
        return ops.matmul(probabilities, value)

    # Of its gradient in closed form, the elementwise parts are compiled.
    @custom_gradient
    def average(
        scores: Tensor, value: Tensor, mask: Tensor, *seeds: Tensor
    ) -> Tensor:
        seed = seeds[0] if seeds else None
        probabilities = _fused_softmax(fusion, scores, mask, scale)
        dropped = drop(probabilities, seed=seed)
        output = ops.matmul(dropped, value)

        def grad(upstream: Tensor) -> Tensor:
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

    seeds = [] if seed is None else [ops.convert_to_tensor(seed)]
    return average(scores, value, mask, *seeds)


def _softmax(scores: Tensor, mask: Tensor, scale: Tensor) -> Tensor:
    scaled = ops.cast(scores, "float32") * scale
    return ops.cast(ops.softmax(scaled + mask, axis=-1), scores.dtype)


def _fused_softmax(
    fusion: Fusion, scores: Tensor, mask: Tensor, scale: float
) -> Tensor:
    # Only a power of two scales without rounding.
    is_exact = math.frexp(scale)[0] == 0.5
    if not (is_exact and fusion.has_softmax):
        return fusion.call(_softmax, scores, mask, scale)
    # A softmax is the same if all scores of a row are shifted. Added to the
    # mask of a row that is all padding, they would be rounded to multiples of
    # 64 in bfloat16.
    shifted = mask - ops.max(mask, axis=-1, keepdims=True)
    scaled = scores * ops.cast(scale, scores.dtype)
    return ops.softmax(scaled + ops.cast(shifted, scores.dtype))


def _softmax_gradient(
    upstream: Tensor, probabilities: Tensor, scale: Tensor
) -> Tensor:
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


def cross_entropy(
    logits: Tensor, labels: Tensor, fusion: Fusion | None = None
) -> Tensor:
    """Returns minus the logarithm of the probability of each label, float32.

    The logits are float `[..., K]`, the labels int `[...]`, 0 to K - 1. A label
    that is no class gives an error, or NaN for loss and gradient, or 0 on JAX.
    """
    labels = ops.convert_to_tensor(labels)
    is_per_row = labels.shape == logits.shape[:-1]
    if not (fusion and fusion.fuses(logits) and is_per_row):
        return ops.sparse_categorical_crossentropy(
            labels, ops.cast(logits, "float32"), from_logits=True
        )

    @custom_gradient
    def in_kernels(logits: Tensor, labels: Tensor) -> Tensor:
        loss, largest, log_total = fusion.call(_loss_and_total, logits, labels)

        def grad(upstream: Tensor) -> Tensor:
            inputs = logits, labels, largest, log_total, upstream
            return fusion.call(_cross_entropy_gradient, *inputs), None

        return loss, grad

    return in_kernels(logits, labels)


def _loss_and_total(
    logits: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the loss `[...]`, and what its gradient needs, `[..., 1]`.

    That is the largest logit, and the logarithm of the sum of all exponentials
    after it has been subtracted. Their sum would be rounded like a logit, which
    may be much larger than a loss.
    """
    logits = ops.cast(logits, "float32")
    largest = ops.max(logits, axis=-1, keepdims=True)
    log_total = ops.log(row_sums(ops.exp(logits - largest)))
    is_class = _is_class(labels, logits)
    chosen = ops.cast(ops.where(is_class, labels, 0), "int32")[..., None]
    label_logits = ops.take_along_axis(logits, chosen, axis=-1) - largest
    loss = ops.squeeze(log_total - label_logits, -1)
    return ops.where(is_class, loss, math.nan), largest, log_total


def _cross_entropy_gradient(
    logits: Tensor,
    labels: Tensor,
    largest: Tensor,
    log_total: Tensor,
    upstream: Tensor,
) -> Tensor:
    """Returns probabilities, less 1 at the label, times `upstream`."""
    shifted = ops.cast(logits, "float32") - largest
    probabilities = ops.exp(shifted - log_total)
    classes = ops.arange(logits.shape[-1], dtype="int32")
    chosen = ops.cast(labels, "int32")[..., None]
    hits = ops.cast(ops.equal(classes, chosen), "float32")
    upstream = ops.where(_is_class(labels, logits), upstream, math.nan)
    gradient = (probabilities - hits) * upstream[..., None]
    return ops.cast(gradient, logits.dtype)


def _is_class(labels: Tensor, logits: Tensor) -> Tensor:
    return ops.logical_and(labels >= 0, labels < logits.shape[-1])
