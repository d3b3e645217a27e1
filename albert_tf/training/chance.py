"""Compares a model with chance: always predicting the label frequencies.

Fine-tuning with few examples ends for a good part of the seeds in a model that
knows no more than these (Mosbach et al. 2021, "On the stability of fine-tuning
BERT"). A model is better than chance if its loss is below that of the label
frequencies, or if it ranks the records better. The labels that it predicts
show nothing: where 3% of the records are positive, a good model may call none
of them positive. A ranking shows nothing, either, if all records have nearly
the same probabilities.

NumPy and SciPy.
"""

import dataclasses
import math
from typing import Any

import numpy as np
from scipy import special, stats

from albert_tf.data.bucketed_batches import RecordColumns
from albert_tf.tasks.task import Outputs

# Shorter runs are trials, and smaller sets say little; neither is compared.
LEAST_STEPS = 50
LEAST_RECORDS = 16
# Score of a run whose model is no better than chance: 1.
DEGENERATE = "degenerate"
# A loss is below that at chance level if it is at most this fraction of it.
_LOSS_BELOW_CHANCE = 0.98
# A ranking is better than chance if one as good has at most this probability.
_CHANCE_RANKING = 1e-3
# Outputs are the same for all records if their standard deviation is at most
# this: of log probabilities, or in standard deviations of the numbers that a
# regression predicts.
_SAME_OUTPUTS = 0.05
# The start of an answer takes about so much of the logarithm of the length, in
# nats, for a model that only knows where answers tend to be. (Measured on
# SQuAD 1.1, words of dev and 44 articles of train: 0.98.)
_SPAN_PRIOR = 0.9

# What a set of records measures: the mean loss, that at chance level, and
# scores `[N, K]` that should be large where targets `[N, K]` are.
_Measures = tuple[float, float, np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """How a model compares with chance on a set of records.

    Args:
        num_records: Number of records.
        loss: Mean loss: cross entropy in nats, or squared error.
        chance_loss: Mean loss of predicting the label frequencies, or the
            mean, for every record.
        is_at_chance: Whether the model is no better than that.
    """

    num_records: int
    loss: float
    chance_loss: float
    is_at_chance: bool

    def __str__(self) -> str:
        """Describes a model at chance level."""
        return (
            f"the loss is {self.loss:.4g} ({self.chance_loss:.4g} at chance "
            f"level), and the ranking of {self.num_records} records is no "
            "better than by chance"
        )


def compare_with_chance(
    columns: RecordColumns, outputs: Outputs
) -> Comparison | None:
    """Compares a model with chance; None where that is impossible.

    It is for fewer than `LEAST_RECORDS` records, for labels that are unknown
    or all the same, and for outputs that are of no known kind.

    Args:
        columns: Records with `label_ids`, of a classification, a regression
            or a multiple choice; or with `start_positions`, of spans.
        outputs: Those of the model for these records.
    """
    if "label_ids" in columns.values and "logits" in outputs:
        loss, chance_loss, scores, targets = _of_labels(
            columns.field("label_ids"), np.asarray(outputs["logits"])
        )
    elif "start_positions" in columns.values:
        loss, chance_loss, scores, targets = _of_spans(columns, outputs)
    else:
        return None
    if columns.num_records < LEAST_RECORDS or not chance_loss:
        return None
    return Comparison(
        num_records=columns.num_records,
        loss=loss,
        chance_loss=chance_loss,
        is_at_chance=not (
            loss <= _LOSS_BELOW_CHANCE * chance_loss
            or _ranking_p_value(scores, targets) <= _CHANCE_RANKING
        ),
    )


def _of_labels(labels: np.ndarray, logits: np.ndarray) -> _Measures:
    """Measures logits `[N, K]` against labels.

    They are int `[N]`; numbers of a regression, `[N]`; or 0 and 1 for each of
    several labels, `[N, K]`.
    """
    scores = logits.reshape(len(labels), -1).astype(np.float64)
    if labels.ndim > 1:
        loss = np.mean(np.logaddexp(0, scores) - labels * scores)
        chance = np.mean([*map(_entropy, labels.T)])
        return float(loss), float(chance), scores, labels
    if not np.issubdtype(labels.dtype, np.integer):
        numbers = labels.astype(np.float64)[:, None]
        loss, chance = np.mean((scores - numbers) ** 2), np.var(numbers)
        # Equal labels have no spread; they are not compared.
        scale = np.sqrt(chance) or 1.0
        return float(loss), float(chance), scores / scale, numbers
    log_probs = special.log_softmax(scores, axis=-1)
    # One class against the rest.
    is_label = labels[:, None] == np.arange(scores.shape[1])
    loss = -np.mean(log_probs[is_label])
    return float(loss), _entropy(labels), log_probs, is_label


def _of_spans(columns: RecordColumns, outputs: Outputs) -> _Measures:
    """Measures the start of the answer, and whether there is one.

    Records without an answer have the start 0. Those of an evaluation have no
    answers at all, because each question may have several.
    """
    starts, lengths = columns.field("start_positions"), columns.lengths
    loss = np.mean(_start_losses(starts, lengths, outputs))
    has_answer = starts > 0
    position = _SPAN_PRIOR * np.mean(has_answer * np.log(lengths))
    nulls = np.asarray(outputs.get("cls_logits", np.zeros(len(starts))))
    return (
        float(loss),
        float(_entropy(has_answer) + position),
        nulls[:, None],
        ~has_answer[:, None],
    )


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


def _entropy(labels: np.ndarray) -> float:
    """Returns the entropy of labels in nats: their loss at chance level."""
    counts = np.unique(labels, return_counts=True)[1]
    return float(stats.entropy(counts))


def _ranking_p_value(scores: np.ndarray, targets: np.ndarray) -> float:
    """Returns the probability of a ranking as good without any knowledge.

    It is that of the best of K rank sums (Mann and Whitney 1947), times K
    (Bonferroni). Ties count half, and do not make the test more certain.

    Args:
        scores: Float `[N, K]`.
        targets: Bool or float `[N, K]`, larger where scores should be.
    """
    number = len(scores)
    best = -math.inf
    for column, truth in zip(scores.T, targets.T, strict=True):
        is_varied = np.isfinite(column).all() and column.std() > _SAME_OUTPUTS
        if is_varied and np.ptp(truth.astype(np.float64)):
            ranks = stats.rankdata(column) - (number + 1) / 2
            wanted = stats.rankdata(truth) - (number + 1) / 2
            variance = number * (number + 1) / 12 * np.sum(wanted**2)
            best = max(best, float(ranks @ wanted / math.sqrt(variance)))
    return min(1.0, scores.shape[1] * float(stats.norm.sf(best)))
