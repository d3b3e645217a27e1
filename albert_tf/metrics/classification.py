"""Computes scores of classification and regression.

Every score is a float, of N labels and N predictions. A correlation that is
not defined (one example, or constant values) is 0, as scikit-learn and the
reference define the Matthews correlation. The curves' areas take probabilities
in place of predictions, and are NaN where they are not defined.

Source: Wang et al. 2018 (GLUE), table 1: which task has which score.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.special
import scipy.stats
import sklearn.metrics

Values: TypeAlias = npt.ArrayLike


def accuracy(labels: Values, predictions: Values) -> float:
    """Returns the share of predictions that equal their labels, 0 to 1.

    Of rows with several labels, arrays of 0 and 1 `[N, K]`, all must be equal.
    """
    return float(sklearn.metrics.accuracy_score(labels, predictions))


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
    labels: Values, predictions: Values, num_classes: int
) -> list[tuple[float, float, float, int]]:
    """Returns precision, recall, F1 and number of labels of each class.

    >>> class_scores([1, 1, 0, 0], [1, 1, 1, 0], 2)[1]
    (0.6666666666666666, 1.0, 0.8, 2)
    """
    columns = sklearn.metrics.precision_recall_fscore_support(
        labels, predictions, labels=range(num_classes), zero_division=0
    )
    return list(zip(*(column.tolist() for column in columns), strict=True))


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


def _error(mean_error: Callable[..., Any], *values: Values) -> float:
    """Returns the mean difference of two arrays, or of the squared one."""
    return float(mean_error(*(np.asarray(x, np.float64) for x in values)))


# All take labels and predictions.
matthews_correlation = functools.partial(
    _correlation, sklearn.metrics.matthews_corrcoef
)
pearson = functools.partial(_correlation, scipy.stats.pearsonr)
spearman = functools.partial(_correlation, scipy.stats.spearmanr)
mean_squared_error = functools.partial(
    _error, sklearn.metrics.mean_squared_error
)
mean_absolute_error = functools.partial(
    _error, sklearn.metrics.mean_absolute_error
)


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
