"""Computes scores of classification and regression, and knows their names.

Data flow: labels, probabilities, predictions -> [this file] -> scores by name.

Every score is a float, of N labels and N predictions. A correlation that is
not defined (one example, or constant values) is 0, as scikit-learn and the
reference define the Matthews correlation. The curves' areas take probabilities
in place of predictions, and are NaN where they are not defined.

Source: Wang et al. 2018 (GLUE), table 1: which task has which score.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.special
import scipy.stats
import sklearn.metrics

from albert_tf.metrics.scores import Role, Score, Scores

Values: TypeAlias = npt.ArrayLike
_ERRORS = ("mean_absolute_error", "mean_squared_error")
_MACRO = "_macro"
_OF_CLASS = ("precision", "recall", "f1", "number")


def f1(
    labels: Values,
    predictions: Values,
    *,
    average: str = "macro",
    classes: Sequence[int] | None = None,
) -> float:
    """Returns the mean F1 of all classes that occur, or of some; 0 to 1.

    A class occurs if it is a label or a prediction of an example, also where
    rows have several labels, arrays of 0 and 1 `[N, K]`.

    >>> f1([1, 1, 0, 0], [1, 0, 1, 0], classes=[1])
    0.5
    """
    if np.ndim(labels) > 1:
        occurs = np.array([labels, predictions]).any(axis=(0, 1))
        classes = [*np.flatnonzero(occurs)] or None  # None of all: 0
    score = sklearn.metrics.f1_score(
        labels, predictions, labels=classes, average=average, zero_division=0
    )
    return float(score)


def class_scores(
    labels: Values, predictions: Values, names: Sequence[str]
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


def roc_auc(labels: Values, scores: Values) -> float:
    """Returns the area under the ROC curve, 0 to 1, of labels 0 and 1.

    It is NaN if all labels are the same.

    >>> roc_auc([0, 0, 1, 1], [0.1, 0.4, 0.4, 0.8])
    0.875
    """
    if len(np.unique(labels)) < 2:
        return math.nan
    return float(sklearn.metrics.roc_auc_score(labels, scores))


def average_precision(labels: Values, scores: Values) -> float:
    """Returns the mean precision over all recalls, 0 to 1, of labels 0 and 1.

    It is NaN without a 1.

    >>> average_precision([0, 1, 0, 1], [0.1, 0.4, 0.4, 0.8])
    0.8333333333333333
    """
    if not np.any(labels):
        return math.nan
    return float(sklearn.metrics.average_precision_score(labels, scores))


def _correlation(correlate: Callable[..., Any], *values: Values) -> float:
    """Returns the correlation of two arrays, 0 if one of them is constant."""
    arrays = [np.asarray(each, np.float64) for each in values]
    if any((array == array[0]).all() for array in arrays):
        return 0.0
    found = correlate(*arrays)
    return float(getattr(found, "statistic", found))


# Of labels and predictions.
SCORES: Mapping[str, Callable[..., float]] = {
    # Of rows with several labels, all must be right.
    "accuracy": sklearn.metrics.accuracy_score,
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
# Of labels and probabilities.
AREAS: Mapping[str, Callable[..., float]] = {
    "roc_auc": roc_auc,
    "average_precision": average_precision,
}


def names_for(
    labels: Sequence[str], *, multi_label: bool = False
) -> tuple[str, ...]:
    """Returns the scores of a table of one's own, the primary metric first.

    >>> names_for(["ham", "spam"])[:3]
    ('accuracy', 'f1', 'f1_macro')

    There are no labels for regression.
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
    """Returns scores of a regression, of labels and predictions `[N]`."""
    entries = []
    for name in names:
        role = Role.ERROR if name in _ERRORS else Role.SCORE
        entries.append(Score(name, SCORES[name](labels, predictions), role))
    return Scores(entries=tuple(entries))


def of_one_answer(name: str, labels: np.ndarray, num_labels: int) -> float:
    """Returns the best score of one prediction for all N examples.

    With several labels a row, it is the most frequent ones, as many as are
    best.
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
    """Returns one score, of `names_for`, of N examples with K labels.

    Labels and predictions are int `[N]`; or 0 and 1 `[N, K]`, of rows with
    several; probabilities are float `[N, K]`. Of two labels, some scores are
    of the `positive` one.
    """
    if name == "f1":
        return f1(labels, predictions, classes=[positive])
    if name in SCORES:
        return SCORES[name](labels, predictions)
    if name in AREAS:
        return AREAS[name](labels == positive, probabilities[:, positive])
    if labels.ndim == 1:
        labels = labels[:, None] == np.arange(probabilities.shape[1])
    # Of the classes that have such an area.
    area = AREAS[name.removesuffix(_MACRO)]
    areas = np.array([*map(area, labels.T, probabilities.T)])
    areas = areas[~np.isnan(areas)]
    return float(areas.mean()) if areas.size else math.nan


def softmax(logits: np.ndarray) -> np.ndarray:
    """Returns probabilities, float32 `[..., K]`, of logits `[..., K]`."""
    probabilities = scipy.special.softmax(logits.astype(np.float64), axis=-1)
    return np.asarray(probabilities, np.float32)


def mean_logits(*rows: np.ndarray) -> np.ndarray:
    """Returns logits whose softmax is the mean of those of several models.

    The sum of their exponentials is kept, too, in the geometric mean, because
    windows of a text are compared by it. All are `[..., K]`.
    """
    sums = scipy.special.logsumexp(rows, axis=-1, keepdims=True)
    shares = scipy.special.logsumexp(np.subtract(rows, sums), axis=0)
    return np.asarray(shares - math.log(len(rows)) + sums.mean(axis=0))


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Returns independent probabilities, float32, of logits."""
    probabilities = scipy.special.expit(logits.astype(np.float64))
    return np.asarray(probabilities, np.float32)
