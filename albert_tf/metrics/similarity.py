"""Similarities of texts, and the ranks of texts that belong together.

Data flow: one row a text (its vector, or 0 and 1 for each word) -> [this
file] -> similarities -> ranks.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import scipy.sparse
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.utils import extmath

# A Chinese character counts as a word.
_WORDS = HashingVectorizer(
    token_pattern=r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+",
    binary=True,
    norm=None,
    alternate_sign=False,
)
_ROWS_AT_A_TIME = 256
Rows: TypeAlias = np.ndarray | scipy.sparse.csr_array
# Takes the inner products of pairs of rows, of the first rows with themselves,
# and of the second rows with themselves.
Measure: TypeAlias = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def cosine(
    products: np.ndarray, first: np.ndarray, second: np.ndarray
) -> np.ndarray:
    """Measures vectors by the cosine of their angle."""
    return np.asarray(products / np.sqrt(first * second))


def jaccard(
    products: np.ndarray, first: np.ndarray, second: np.ndarray
) -> np.ndarray:
    """Measures texts by the share of their words that both have."""
    return np.asarray(products / np.maximum(first + second - products, 1))


def word_rows(texts: Sequence[str]) -> Rows:
    """Returns 1 for the words that are in N texts, sparse `[N, V]`."""
    return scipy.sparse.csr_array(_WORDS.transform(texts))


def of_pairs(
    first: Rows, second: Rows, measure: Measure = cosine
) -> np.ndarray:
    """Returns the similarity of rows with the same index, float `[N]`."""
    pairs = (first, second), (first, first), (second, second)
    return measure(*((a * b).sum(axis=1) for a, b in pairs))


def to_all(first: Rows, second: Rows, measure: Measure = cosine) -> np.ndarray:
    """Returns the similarity of N first rows to M second rows, `[N, M]`."""
    products = extmath.safe_sparse_dot(first, second.T, dense_output=True)
    squares, others = ((rows * rows).sum(axis=1) for rows in (first, second))
    return measure(products, squares[:, None], others)


def ranks(
    first_texts: Sequence[str | bytes],
    second_texts: Sequence[str | bytes],
    first: Rows,
    second: Rows,
    measure: Measure = cosine,
) -> np.ndarray:
    """Ranks each second text among all, by similarity to its first text.

    The rank, int `[N]`, is 1 if no wrong second text is as similar. A second
    text is not wrong if it equals the right one or the first text itself, or
    if it belongs to an equal first text. `first` and `second` are the rows of
    the texts.
    """
    texts = np.array([*first_texts, *second_texts], object)
    _, numbers = np.unique(texts, return_inverse=True)
    queries, answers = np.split(numbers, 2)
    candidates, chosen, own = np.unique(
        answers, return_index=True, return_inverse=True
    )
    is_right = scipy.sparse.csr_array(
        (np.ones(len(queries), bool), (queries, own))
    )
    result = []
    for start in range(0, len(queries), _ROWS_AT_A_TIME):
        rows = slice(start, start + _ROWS_AT_A_TIME)
        scores = to_all(first[rows], second[chosen], measure)
        right = scores[np.arange(len(scores)), own[rows]]
        scores[is_right[queries[rows]].toarray()] = -np.inf
        scores[queries[rows, None] == candidates] = -np.inf
        # An equal score counts as higher: equal vectors are not all first.
        result.append(1 + np.sum(scores >= right[:, None], axis=1))
    return np.concatenate(result)
