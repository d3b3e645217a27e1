"""Compares a model with chance: always predicting the label frequencies.

With few examples, many seeds end in a model that has learnt only the label
frequencies (Mosbach et al. 2021, "On the stability of fine-tuning BERT"). A
model is better than chance if its loss is lower than their loss. Predicted
labels show nothing: where 3% of the records are positive, a good model may call
none of them positive.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

# A loss is below chance level if it is at most this fraction of that level.
_LOSS_BELOW_CHANCE = 0.98
# Questions: the loss of an answer's start, as a fraction of the length's
# logarithm, if a model only knows where answers tend to be (SQuAD 1.1: 0.98).
_SPAN_PRIOR = 0.9


class Comparison(NamedTuple):
    """Losses on a set of records: cross entropies in nats, or squared errors.

    `loss` is their mean; `weighted_loss` is the mean with the class weights of
    the training, which change the frequencies that a model learns.
    `chance_loss` is the `weighted_loss` of predicting frequencies or the mean.
    """

    loss: float
    weighted_loss: float
    chance_loss: float

    @property
    def is_at_chance(self) -> bool:
        """Whether the model is no better than the label frequencies."""
        # So that a loss that is not a number is at chance.
        return not self.weighted_loss <= _LOSS_BELOW_CHANCE * self.chance_loss


def compare_labels(
    labels: np.ndarray, logits: np.ndarray, class_weights: Sequence[float] = ()
) -> Comparison:
    """Compares logits `[N, K]` with labels.

    Labels are int `[N]`; numbers `[N]`; or 0 and 1 `[N, K]`, any number of 1.
    """
    from scipy import special  # slow, where flags alone are read

    scores = logits.reshape(len(labels), -1).astype(np.float64)
    if labels.ndim > 1:
        loss = float(np.mean(np.logaddexp(0, scores) - labels * scores))
        chance_loss = float(np.mean([*map(_entropy, labels.T)]))
        return Comparison(loss, loss, chance_loss)
    if not np.issubdtype(labels.dtype, np.integer):
        return compare_numbers(labels, logits)
    log_probs = special.log_softmax(scores, axis=-1)
    losses = -log_probs[np.arange(len(labels)), labels]
    weights = np.asarray(class_weights or [1.0] * scores.shape[1])[labels]
    return Comparison(
        float(np.mean(losses)),
        float(np.sum(losses * weights) / (np.sum(weights) or 1.0)),
        _entropy(labels, weights),
    )


def compare_numbers(numbers: np.ndarray, predictions: np.ndarray) -> Comparison:
    """Compares predictions `[N, K]` with numbers, `[N]` or `[N, K]`."""
    wanted = numbers.reshape(len(numbers), -1).astype(np.float64)
    predicted = predictions.reshape(wanted.shape).astype(np.float64)
    loss = float(np.mean((predicted - wanted) ** 2))
    return Comparison(loss, loss, float(np.mean(np.var(wanted, axis=0))))


def compare_starts(
    starts: np.ndarray, lengths: np.ndarray, outputs: Mapping[str, Any]
) -> Comparison:
    """Compares the starts of answers, int `[N]`, 0 without one.

    Records of an evaluation have no answers: a question may have several.
    """
    from scipy import special  # slow, where flags alone are read

    losses: Any
    if "start_logits" in outputs:
        rows = zip(outputs["start_logits"], starts, strict=True)
        losses = [special.logsumexp(row) - row[start] for row, start in rows]
    else:
        # Of a beam search, the probabilities of the best starts are known,
        # [N, K]; the rest is shared evenly by all positions.
        best = np.exp(np.asarray(outputs["start_top_log_probs"], np.float64))
        rest = (1 - best.sum(axis=1)).clip(np.finfo(np.float32).eps) / lengths
        is_start = np.asarray(outputs["start_top_index"]) == starts[:, None]
        losses = -np.log(rest + np.sum(best * is_start, axis=1))
    loss = float(np.mean(losses))
    has_answer = starts > 0
    position = _SPAN_PRIOR * np.mean(has_answer * np.log(lengths))
    return Comparison(loss, loss, float(_entropy(has_answer) + position))


def _entropy(labels: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Returns the entropy of labels in nats: their loss at chance level."""
    from scipy import special  # slow, where flags alone are read

    _, classes = np.unique(labels, return_inverse=True)
    counts = np.bincount(classes, weights)
    return float(np.sum(special.entr(counts / np.sum(counts))))
