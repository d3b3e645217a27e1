"""Cross entropy of logits over many classes, such as a vocabulary."""

import math
from collections.abc import Callable
from typing import Any

from keras import ops

from albert_tf.modeling.fused.fusion import Fusion, row_sums, upstreams


def cross_entropy(
    logits: Any, labels: Any, fusion: Fusion | None = None
) -> Any:
    """Returns minus the logarithm of the probability of each label.

    Args:
        logits: Float tensor `[..., K]`.
        labels: Int tensor `[...]`, 0 to K - 1.
        fusion: How to compute, see `Fusion`.

    Returns:
        Float32 tensor `[...]`. A label that is no class gives an error, or NaN
        for loss and gradient, or 0 on JAX.
    """
    labels = ops.convert_to_tensor(labels)
    has_labels = labels.shape == logits.shape[:-1]
    if fusion and fusion.fuses(logits) and has_labels:
        return _with_gradient(fusion)(logits, labels)
    return ops.sparse_categorical_crossentropy(
        labels, ops.cast(logits, "float32"), from_logits=True
    )


def _with_gradient(fusion: Fusion) -> Callable[..., Any]:
    """Returns `cross_entropy` as two kernels, forward and gradient."""

    @ops.custom_gradient
    def compute(logits: Any, labels: Any) -> Any:
        loss, largest, log_total = fusion.call(_loss_and_total, logits, labels)

        def grad(*args: Any, upstream: Any = None) -> Any:
            [upstream] = upstreams(args, upstream)
            inputs = logits, labels, largest, log_total, upstream
            return fusion.call(_gradient, *inputs), None

        return loss, grad

    return compute


def _loss_and_total(logits: Any, labels: Any) -> tuple[Any, Any, Any]:
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
    of_labels = ops.take_along_axis(logits, chosen, axis=-1) - largest
    loss = ops.squeeze(log_total - of_labels, -1)
    return ops.where(is_class, loss, math.nan), largest, log_total


def _gradient(
    logits: Any, labels: Any, largest: Any, log_total: Any, upstream: Any
) -> Any:
    """Returns probabilities, less 1 at the label, times `upstream`."""
    shifted = ops.cast(logits, "float32") - largest
    probabilities = ops.exp(shifted - log_total)
    classes = ops.arange(logits.shape[-1], dtype="int32")
    chosen = ops.cast(labels, "int32")[..., None]
    hits = ops.cast(ops.equal(classes, chosen), "float32")
    upstream = ops.where(_is_class(labels, logits), upstream, math.nan)
    gradient = (probabilities - hits) * upstream[..., None]
    return ops.cast(gradient, logits.dtype)


def _is_class(labels: Any, logits: Any) -> Any:
    return ops.logical_and(labels >= 0, labels < logits.shape[-1])
