"""Losses of pretraining and fine-tuning, as sums that a loop can divide.

The loss of a batch that is spread over replicas and accumulation steps is the
sum of all parts' losses divided by the sum of all parts' weights. So the
functions here return numerator and denominator separately, in float32. As in
the reference, the masked-LM loss is `loss / (weight + MASKED_LM_EPSILON)`; all
others are `loss / weight`, which in fine-tuning is the mean over examples.

Source: google-research/albert, `run_pretraining.get_masked_lm_output` and
`get_sentence_order_output`, `classifier_utils.create_model`,
`race_utils.create_model`, `squad_utils.v1_model_fn_builder` and
`squad_utils.v2_model_fn_builder`.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from keras import ops

from albert_tf.modeling import kernels

# TF1: keeps the loss of a batch without targets at 0 instead of 0 / 0.
MASKED_LM_EPSILON = 1e-5
# Weight of each of two cross entropies; also the threshold of a 0/1 label.
_HALF = 0.5


class LossSums(NamedTuple):
    """Sums of a loss and an accuracy over a batch or a part of it.

    All are float32 scalars.

    Args:
        loss: Sum of weight x cross entropy; for a span, the mean of the cross
            entropies of start and end; in regression, the squared error.
        weight: Sum of the weights.
        correct: Sum of weight x (1 where the largest logit is the label's; for
            a span, both at its start and at its end).
    """

    loss: Any
    weight: Any
    correct: Any


class BeamSpanSums(NamedTuple):
    """Sums of the losses of a span and of whether there is an answer.

    Args:
        loss: Sum of weight x half the sum of the cross entropies of start, end
            and whether there is an answer.
        weight: As in `LossSums`.
        correct: As in `LossSums`, of the span; its end given the true start.
        answerable_correct: Sum of weight x (1 where that is predicted
            correctly).
    """

    loss: Any
    weight: Any
    correct: Any
    answerable_correct: Any


def example_weights(batch: Mapping[str, Any]) -> Any:
    """Returns float32 `[B]`: 0 for rows that only pad a batch, else 1.

    Args:
        batch: Has `input_ids` `[B, ...]`, and `example_weights` if some rows
            may be padding.
    """
    if "example_weights" in batch:
        return batch["example_weights"]
    return ops.ones(ops.shape(batch["input_ids"])[:1], "float32")


def cross_entropy(logits: Any, labels: Any) -> Any:
    """Returns minus the logarithm of the probability of each label.

    Args:
        logits: Float tensor `[..., K]`.
        labels: Int tensor `[...]`, 0 to K - 1.

    Returns:
        Float32 tensor `[...]`. A label that is no class gives an error, or NaN
        for loss and gradient, or 0 on JAX.
    """
    labels = ops.convert_to_tensor(labels)
    if kernels.is_compiled(logits) and labels.shape == logits.shape[:-1]:
        return _cross_entropy(logits, labels)
    return ops.sparse_categorical_crossentropy(
        labels, ops.cast(logits, "float32"), from_logits=True
    )


@ops.custom_gradient
def _cross_entropy(logits: Any, labels: Any) -> Any:
    """Does `cross_entropy` in two compiled parts, forward and gradient."""
    loss, largest, log_total = kernels.call(_loss_and_total, logits, labels)

    def grad(*args: Any, upstream: Any = None) -> Any:
        [upstream] = kernels.upstreams(args, upstream)
        inputs = logits, labels, largest, log_total, upstream
        return kernels.call(_cross_entropy_gradient, *inputs), None

    return loss, grad


def _loss_and_total(logits: Any, labels: Any) -> tuple[Any, Any, Any]:
    """Returns the loss `[...]`, and what its gradient needs, `[..., 1]`.

    That is the largest logit, and the logarithm of the sum of all exponentials
    after it has been subtracted. Their sum would be rounded like a logit, which
    may be much larger than a loss.
    """
    logits = ops.cast(logits, "float32")
    largest = ops.max(logits, axis=-1, keepdims=True)
    log_total = ops.log(kernels.row_sums(ops.exp(logits - largest)))
    is_class = _is_class(labels, logits)
    chosen = ops.cast(ops.where(is_class, labels, 0), "int32")[..., None]
    of_labels = ops.take_along_axis(logits, chosen, axis=-1) - largest
    loss = ops.squeeze(log_total - of_labels, -1)
    return ops.where(is_class, loss, math.nan), largest, log_total


def _cross_entropy_gradient(
    logits: Any, labels: Any, largest: Any, log_total: Any, upstream: Any
) -> Any:
    """Returns probabilities, less 1 at the label, times `upstream`."""
    shifted = ops.cast(logits, "float32") - largest
    probabilities = ops.exp(shifted - log_total)
    classes = ops.arange(logits.shape[-1], dtype="int32")
    chosen = ops.cast(labels, "int32")[..., None]
    hits = ops.cast(ops.equal(classes, chosen), "float32")
    upstream = ops.where(_is_class(labels, logits), upstream, math.nan)
    found = (probabilities - hits) * upstream[..., None]
    return ops.cast(found, logits.dtype)


def _is_class(labels: Any, logits: Any) -> Any:
    return ops.logical_and(labels >= 0, labels < logits.shape[-1])


def weighted_sums(logits: Any, labels: Any, weights: Any) -> LossSums:
    """Returns the sums of a cross entropy.

    Args:
        logits: Float tensor `[..., K]`.
        labels: Int tensor `[...]`, 0 to K - 1.
        weights: Tensor `[...]`, 0 for what only pads the batch.
    """
    weights = ops.cast(weights, "float32")
    return LossSums(
        loss=ops.sum(weights * cross_entropy(logits, labels)),
        weight=ops.sum(weights),
        correct=ops.sum(weights * _hits(logits, labels)),
    )


def sentence_order_sums(logits: Any, labels: Any, weights: Any) -> LossSums:
    """Returns the sums of the sentence-order objective.

    Args:
        logits: Float tensor `[B, 2]`.
        labels: Int tensor `[B]` or `[B, 1]`, 0 in order, 1 swapped.
        weights: Tensor `[B]`.
    """
    return weighted_sums(logits, ops.reshape(labels, (-1,)), weights)


def regression_sums(logits: Any, label_ids: Any, weights: Any) -> LossSums:
    """Returns the sums of squared errors; `correct` is 0.

    Args:
        logits: Float tensor `[B, 1]`.
        label_ids: Float tensor `[B]`, the true numbers.
        weights: Tensor `[B]`, as in `weighted_sums`.
    """
    weights = ops.cast(weights, "float32")
    errors = ops.cast(logits[:, 0], "float32") - ops.cast(label_ids, "float32")
    return LossSums(
        loss=ops.sum(weights * ops.square(errors)),
        weight=ops.sum(weights),
        correct=ops.zeros((), "float32"),
    )


def multi_label_sums(logits: Any, label_ids: Any, weights: Any) -> LossSums:
    """Returns the sums of the mean binary cross entropy of K labels.

    `correct` is the sum of weight x the share of labels that are told right.

    Args:
        logits: Float tensor `[B, K]`.
        label_ids: Float tensor `[B, K]`, 1 for each label of a row, else 0.
        weights: Tensor `[B]`, as in `weighted_sums`.
    """
    weights = ops.cast(weights, "float32")
    logits = ops.cast(logits, "float32")
    entropies = ops.binary_crossentropy(label_ids, logits, from_logits=True)
    is_right = ops.equal(logits > 0, label_ids > _HALF)
    shares = ops.mean(ops.cast(is_right, "float32"), axis=-1)
    return LossSums(
        loss=ops.sum(weights * ops.mean(entropies, axis=-1)),
        weight=ops.sum(weights),
        correct=ops.sum(weights * shares),
    )


def span_sums(
    outputs: Mapping[str, Any], starts: Any, ends: Any, weights: Any
) -> LossSums:
    """Returns the sums of a span.

    Args:
        outputs: `start_logits` and `end_logits`, float `[B, S]`.
        starts: Int tensor `[B]`, where the answer starts.
        ends: Int tensor `[B]`, where it ends.
        weights: Tensor `[B]`, as in `weighted_sums`.
    """
    weights = ops.cast(weights, "float32")
    start = weighted_sums(outputs["start_logits"], starts, weights)
    end = weighted_sums(outputs["end_logits"], ends, weights)
    both_correct = _hits(outputs["start_logits"], starts) * _hits(
        outputs["end_logits"], ends
    )
    return LossSums(
        loss=_HALF * (start.loss + end.loss),
        weight=start.weight,
        correct=ops.sum(weights * both_correct),
    )


def beam_span_sums(
    outputs: Mapping[str, Any], targets: Mapping[str, Any], weights: Any
) -> BeamSpanSums:
    """Returns the sums of a span, and of whether there is one.

    Args:
        outputs: Outputs of `BeamSpanModel` with teacher forcing:
            `start_log_probs` and `end_log_probs`, float `[B, S]`,
            `cls_logits` `[B]`.
        targets: `start_positions` and `end_positions`, int `[B]`, 0 where
            there is no answer; `is_impossible` `[B]`, 1 there and 0 where
            there is one. Other entries are ignored.
        weights: Tensor `[B]`, as in `weighted_sums`.
    """
    weights = ops.cast(weights, "float32")
    spans = span_sums(
        {
            "start_logits": outputs["start_log_probs"],
            "end_logits": outputs["end_log_probs"],
        },
        targets["start_positions"],
        targets["end_positions"],
        weights,
    )
    is_impossible = ops.cast(targets["is_impossible"], "float32")
    cls_logits = ops.cast(outputs["cls_logits"], "float32")
    answerable_losses = ops.binary_crossentropy(
        is_impossible, cls_logits, from_logits=True
    )
    is_right = ops.equal(cls_logits > 0, is_impossible > _HALF)
    return BeamSpanSums(
        loss=spans.loss + _HALF * ops.sum(weights * answerable_losses),
        weight=spans.weight,
        correct=spans.correct,
        answerable_correct=ops.sum(weights * ops.cast(is_right, "float32")),
    )


def _hits(logits: Any, positions: Any) -> Any:
    chosen = ops.argmax(logits, axis=-1)
    is_hit = ops.equal(chosen, ops.cast(positions, chosen.dtype))
    return ops.cast(is_hit, "float32")
