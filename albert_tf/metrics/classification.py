"""Metrics of classification and regression, and their names.

Data flow: labels, probabilities, predictions -> [this file] -> scores by name.

A metric maps N labels and N predictions to a float. An undefined correlation
(one example, or a constant array) is 0, as scikit-learn and the reference
define the Matthews correlation. Areas under curves take probabilities instead
of predictions, and are NaN where they are undefined.

Source: Wang et al. 2018 (GLUE), table 1: the metrics of each task.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.special
import scipy.stats
import sklearn.metrics
from numpy.typing import ArrayLike

from albert_tf.metrics.scores import Role, Score, Scores

_ERRORS = ("mean_absolute_error", "mean_squared_error")
_MACRO = "_macro"
_OF_CLASS = ("precision", "recall", "f1", "number")


def accuracy(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Returns the share of right predictions; see `SCORES`."""
    is_right = np.equal(labels, predictions)
    return float(is_right.reshape(len(is_right), -1).all(axis=1).mean())


def f1(
    labels: ArrayLike,
    predictions: ArrayLike,
    *,
    average: str = "macro",
    classes: Sequence[int] | None = None,
) -> float:
    """Returns the mean F1 of these classes, by default of all that occur.

    A class occurs if it is a label or a prediction of an example. Multi-label
    examples are arrays of 0 and 1 `[N, K]`.

    >>> f1([1, 1, 0, 0], [1, 0, 1, 0], classes=[1])
    0.5
    """
    if np.ndim(labels) > 1:
        occurs = np.array([labels, predictions]).any(axis=(0, 1))
        # If no class occurs, the score of all classes is 0.
        classes = [*np.flatnonzero(occurs)] or None
    score = sklearn.metrics.f1_score(
        labels, predictions, labels=classes, average=average, zero_division=0
    )
    return float(score)


def class_scores(
    labels: ArrayLike, predictions: ArrayLike, names: Sequence[str]
) -> list[Score]:
    """Returns precision, recall, F1 and number of labels of each class.

    >>> class_scores([1, 1, 0, 0], [1, 1, 1, 0], ["ham", "spam"])[4][:2]
    ('precision_of_spam', 0.6666666666666666)
    """
    columns = sklearn.metrics.precision_recall_fscore_support(
        labels, predictions, labels=range(len(names)), zero_division=0
    )
    scores = []
    for i, name in enumerate(names):
        for kind, column in zip(_OF_CLASS, columns, strict=True):
            scores.append(Score.of_label(kind, name, float(column[i])))
    return scores


def roc_auc(labels: ArrayLike, scores: ArrayLike) -> float:
    """Returns the area under the ROC curve for labels 0 and 1.

    It is NaN if all labels are the same.

    >>> roc_auc([0, 0, 1, 1], [0.1, 0.4, 0.4, 0.8])
    0.875
    """
    if len(np.unique(labels)) < 2:
        return math.nan
    return float(sklearn.metrics.roc_auc_score(labels, scores))


def average_precision(labels: ArrayLike, scores: ArrayLike) -> float:
    """Returns the mean precision over all recalls for labels 0 and 1.

    It is NaN if no label is 1.

    >>> average_precision([0, 1, 0, 1], [0.1, 0.4, 0.4, 0.8])
    0.8333333333333333
    """
    if not np.any(labels):
        return math.nan
    return float(sklearn.metrics.average_precision_score(labels, scores))


def _correlation(
    correlate: Callable[..., Any], labels: ArrayLike, predictions: ArrayLike
) -> float:
    """Returns the correlation of two arrays, 0 if one of them is constant."""
    arrays = [np.asarray(x, np.float64) for x in (labels, predictions)]
    if any((array == array[0]).all() for array in arrays):
        return 0.0
    correlation = correlate(*arrays)
    return float(getattr(correlation, "statistic", correlation))


# Metrics of labels and predictions.
SCORES: Mapping[str, Callable[..., float]] = {
    # A multi-label example counts if all its labels are right.
    "accuracy": accuracy,
    "f1": functools.partial(f1, classes=[1]),
    "f1_macro": f1,
    "f1_micro": functools.partial(f1, average="micro"),
    "matthews_correlation": functools.partial(
        _correlation, sklearn.metrics.matthews_corrcoef
    ),
    "pearson": functools.partial(_correlation, scipy.stats.pearsonr),
    "spearman": functools.partial(_correlation, scipy.stats.spearmanr),
    "mean_squared_error": sklearn.metrics.mean_squared_error,
    "mean_absolute_error": sklearn.metrics.mean_absolute_error,
}
# Metrics of labels and probabilities.
AREAS: Mapping[str, Callable[..., float]] = {
    "roc_auc": roc_auc,
    "average_precision": average_precision,
}


def names_for(
    labels: Sequence[str], *, multi_label: bool = False
) -> tuple[str, ...]:
    """Returns the metrics of a custom table, the primary metric first.

    >>> names_for(["ham", "spam"])[:3]
    ('accuracy', 'f1', 'f1_macro')

    A regression has no labels.
    """
    areas = tuple(AREAS)
    macro = tuple(f"{name}{_MACRO}" for name in AREAS)
    if not labels:
        return ("pearson", "spearman", *_ERRORS)
    if multi_label:
        return ("f1_micro", "f1_macro", "accuracy", *macro)
    if len(labels) == 2:
        return ("accuracy", "f1", "f1_macro", "matthews_correlation", *areas)
    return ("accuracy", "f1_macro", *macro)


def of_numbers(
    names: Sequence[str], labels: np.ndarray, predictions: np.ndarray
) -> Scores:
    """Scores a regression; labels and predictions are float `[N]`."""
    entries = []
    for name in names:
        role = Role.ERROR if name in _ERRORS else Role.SCORE
        entries.append(Score(name, SCORES[name](labels, predictions), role))
    return Scores(entries=tuple(entries))


def of_one_answer(name: str, labels: np.ndarray, num_labels: int) -> float:
    """Returns the best score of a constant prediction: the chance level.

    For multi-label examples, the constant is the k most frequent labels, with
    the best k.
    """
    if labels.ndim > 1:
        ranks = np.argsort(np.argsort(-labels.mean(axis=0), kind="stable"))
        constants = [(ranks < k).astype(int) for k in range(1, num_labels + 1)]
    elif num_labels == 2:
        constants = [np.array(0), np.array(1)]
    else:
        constants = [np.array(np.bincount(labels).argmax())]
    return max(
        SCORES[name](labels, np.broadcast_to(constant, labels.shape))
        for constant in constants
    )


def of_classes(
    name: str,
    labels: np.ndarray,
    predictions: np.ndarray,
    probabilities: np.ndarray,
    positive: int = 1,
) -> float:
    """Computes a metric of `names_for` on N examples of K classes.

    Labels and predictions are int `[N]`, or 0 and 1 `[N, K]` for multi-label
    examples; probabilities are float `[N, K]`. Some metrics of two classes
    score the `positive` class alone.
    """
    if name == "f1":
        return f1(labels, predictions, classes=[positive])
    if name in SCORES:
        return SCORES[name](labels, predictions)
    if name in AREAS:
        return AREAS[name](labels == positive, probabilities[:, positive])
    if labels.ndim == 1:
        labels = labels[:, None] == np.arange(probabilities.shape[1])
    area = AREAS[name.removesuffix(_MACRO)]
    areas = np.array([*map(area, labels.T, probabilities.T)])
    # A class without a label, or with no other label, has no area.
    areas = areas[~np.isnan(areas)]
    return float(areas.mean()) if areas.size else math.nan


def mcnemar(gains: int, losses: int) -> float:
    """Returns McNemar's exact p, of the answers that one of two has right.

    >>> mcnemar(5, 0)
    0.0625
    """
    either = gains + losses
    return float(scipy.stats.binomtest(gains, either).pvalue) if either else 1.0


def softmax(logits: np.ndarray) -> np.ndarray:
    """Returns probabilities, float32 `[..., K]`, of logits `[..., K]`."""
    probabilities = scipy.special.softmax(logits.astype(np.float64), axis=-1)
    return np.asarray(probabilities, np.float32)


def mean_logits(*rows: np.ndarray) -> np.ndarray:
    """Averages the logits `[..., K]` of several models.

    The softmax of the result is the mean of the models' probabilities. The sum
    of its exponentials is the geometric mean of their sums, because windows of
    a text are compared by these sums.
    """
    sums = scipy.special.logsumexp(rows, axis=-1, keepdims=True)
    shares = scipy.special.logsumexp(np.subtract(rows, sums), axis=0)
    return np.asarray(shares - math.log(len(rows)) + sums.mean(axis=0))


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Returns independent probabilities, float32, of logits."""
    probabilities = scipy.special.expit(logits.astype(np.float64))
    return np.asarray(probabilities, np.float32)
