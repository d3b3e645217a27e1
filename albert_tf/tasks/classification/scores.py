"""Names and values of the scores of classification and regression.

Data flow: labels, probabilities, predictions -> [this file] -> scores by name.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from albert_tf.metrics import classification
from albert_tf.metrics.scores import Role, Score, Scores

# Of predictions.
SCORES: Mapping[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": classification.accuracy,
    "f1": functools.partial(classification.f1, classes=[1]),
    "f1_macro": classification.f1,
    "f1_micro": functools.partial(classification.f1, average="micro"),
    "matthews_correlation": classification.matthews_correlation,
    "pearson": classification.pearson,
    "spearman": classification.spearman,
    "mean_squared_error": classification.mean_squared_error,
    "mean_absolute_error": classification.mean_absolute_error,
}
# Of probabilities.
AREAS = {
    "roc_auc": classification.roc_auc,
    "average_precision": classification.average_precision,
}
_ERRORS = ("mean_absolute_error", "mean_squared_error")
_MACRO = "_macro"


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
) -> float:
    """Returns one score, of `names_for`, of N examples with K labels.

    Labels and predictions are int `[N]`; or 0 and 1 `[N, K]`, of rows with
    several; probabilities are float `[N, K]`.
    """
    if name in SCORES:
        return SCORES[name](labels, predictions)
    if name in AREAS:
        return AREAS[name](labels, probabilities[:, 1])
    if labels.ndim == 1:
        labels = labels[:, None] == np.arange(probabilities.shape[1])
    # Of the classes that have such an area.
    area = AREAS[name.removesuffix(_MACRO)]
    areas = np.array([*map(area, labels.T, probabilities.T)])
    areas = areas[~np.isnan(areas)]
    return float(areas.mean()) if areas.size else math.nan
