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

from collections.abc import Mapping
from typing import NamedTuple

from keras import ops

from albert_tf.modeling import Tensor
from albert_tf.modeling.operations import PLAIN, Operations

# TF1: keeps the loss of a batch without targets at 0 instead of 0 / 0.
MASKED_LM_EPSILON = 1e-5
_SPAN_SHARE = 0.5  # weight of each cross entropy in the loss of a span
_LABEL_THRESHOLD = 0.5  # a label is 1 above it


class LossSums(NamedTuple):
    """Sums over a batch or a part of it, all float32 scalars.

    The loss of a row is its cross entropy; for a span, the mean over start and
    end; in regression, the squared error. A row is correct if its
    label has the largest logit; for a span, both its start and its end.
    """

    loss: Tensor  # sum of weight x loss
    weight: Tensor  # sum of the weights
    correct: Tensor  # sum of weight x (1 if the row is correct)
    # Sum of weight x (1 if the prediction of whether there is an answer is
    # correct); `beam_span_sums` only.
    answerable_correct: Tensor = 0.0


def example_weights(batch: Mapping[str, Tensor]) -> Tensor:
    """Returns float32 `[B]`: 0 for rows that only pad a batch, else 1."""
    if "example_weights" in batch:
        return batch["example_weights"]
    return ops.ones(ops.shape(batch["input_ids"])[:1], "float32")


def cross_entropy_sums(
    logits: Tensor,
    labels: Tensor,
    weights: Tensor,
    operations: Operations = PLAIN,
) -> LossSums:
    """Returns the sums of the cross entropy of logits `[..., K]`.

    The labels are int `[...]`, 0 to K - 1.
    """
    losses = operations.cross_entropy(logits, labels)
    return _sums(weights, losses, _hits(logits, labels))


def regression_sums(
    logits: Tensor, labels: Tensor, weights: Tensor
) -> LossSums:
    """Returns the sums of squared errors of `[B, 1]`; `correct` is 0."""
    errors = ops.cast(logits[:, 0], "float32") - ops.cast(labels, "float32")
    return _sums(weights, ops.square(errors), ops.zeros_like(errors))


def multi_label_sums(
    logits: Tensor, labels: Tensor, weights: Tensor
) -> LossSums:
    """Returns the sums of the mean binary cross entropy of K labels.

    Logits and labels, 0 or 1, are float `[B, K]`; `correct` is the sum of
    weight x the share of correctly predicted labels.
    """
    logits = ops.cast(logits, "float32")
    entropies = ops.binary_crossentropy(labels, logits, from_logits=True)
    is_right = ops.equal(logits > 0, labels > _LABEL_THRESHOLD)
    shares = ops.mean(ops.cast(is_right, "float32"), axis=-1)
    return _sums(weights, ops.mean(entropies, axis=-1), shares)


def span_sums(
    outputs: Mapping[str, Tensor], starts: Tensor, ends: Tensor, weights: Tensor
) -> LossSums:
    """Returns the sums for spans, from start and end logits `[B, S]`."""
    start_logits, end_logits = outputs["start_logits"], outputs["end_logits"]
    start = cross_entropy_sums(start_logits, starts, weights)
    end = cross_entropy_sums(end_logits, ends, weights)
    both_correct = _hits(start_logits, starts) * _hits(end_logits, ends)
    return LossSums(
        loss=_SPAN_SHARE * (start.loss + end.loss),
        weight=start.weight,
        correct=ops.sum(ops.cast(weights, "float32") * both_correct),
    )


def beam_span_sums(
    outputs: Mapping[str, Tensor],
    targets: Mapping[str, Tensor],
    weights: Tensor,
) -> LossSums:
    """Returns the sums for spans, and for whether there is an answer.

    The loss of a row is half the sum of the cross entropies of start, end and
    whether there is an answer. The `outputs` come from `BeamSpanModel` with
    teacher forcing. The targets are `start_positions` and `end_positions`, int
    `[B]`, 0 where there is no answer; and `is_impossible` `[B]`, 1 there.
    """
    spans = span_sums(
        {
            "start_logits": outputs["start_log_probs"],
            "end_logits": outputs["end_log_probs"],
        },
        targets["start_positions"],
        targets["end_positions"],
        weights,
    )
    # A row has one label: whether there is no answer.
    answerable = multi_label_sums(
        outputs["cls_logits"][:, None],
        ops.cast(targets["is_impossible"], "float32")[:, None],
        weights,
    )
    return spans._replace(
        loss=spans.loss + _SPAN_SHARE * answerable.loss,
        answerable_correct=answerable.correct,
    )


def _sums(weights: Tensor, losses: Tensor, correct: Tensor) -> LossSums:
    weights = ops.cast(weights, "float32")
    return LossSums(
        loss=ops.sum(weights * losses),
        weight=ops.sum(weights),
        correct=ops.sum(weights * correct),
    )


def _hits(logits: Tensor, labels: Tensor) -> Tensor:
    predicted = ops.argmax(logits, axis=-1)
    is_hit = ops.equal(predicted, ops.cast(labels, predicted.dtype))
    return ops.cast(is_hit, "float32")
