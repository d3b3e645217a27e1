"""Finds labels that are probably wrong, by confident learning.

Source: Northcutt et al. 2021 (arXiv 1911.00068): the confident joint, section
3.1, and pruning by class, section 3.2.
"""

import numpy as np


def find(
    labels: np.ndarray, probabilities: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns rows with a doubtful label, and their likelier labels.

    The threshold of a class is its mean probability in the rows of this label.
    A row counts as the likeliest class that reaches its threshold; the share of
    rows of a label that count as others estimates how many of its labels are
    wrong. So many are doubtful: the least probable ones, if another class is
    likelier. Rows are sorted by the probability of their own label.

    Args:
        labels: Int `[N]`.
        probabilities: Float `[N, K]`, of models that were not trained on the
            rows which they answer.
    """
    own = probabilities[np.arange(len(labels)), labels].astype(np.float64)
    size = probabilities.shape[1]
    numbers = np.bincount(labels, minlength=size)
    sums = np.bincount(labels, weights=own, minlength=size)
    # A class without rows has no threshold, and is no row's label.
    possible = np.where(numbers > 0, probabilities, 0.0)
    reached = possible * (possible >= sums / np.maximum(1, numbers))
    counts = reached.any(axis=-1)
    is_other = counts & (reached.argmax(axis=-1) != labels)
    num_counted = np.bincount(labels[counts], minlength=size)
    num_others = np.bincount(labels[is_other], minlength=size)
    num_wrong = np.rint(numbers * num_others / np.maximum(1, num_counted))
    order = np.argsort(own, kind="stable")
    doubtful = np.zeros(len(labels), bool)
    for label, number in enumerate(num_wrong.astype(int)):
        doubtful[order[labels[order] == label][:number]] = True
    likelier = possible.argmax(axis=-1)
    rows = order[(doubtful & (likelier != labels))[order]]
    return rows, likelier[rows]
