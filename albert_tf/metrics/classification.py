"""Computes scores of classification and regression.

Data flow: labels and predictions of a set -> [this file] -> `eval_results`.
Floor: metrics. NumPy, scikit-learn and SciPy.

Every score is a float, of N labels and N predictions: integers, or floats for
Pearson, Spearman and the squared error. A correlation that is not defined (one
example, or constant values) is 0, as scikit-learn and the reference define the
Matthews correlation. No examples, or arrays of other shapes, are a ValueError.

Source: Wang et al. 2018 (GLUE), table 1: which task has which score.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy.special
import scipy.stats
import sklearn.metrics


def accuracy(labels: npt.ArrayLike, predictions: npt.ArrayLike) -> float:
    """Returns the share of predictions that equal their labels, 0 to 1.

    >>> accuracy([0, 1, 1, 2], [0, 1, 2, 2])
    0.75
    """
    return float(sklearn.metrics.accuracy_score(*_checked(labels, predictions)))


def f1(labels: npt.ArrayLike, predictions: npt.ArrayLike) -> float:
    """Returns the F1 of label 1 among labels 0 and 1, 0 to 1.

    It is 0 if neither labels nor predictions contain a 1.

    >>> f1([1, 1, 0, 0], [1, 0, 1, 0])
    0.5
    """
    return float(
        sklearn.metrics.f1_score(
            *_checked(labels, predictions),
            labels=[1],
            average="macro",
            zero_division=0,
        )
    )


def f1_macro(labels: npt.ArrayLike, predictions: npt.ArrayLike) -> float:
    """Returns the mean of the F1 of every label that occurs, 0 to 1."""
    return float(
        sklearn.metrics.f1_score(
            *_checked(labels, predictions), average="macro", zero_division=0
        )
    )


def matthews_correlation(
    labels: npt.ArrayLike, predictions: npt.ArrayLike
) -> float:
    """Returns the Matthews correlation, -1 to 1."""
    values = _checked(labels, predictions)
    if _has_constant(values):
        return 0.0
    return float(sklearn.metrics.matthews_corrcoef(*values))


def pearson(labels: npt.ArrayLike, predictions: npt.ArrayLike) -> float:
    """Returns the linear correlation, -1 to 1."""
    values = _as_float64(*_checked(labels, predictions))
    if _has_constant(values):
        return 0.0
    return float(scipy.stats.pearsonr(*values)[0])


def spearman(labels: npt.ArrayLike, predictions: npt.ArrayLike) -> float:
    """Returns the rank correlation, -1 to 1."""
    values = _as_float64(*_checked(labels, predictions))
    if _has_constant(values):
        return 0.0
    return float(scipy.stats.spearmanr(*values)[0])


def mean_squared_error(
    labels: npt.ArrayLike, predictions: npt.ArrayLike
) -> float:
    """Returns the mean of the squared differences."""
    values = _as_float64(*_checked(labels, predictions))
    return float(sklearn.metrics.mean_squared_error(*values))


def softmax(logits: np.ndarray) -> np.ndarray:
    """Returns probabilities, float32 `[..., K]`, of logits `[..., K]`."""
    probabilities = scipy.special.softmax(logits.astype(np.float64), axis=-1)
    return probabilities.astype(np.float32)


def _checked(
    labels: npt.ArrayLike, predictions: npt.ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    if labels.ndim != 1 or labels.shape != predictions.shape:
        raise ValueError(
            "Labels and predictions must have one number for each example. "
            f"Received: shapes {list(labels.shape)} and "
            f"{list(predictions.shape)}."
        )
    if not labels.size:
        raise ValueError("There are no examples to score. Pass at least one.")
    return labels, predictions


def _has_constant(arrays: Sequence[np.ndarray]) -> bool:
    return any((array == array[0]).all() for array in arrays)


def _as_float64(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(array.astype(np.float64) for array in arrays)
