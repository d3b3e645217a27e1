"""Compares a model with chance: always predicting the label frequencies.

Fine-tuning with few examples ends for a good part of the seeds in a model that
knows no more than these (Mosbach et al. 2021, "On the stability of fine-tuning
BERT"). A model is better than chance if its loss is below theirs. The labels
that it predicts show nothing: where 3% of the records are positive, a good
model may call none of them positive. Nor does a good ranking, if all records
have nearly the same probabilities.

NumPy and SciPy.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats

from albert_tf.data.bucketed_batches import RecordColumns
from albert_tf.tasks.task import ExampleSet, Outputs
from albert_tf.training import ranking

_LOGGER = logging.getLogger(__name__)

# Shorter runs are trials, and smaller sets say little; neither is compared.
LEAST_STEPS = 50
LEAST_RECORDS = 16
_FEW_EXAMPLES = 50
# Ranges of first scores that are no shares: correlations, the F1 of SQuAD.
_WIDTHS = {"pearson": 2.0, "matthews_correlation": 2.0, "f1": 100.0}
# Score of a run whose model is no better than chance: 1.
DEGENERATE = "degenerate"
# Ends the key of the score that takes no model.
_BASELINE = "_baseline"
# A loss is below that at chance level if it is at most this fraction of it.
_LOSS_BELOW_CHANCE = 0.98
# The start of an answer takes about so much of the logarithm of the length, in
# nats, for a model that only knows where answers tend to be. (Measured on
# SQuAD 1.1, words of dev and 44 articles of train: 0.98.)
_SPAN_PRIOR = 0.9


def baseline_key(metric: str) -> str:
    """Returns the key of the score that takes no model."""
    return f"{metric}{_BASELINE}"


def is_baseline(key: str) -> bool:
    """Returns whether a score is of `baseline_key`."""
    return key.endswith(_BASELINE)


def verdict(scores: Mapping[str, float]) -> str | None:
    """Says that a score, or the loss, is not better than without a model."""
    for key in filter(is_baseline, scores):
        metric = key.removesuffix(_BASELINE)
        if metric not in scores:
            continue
        score, baseline = scores[metric], scores[key]
        if ranking.rank(metric, score) <= ranking.rank(metric, baseline):
            return (
                f"No better than the baseline: {metric} {score:.4g}, "
                f"against {baseline:.4g}. Try more steps, a lower "
                "--learning_rate, another --random_seed, or more examples."
            )
    if scores.get(DEGENERATE):
        return (
            "The model is degenerate: its loss is no better than that of the "
            "label frequencies."
        )
    return None


def warn_of(scores: Mapping[str, float], evaluated: ExampleSet) -> None:
    """Warns of scores that are not better than their baselines, or hardly.

    The 95% interval of a share of N examples is at most 1 / sqrt(N) wide on
    each side, that of a correlation twice as wide. Fewer than `_FEW_EXAMPLES`
    tell hardly any scores apart.
    """
    if problem := verdict(scores):
        _LOGGER.warning("%s", problem)
        return
    number, metric = len(evaluated.examples), evaluated.data.primary_metric
    margin = _WIDTHS.get(metric, 1.0) / math.sqrt(number)
    baseline = scores.get(baseline_key(metric), -math.inf)
    if number < _FEW_EXAMPLES or scores[metric] < baseline + margin:
        _LOGGER.warning(
            "Only %d examples were evaluated: on others, %s may be %.2g higher "
            "or lower.",
            number,
            metric,
            margin,
        )


class Comparison(NamedTuple):
    """Losses on a set of records: cross entropies in nats, or squared errors.

    `loss` is their mean, `weighted_loss` that with the class weights of the
    training, which change the frequencies that a model learns; `chance_loss`
    is the latter of predicting these frequencies, or the mean, for all records.
    """

    loss: float
    weighted_loss: float
    chance_loss: float

    @property
    def is_at_chance(self) -> bool:
        """Whether the model is no better than the label frequencies."""
        # So that a loss that is not a number is at chance.
        return not self.weighted_loss <= _LOSS_BELOW_CHANCE * self.chance_loss


def compare_with_chance(
    columns: RecordColumns,
    outputs: Outputs,
    class_weights: Sequence[float] = (),
) -> Comparison | None:
    """Compares a model with chance; None where that is impossible.

    It is for fewer than `LEAST_RECORDS` records, for labels that are unknown
    or all the same, and for outputs that are of no known kind. The labels are
    `label_ids` of a classification, a regression or a multiple choice; or
    `start_positions` of spans.
    """
    if "label_ids" in columns.values and "logits" in outputs:
        comparison = _compare_labels(
            columns.field("label_ids"),
            np.asarray(outputs["logits"]),
            class_weights,
        )
    elif "start_positions" in columns.values:
        comparison = _compare_spans(columns, outputs)
    else:
        return None
    is_enough = columns.num_records >= LEAST_RECORDS
    return comparison if is_enough and comparison.chance_loss else None


def _compare_labels(
    labels: np.ndarray, logits: np.ndarray, class_weights: Sequence[float]
) -> Comparison:
    """Compares logits `[N, K]` with labels.

    They are int `[N]`; numbers of a regression, `[N]`; or 0 and 1 for each of
    several labels, `[N, K]`.
    """
    scores = logits.reshape(len(labels), -1).astype(np.float64)
    if labels.ndim > 1:
        loss = float(np.mean(np.logaddexp(0, scores) - labels * scores))
        chance_loss = float(np.mean([*map(_entropy, labels.T)]))
        return Comparison(loss, loss, chance_loss)
    if not np.issubdtype(labels.dtype, np.integer):
        numbers = labels.astype(np.float64)[:, None]
        loss = float(np.mean((scores - numbers) ** 2))
        return Comparison(loss, loss, float(np.var(numbers)))
    log_probs = special.log_softmax(scores, axis=-1)
    losses = -log_probs[np.arange(len(labels)), labels]
    weights = np.asarray(class_weights or [1.0] * scores.shape[1])[labels]
    return Comparison(
        float(np.mean(losses)),
        float(np.sum(losses * weights) / (np.sum(weights) or 1.0)),
        _entropy(labels, weights),
    )


def _compare_spans(columns: RecordColumns, outputs: Outputs) -> Comparison:
    """Compares the start of the answer; records without one have the start 0.

    Those of an evaluation have no answers at all, because each question may
    have several.
    """
    starts, lengths = columns.field("start_positions"), columns.lengths
    loss = float(np.mean(_start_losses(starts, lengths, outputs)))
    has_answer = starts > 0
    position = _SPAN_PRIOR * np.mean(has_answer * np.log(lengths))
    return Comparison(loss, loss, float(_entropy(has_answer) + position))


def _start_losses(
    starts: np.ndarray, lengths: np.ndarray, outputs: Outputs
) -> Any:
    """Returns the cross entropies of the starts, float `[N]`."""
    if "start_logits" in outputs:
        rows = zip(outputs["start_logits"], starts, strict=True)
        return [special.logsumexp(row) - row[start] for row, start in rows]
    # Of a beam search, the probabilities of the best starts are known, [N, K];
    # the rest is shared evenly by all positions.
    best = np.exp(np.asarray(outputs["start_top_log_probs"], np.float64))
    rest = (1 - best.sum(axis=1)).clip(np.finfo(np.float32).eps) / lengths
    is_start = np.asarray(outputs["start_top_index"]) == starts[:, None]
    return -np.log(rest + np.sum(best * is_start, axis=1))


def _entropy(labels: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Returns the entropy of labels in nats: their loss at chance level."""
    _, classes = np.unique(labels, return_inverse=True)
    return float(stats.entropy(np.bincount(classes, weights)))
