"""Losses of pretraining and fine-tuning, as sums that a loop can divide.

The loss of a batch that is spread over replicas and accumulation steps is the
sum of all parts' losses divided by the sum of all parts' weights. So the
functions here return numerator and denominator separately, in float32. As in
the reference, the masked-LM loss is `loss / (weight + MASKED_LM_EPSILON)`; all
others are `loss / weight`, which in fine-tuning is the mean over examples.

Floor: modeling.

Source: google-research/albert, `run_pretraining.get_masked_lm_output` and
`get_sentence_order_output`, `classifier_utils.create_model`,
`race_utils.create_model`, `squad_utils.v1_model_fn_builder` and
`squad_utils.v2_model_fn_builder`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from keras import ops

# TF1: keeps the loss of a batch without targets at 0 instead of 0 / 0.
MASKED_LM_EPSILON = 1e-5
# Weight of each of two cross entropies; also the threshold of a 0/1 label.
_HALF = 0.5


class LossSums(NamedTuple):
    """Sums of a loss and an accuracy over a batch or a part of it.

    All are float32 scalars.

    Args:
        loss: Sum of weight x cross entropy.
        weight: Sum of the weights.
        correct: Sum of weight x (1 where the largest logit is the label's).
    """

    loss: Any
    weight: Any
    correct: Any


def example_weights(batch: Mapping[str, Any]) -> Any:
    """Returns float32 `[B]`: 0 for rows that only pad a batch, else 1.

    Args:
        batch: Has `input_ids` `[B, ...]`, and `example_weights` if some rows
            may be padding.
    """
    if "example_weights" in batch:
        return batch["example_weights"]
    return ops.ones(ops.shape(batch["input_ids"])[:1], "float32")


class SpanSums(NamedTuple):
    """Sums of the losses and the accuracy of a span task.

    All are float32 scalars.

    Args:
        loss: Sum of weight x the mean of the losses of start and end.
        weight: Sum of the weights.
        correct: Sum of weight x (1 where the most likely start and the most
            likely end are both the true ones).
        start_loss: Sum of weight x cross entropy of the start.
        end_loss: Sum of weight x cross entropy of the end.
    """

    loss: Any
    weight: Any
    correct: Any
    start_loss: Any
    end_loss: Any


class BeamSpanSums(NamedTuple):
    """`SpanSums` of a task in which there can be no answer.

    Args:
        loss: Half the sum of all three losses.
        weight: Sum of the weights.
        correct: As in `SpanSums`, the end given the true start.
        start_loss: As in `SpanSums`.
        end_loss: As in `SpanSums`, given the true start.
        answerable_loss: Sum of weight x cross entropy of whether there is an
            answer.
        answerable_correct: Sum of weight x (1 where that is predicted
            correctly).
    """

    loss: Any
    weight: Any
    correct: Any
    start_loss: Any
    end_loss: Any
    answerable_loss: Any
    answerable_correct: Any


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
        ids: Int tensor `[B, P]`, the masked tokens; unused slots hold 0.
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
        weights: Float tensor `[B]` or `[B, 1]`, 0 for a row that only pads
            the batch; None for all 1.
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


def classification_sums(
    logits: Any, label_ids: Any, weights: Any | None = None
) -> LossSums:
    """Returns the sums of a classification, or of a multiple choice.

    Args:
        logits: Float tensor `[B, K]`.
        label_ids: Int tensor `[B]`, 0 to K - 1.
        weights: Float tensor `[B]`, 0 for a row that only pads the batch;
            None for all 1.
    """
    weights = _weights(label_ids, weights)
    return weighted_sums(logits, label_ids, weights)


def regression_sums(
    logits: Any, label_ids: Any, weights: Any | None = None
) -> LossSums:
    """Returns the sums of squared errors; `correct` is 0.

    Args:
        logits: Float tensor `[B, 1]`.
        label_ids: Float tensor `[B]`, the true numbers.
        weights: As in `classification_sums`.
    """
    weights = _weights(label_ids, weights)
    errors = ops.cast(logits[:, 0], "float32") - ops.cast(label_ids, "float32")
    return LossSums(
        loss=ops.sum(weights * ops.square(errors)),
        weight=ops.sum(weights),
        correct=ops.zeros((), "float32"),
    )


def span_sums(
    outputs: Mapping[str, Any],
    starts: Any,
    ends: Any,
    weights: Any | None = None,
) -> SpanSums:
    """Returns the sums of a span.

    Args:
        outputs: `start_logits` and `end_logits`, float `[B, S]`.
        starts: Int tensor `[B]`, where the answer starts.
        ends: Int tensor `[B]`, where it ends.
        weights: As in `classification_sums`.
    """
    weights = _weights(starts, weights)
    start = weighted_sums(outputs["start_logits"], starts, weights)
    end = weighted_sums(outputs["end_logits"], ends, weights)
    both_correct = _hits(outputs["start_logits"], starts) * _hits(
        outputs["end_logits"], ends
    )
    return SpanSums(
        loss=_HALF * (start.loss + end.loss),
        weight=start.weight,
        correct=ops.sum(weights * both_correct),
        start_loss=start.loss,
        end_loss=end.loss,
    )


def beam_span_sums(
    outputs: Mapping[str, Any],
    targets: Mapping[str, Any],
    weights: Any | None = None,
) -> BeamSpanSums:
    """Returns the sums of a span, and of whether there is one.

    Args:
        outputs: Outputs of `BeamSpanModel` with teacher forcing:
            `start_log_probs` and `end_log_probs`, float `[B, S]`,
            `cls_logits` `[B]`.
        targets: `start_positions` and `end_positions`, int `[B]`, 0 where
            there is no answer; `is_impossible` `[B]`, 1 there and 0 where
            there is one. Other entries are ignored.
        weights: As in `classification_sums`.
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
    is_impossible = ops.cast(targets["is_impossible"], "float32")
    weights = _weights(is_impossible, weights)
    cls_logits = ops.cast(outputs["cls_logits"], "float32")
    answerable_losses = ops.binary_crossentropy(
        is_impossible, cls_logits, from_logits=True
    )
    is_right = ops.equal(cls_logits > 0, is_impossible > _HALF)
    answerable_loss = ops.sum(weights * answerable_losses)
    return BeamSpanSums(
        loss=spans.loss + _HALF * answerable_loss,
        weight=spans.weight,
        correct=spans.correct,
        start_loss=spans.start_loss,
        end_loss=spans.end_loss,
        answerable_loss=answerable_loss,
        answerable_correct=ops.sum(weights * ops.cast(is_right, "float32")),
    )


def _weights(targets: Any, weights: Any | None) -> Any:
    if weights is None:
        return ops.ones_like(targets, dtype="float32")
    return ops.cast(weights, "float32")


def _hits(logits: Any, positions: Any) -> Any:
    chosen = ops.argmax(logits, axis=-1)
    is_hit = ops.equal(chosen, ops.cast(positions, chosen.dtype))
    return ops.cast(is_hit, "float32")
