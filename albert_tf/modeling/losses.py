"""Losses of pretraining, as sums that a training loop may divide as it needs.

A loss over a batch that is spread over replicas and accumulation steps is the
sum of all parts' losses, divided by the sum of all parts' weights. So the
functions here return numerator and denominator apart; all in float32. The
whole of a batch has, as in the reference, the masked-LM loss
`loss / (weight + MASKED_LM_EPSILON)` and the sentence-order loss
`loss / weight`.

Source: google-research/albert, `run_pretraining.get_masked_lm_output` and
`get_sentence_order_output`.
"""

from typing import Any, NamedTuple

from keras import ops

# TF1: keeps the loss of a batch without targets at 0 instead of 0 / 0.
MASKED_LM_EPSILON = 1e-5


class LossSums(NamedTuple):
    """What one batch, or a part of it, adds to a loss and an accuracy.

    All are float32 scalars.

    Args:
        loss: Sum of weight x cross entropy.
        weight: Sum of the weights.
        correct: Sum of weight x (1 where the largest logit is the label's).
    """

    loss: Any
    weight: Any
    correct: Any


def cross_entropy(logits: Any, labels: Any) -> Any:
    """Returns minus the logarithm of the probability of each label.

    Args:
        logits: Float tensor `[..., K]`.
        labels: Int tensor `[...]`, 0 to K - 1.

    Returns:
        Float32 tensor `[...]`.
    """
    return ops.sparse_categorical_crossentropy(
        labels, ops.cast(logits, "float32"), from_logits=True
    )


def masked_lm_sums(logits: Any, ids: Any, weights: Any) -> LossSums:
    """Returns the sums of the masked-LM objective.

    Args:
        logits: Float tensor `[B, P, V]`.
        ids: Int tensor `[B, P]`, the hidden pieces; unused slots hold 0.
        weights: Float tensor `[B, P]`, 1 for a target, 0 for an unused slot.
    """
    return weighted_sums(logits, ids, weights)


def sentence_order_sums(
    logits: Any, labels: Any, weights: Any | None = None
) -> LossSums:
    """Returns the sums of the sentence-order objective.

    Args:
        logits: Float tensor `[B, 2]`.
        labels: Int tensor `[B]` or `[B, 1]`, 0 in order, 1 swapped.
        weights: Float tensor `[B]` or `[B, 1]`, 0 for a row that fills up the
            batch; None for all 1.
    """
    labels = ops.reshape(labels, (-1,))
    weights = ops.ones_like(labels) if weights is None else weights
    return weighted_sums(logits, labels, ops.reshape(weights, (-1,)))


def weighted_sums(logits: Any, labels: Any, weights: Any) -> LossSums:
    """Returns the sums of a cross entropy.

    Args:
        logits: Float tensor `[..., K]`.
        labels: Int tensor `[...]`, 0 to K - 1.
        weights: Tensor `[...]`.
    """
    weights = ops.cast(weights, "float32")
    is_correct = ops.equal(
        ops.argmax(logits, axis=-1), ops.cast(labels, "int32")
    )
    return LossSums(
        loss=ops.sum(weights * cross_entropy(logits, labels)),
        weight=ops.sum(weights),
        correct=ops.sum(weights * ops.cast(is_correct, "float32")),
    )
