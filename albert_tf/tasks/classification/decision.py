"""How logits become probabilities, and probabilities labels.

An evaluation chooses temperature and thresholds; the metadata of the weights
keep them. Source: Guo et al. 2017 (arXiv 1706.04599): temperature and error.
"""

import dataclasses
import math

import numpy as np
import scipy.optimize
import scipy.special
import scipy.stats

from albert_tf.metrics import classification
from albert_tf.metrics.scores import Role, Score
from albert_tf.tasks.labelled_texts import LEAST_EXAMPLES
from albert_tf.tasks.task_data import Section

DEFAULT_THRESHOLD = 0.5
# In place of the index of a label.
NO_ANSWER = -1
ANSWERED_ACCURACY = "answered_accuracy"
_NUM_BINS = 15


@dataclasses.dataclass(frozen=True)
class Decision:
    """How logits become probabilities, and probabilities labels.

    Args:
        temperature: Divisor of the logits; None is 1.
        thresholds: With `has_several`, the lowest probability at which each
            label is predicted; None is 1/2. Else, the label furthest above
            its threshold is predicted; None predicts the likeliest label. Those
            of two labels add up to 1. With more, a row below all has no answer.
            Empty if none reaches the goal, so that none is chosen again.
        has_several: Whether a row has any number of labels.
        goal: The goal of the threshold, such as `precision:0.95`; see
            `threshold_for`. With more than two labels, it is the precision of
            all answers, whose threshold all labels share.
        calibrates: Whether a temperature may be chosen.
    """

    temperature: float | None = None
    thresholds: tuple[float, ...] | None = None
    has_several: bool = False
    goal: str = ""
    calibrates: bool = True

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """Returns float32 `[N, K]`."""
        logits = np.asarray(logits, np.float32) / (self.temperature or 1.0)
        if self.has_several:
            return classification.sigmoid(logits)
        return classification.softmax(logits)

    def predictions(self, logits: np.ndarray) -> np.ndarray:
        """Returns indices of labels, int `[N]`; or 0 and 1, int `[N, K]`.

        The index is `NO_ANSWER` where all labels are below their thresholds.
        """
        above = logits
        if self.has_several or self.thresholds:
            least = np.array(self.thresholds or DEFAULT_THRESHOLD)
            above = self.probabilities(logits) - least
        if self.has_several:
            return (above >= 0).astype(int)
        best = np.asarray(np.argmax(above, axis=-1))
        if self.thresholds and len(self.thresholds) > 2:
            best = np.where(above.max(axis=-1) >= 0, best, NO_ANSWER)
        return best

    def chosen_for(
        self, labels: np.ndarray, logits: np.ndarray, positive: int = 1
    ) -> "Decision":
        """Returns a copy whose fields of None are chosen on evaluated rows.

        The labels are `[N]`, or 0 and 1 `[N, K]`; of two labels, the goal is
        for `positive`.
        """
        if self.has_several:
            chosen = self.thresholds or best_thresholds(
                labels, self.probabilities(logits)
            )
            return dataclasses.replace(self, thresholds=chosen)
        temperature = self.temperature
        if self.calibrates and temperature is None:
            temperature = best_temperature(labels, logits)
        thresholds = self.thresholds or None
        new = dataclasses.replace(
            self, temperature=temperature, thresholds=thresholds
        )
        if not self.goal or self.thresholds is not None:
            return new
        if logits.shape[1] > 2:
            shares = new.probabilities(logits)
            is_right = shares.argmax(axis=-1) == labels
            confidence = shares.max(axis=-1)
            threshold = threshold_for(self.goal, is_right, confidence)
            if is_right.mean() >= float(self.goal.partition(":")[2]):
                threshold = 0.0
            if threshold is None:
                return new
            thresholds = (threshold,) * logits.shape[1]
            return dataclasses.replace(new, thresholds=thresholds)
        probabilities = new.probabilities(logits)[:, positive]
        threshold = threshold_for(self.goal, labels == positive, probabilities)
        if threshold is None:
            return new
        pair = (1 - threshold, threshold)
        pair = pair if positive else pair[::-1]
        return dataclasses.replace(new, thresholds=pair)


def best_temperature(labels: np.ndarray, logits: np.ndarray) -> float:
    """Returns the temperature with the lowest loss, for labels `[N]`.

    A standard normal prior on its logarithm keeps the temperature near 1 if
    rows are few, or if all are right.
    """
    logits = np.asarray(logits, np.float64)

    def loss(exponent: float) -> float:
        shares = scipy.special.log_softmax(logits / math.exp(exponent), axis=-1)
        scores = np.take_along_axis(shares, labels[:, None], axis=-1)
        return float(exponent**2 / 2 - scores.sum())

    minimum = scipy.optimize.minimize_scalar(loss, bounds=(-4, 4))
    return math.exp(minimum.x)


def calibration_error(labels: np.ndarray, probabilities: np.ndarray) -> float:
    """Returns the expected calibration error, 0 to 1.

    Rows fall into bins of equal width by the probability of the likeliest
    label. The error is the mean distance of this probability from the accuracy
    of the bin. Labels are `[N]`, probabilities `[N, K]`.
    """
    confidence = probabilities.max(axis=-1).astype(np.float64)
    gaps = (probabilities.argmax(axis=-1) == labels) - confidence
    bins = np.minimum(confidence * _NUM_BINS, _NUM_BINS - 1).astype(int)
    return float(np.abs(np.bincount(bins, weights=gaps)).sum() / len(labels))


def calibration_errors(
    labels: np.ndarray, logits: np.ndarray, decision: Decision
) -> list[Score]:
    """Returns the errors after calibration, and before."""
    return [
        Score(
            f"calibration_error{ending}",
            calibration_error(labels, each.probabilities(logits)),
            Role.ERROR,
        )
        for ending, each in (("", decision), ("_before", Decision()))
    ]


def calibration_chart(
    labels: np.ndarray, logits: np.ndarray, decision: Decision
) -> Section:
    """Returns a chart of accuracy by confidence, before and after calibration.

    Each point is a tenth of the rows: the mean probability of the likeliest
    label, and the share of rows where it is right.
    """
    curves = {"as it should be": [(0.0, 0.0), (1.0, 1.0)]}
    for name, each in {
        "before": Decision(),
        "with the temperature": decision,
    }.items():
        probabilities = each.probabilities(logits)
        confidence = probabilities.max(axis=-1)
        is_right = probabilities.argmax(axis=-1) == labels
        tenths = np.array_split(np.argsort(confidence), min(10, len(labels)))
        curves[name] = [
            (float(confidence[rows].mean()), float(is_right[rows].mean()))
            for rows in tenths
        ]
    return {
        "title": "How often a prediction is right, by its probability",
        "unit": "share that is right",
        "x_label": "probability",
        "curves": curves,
    }


def threshold_for(
    goal: str, is_positive: np.ndarray, probabilities: np.ndarray
) -> float | None:
    """Returns the best threshold that reaches a goal; None if none does.

    Goals are such as `precision:0.95`, `recall:0.9` or
    `false_positive_rate:0.01`. The best threshold has the highest recall, or,
    for a goal of recall, the highest precision. Both arrays are `[N]`.
    """
    kind, _, number = goal.partition(":")
    num_positive = np.count_nonzero(is_positive)
    num_negative = len(is_positive) - num_positive
    if min(num_positive, num_negative) < LEAST_EXAMPLES:
        return None
    thresholds, num_right, num_predicted = _choices(is_positive, probabilities)
    precision, recall = num_right / num_predicted, num_right / num_positive
    false_rate = (num_predicted - num_right) / num_negative
    least = float(number)
    reaches = {
        "precision": precision >= least,
        "recall": recall >= least,
        "false_positive_rate": false_rate <= least,
    }[kind]
    if not reaches.any():
        return None
    others = precision if kind == "recall" else recall
    return float(thresholds[np.argmax(np.where(reaches, others, -1))])


def goal_interval(
    goal: str, key: str, is_positive: np.ndarray, is_predicted: np.ndarray
) -> list[Score]:
    """Returns the 95% interval, on other rows, of the score that a goal names.

    By Wilson's score; both arrays are bool `[N]`. `key` is that of the score.
    """
    kind = goal.partition(":")[0]
    if kind == "precision":
        hits = is_positive[is_predicted]
    else:
        hits = is_predicted[is_positive == (kind == "recall")]
    low, high = 0.0, 1.0
    if hits.size:
        test = scipy.stats.binomtest(int(hits.sum()), hits.size)
        low, high = test.proportion_ci(method="wilson")
    return [
        Score(f"{key}_interval_low", float(low), Role.INTERVAL, key),
        Score(f"{key}_interval_high", float(high), Role.INTERVAL, key),
    ]


def answered_scores(labels: np.ndarray, decided: np.ndarray) -> list[Score]:
    """Returns the share of rows with an answer, and how many are right."""
    is_answered = decided != NO_ANSWER
    right = (decided == labels)[is_answered]
    return [
        Score("answered", float(is_answered.mean())),
        Score(ANSWERED_ACCURACY, float(right.mean()) if right.size else 0.0),
    ]


def best_thresholds(
    labels: np.ndarray, probabilities: np.ndarray
) -> tuple[float, ...]:
    """Returns for each label the threshold with the best F1.

    It lies halfway between two probabilities; of equally good thresholds, it is
    the nearest to 1/2. It is 1/2 for a label with fewer than `LEAST_EXAMPLES`.
    The labels are 0 and 1, both arrays `[N, K]`.
    """
    return tuple(map(_best_threshold, labels.T, probabilities.T))


def _best_threshold(labels: np.ndarray, probabilities: np.ndarray) -> float:
    num_positive = np.count_nonzero(labels)
    if num_positive < LEAST_EXAMPLES:
        return DEFAULT_THRESHOLD
    thresholds, num_right, num_predicted = _choices(labels, probabilities)
    f1 = 2 * num_right / (num_predicted + num_positive)
    best = thresholds[f1 == f1.max()]
    return float(best[np.argmin(np.abs(best - DEFAULT_THRESHOLD))])


def _choices(
    is_positive: np.ndarray, probabilities: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns thresholds, and for each, the numbers of right and all positives.

    They lie halfway between two different probabilities, and decrease.
    """
    order = np.argsort(-probabilities)
    decreasing = probabilities[order].astype(np.float64)
    below = np.append(decreasing[1:], 0.0)
    # There is no threshold between equal probabilities.
    is_last = np.append(decreasing[1:] < decreasing[:-1], True)
    num_right = np.cumsum(is_positive[order])
    thresholds = (decreasing + below)[is_last] / 2
    return thresholds, num_right[is_last], 1 + np.flatnonzero(is_last)
