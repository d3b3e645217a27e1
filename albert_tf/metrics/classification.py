"""Scores of classification and regression: accuracy, F1, correlations.

Data flow: labels and predictions of a set -> [this file] -> `eval_results`.
Floor: metrics. NumPy, scikit-learn and SciPy.

Every score is a float; where the arithmetic has no answer (one example, or
constant numbers), a correlation is 0, as scikit-learn and the reference say
of the Matthews correlation.

Source: Wang et al. 2018 (GLUE), table 1: which score belongs to which task.

Logits to probabilities.

Floor: metrics. NumPy alone.
"""

import numpy as np
import numpy.typing as npt
import scipy.stats
import sklearn.metrics


def accuracy(labels: npt.ArrayLike, predictions: npt.ArrayLike) -> float:
    """Returns the share of predictions that equal their labels, 0 to 1.

    >>> accuracy([0, 1, 1, 2], [0, 1, 2, 2])
    0.75

    Args:
        labels: Int `[N]`.
        predictions: Int `[N]`.

    Raises:
        ValueError: There are no examples, or not as many predictions.
    """
    labels, predictions = _checked(labels, predictions)
    return float(sklearn.metrics.accuracy_score(labels, predictions))


def f1(labels: npt.ArrayLike, predictions: npt.ArrayLike) -> float:
    """Returns the F1 of label 1 among labels 0 and 1, 0 to 1.

    It is 0 if neither labels nor predictions hold a 1.

    >>> f1([1, 1, 0, 0], [1, 0, 1, 0])
    0.5

    Args:
        labels: Int `[N]`, 0 or 1.
        predictions: Int `[N]`, 0 or 1.

    Raises:
        ValueError: As `accuracy`.
    """
    labels, predictions = _checked(labels, predictions)
    return float(
        sklearn.metrics.f1_score(
            labels, predictions, labels=[1], average="macro", zero_division=0
        )
    )


def f1_macro(labels: npt.ArrayLike, predictions: npt.ArrayLike) -> float:
    """Returns the mean of the F1 of every label that occurs, 0 to 1.

    Args:
        labels: Int `[N]`.
        predictions: Int `[N]`.

    Raises:
        ValueError: As `accuracy`.
    """
    labels, predictions = _checked(labels, predictions)
    return float(
        sklearn.metrics.f1_score(
            labels, predictions, average="macro", zero_division=0
        )
    )


def matthews_correlation(
    labels: npt.ArrayLike, predictions: npt.ArrayLike
) -> float:
    """Returns the correlation of labels and predictions, -1 to 1.

    It is 0 if all predictions, or all labels, are the same.

    Args:
        labels: Int `[N]`.
        predictions: Int `[N]`.

    Raises:
        ValueError: As `accuracy`.
    """
    labels, predictions = _checked(labels, predictions)
    if _is_constant(labels) or _is_constant(predictions):
        return 0.0
    return float(sklearn.metrics.matthews_corrcoef(labels, predictions))


def pearson(labels: npt.ArrayLike, predictions: npt.ArrayLike) -> float:
    """Returns the linear correlation, -1 to 1; 0 if one side is constant.

    Args:
        labels: Float `[N]`.
        predictions: Float `[N]`.

    Raises:
        ValueError: As `accuracy`.
    """
    labels, predictions = _checked(labels, predictions)
    if _is_constant(labels) or _is_constant(predictions):
        return 0.0
    return float(scipy.stats.pearsonr(*_as_float64(labels, predictions))[0])


def spearman(labels: npt.ArrayLike, predictions: npt.ArrayLike) -> float:
    """Returns the correlation of the ranks; 0 if one side is constant.

    Args:
        labels: Float `[N]`.
        predictions: Float `[N]`.

    Raises:
        ValueError: As `accuracy`.
    """
    labels, predictions = _checked(labels, predictions)
    if _is_constant(labels) or _is_constant(predictions):
        return 0.0
    return float(scipy.stats.spearmanr(*_as_float64(labels, predictions))[0])


def mean_squared_error(
    labels: npt.ArrayLike, predictions: npt.ArrayLike
) -> float:
    """Returns the mean of the squared differences.

    Args:
        labels: Float `[N]`.
        predictions: Float `[N]`.

    Raises:
        ValueError: As `accuracy`.
    """
    labels, predictions = _as_float64(*_checked(labels, predictions))
    return float(sklearn.metrics.mean_squared_error(labels, predictions))


def _checked(
    labels: npt.ArrayLike, predictions: npt.ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    if labels.ndim != 1 or labels.shape != predictions.shape:
        raise ValueError(
            "Labels and predictions must be one number for each example. "
            f"Received: shapes {list(labels.shape)} and "
            f"{list(predictions.shape)}."
        )
    if not labels.size:
        raise ValueError("There are no examples to score. Pass at least one.")
    return labels, predictions


def _is_constant(values: np.ndarray) -> bool:
    return bool((values == values[0]).all())


def _as_float64(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(array.astype(np.float64) for array in arrays)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Returns probabilities, float32 `[..., K]`, of logits `[..., K]`."""
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=-1, keepdims=True)
    exponentials = np.exp(shifted)
    total = exponentials.sum(axis=-1, keepdims=True)
    return (exponentials / total).astype(np.float32)
