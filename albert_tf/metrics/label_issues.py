"""Finds labels that are probably wrong, by confident learning.

Source: Northcutt et al. 2021 (arXiv 1911.00068), equations 1 and 2.
"""

import numpy as np


def find(
    labels: np.ndarray, probabilities: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns rows with a doubtful label, and their likelier labels.

    The threshold of a class is its mean probability in the rows of this label.
    A label is doubtful if another class is likelier and reaches its threshold;
    of several such classes, the likeliest counts. Rows come in the order of
    the probability of their own label, the lowest first.

    Args:
        labels: Int `[N]`.
        probabilities: Float `[N, K]`, of models that were not trained on the
            rows which they answer.
    """
    own = probabilities[np.arange(len(labels)), labels].astype(np.float64)
    size = probabilities.shape[1]
    counts = np.bincount(labels, minlength=size)
    sums = np.bincount(labels, weights=own, minlength=size)
    thresholds = sums / np.maximum(1, counts)
    # A class without a row has no threshold, so no label can be meant for it.
    reaches = (probabilities >= thresholds) & (counts > 0)
    reached = np.where(reaches, probabilities, 0.0)
    likelier = reached.argmax(axis=-1)
    (rows,) = np.nonzero(reached.max(axis=-1, initial=0.0) > own)
    rows = rows[np.argsort(own[rows], kind="stable")]
    return rows, likelier[rows]
