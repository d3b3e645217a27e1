"""Scores texts that belong together: how similar they are, and its rank.

Data flow: rows of texts (vectors, or the words that are in them) -> [this
file] -> similarities -> ranks.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

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
# Of inner products: of two rows, of the first with itself, of the second.
Measure: TypeAlias = Callable[[Any, Any, Any], Any]


def cosine(products: Any, first: Any, second: Any) -> Any:
    """The `Measure` of vectors."""
    return products / np.sqrt(first * second)


def jaccard(products: Any, first: Any, second: Any) -> Any:
    """The `Measure` of words: the share of those in common."""
    return products / np.maximum(first + second - products, 1)


def word_rows(texts: Sequence[str]) -> Any:
    """Returns which words are in N texts, sparse, 0 and 1 `[N, V]`."""
    return scipy.sparse.csr_array(_WORDS.transform(texts))


def of_pairs(first: Any, second: Any, measure: Measure = cosine) -> np.ndarray:
    """Returns the similarity of each row and the one beside it, `[N]`."""
    pairs = (first, second), (first, first), (second, second)
    return np.asarray(measure(*((a * b).sum(axis=1) for a, b in pairs)))


def to_all(first: Any, second: Any, measure: Measure = cosine) -> np.ndarray:
    """Returns the similarity of N rows to each of M others, `[N, M]`."""
    products = extmath.safe_sparse_dot(first, second.T, dense_output=True)
    own, others = ((rows * rows).sum(axis=1) for rows in (first, second))
    return np.asarray(measure(products, own[:, None], others))


def ranks(
    first_texts: Sequence[str],
    second_texts: Sequence[str],
    first: Any,
    second: Any,
    measure: Measure = cosine,
) -> np.ndarray:
    """Returns the rank of each second text for its first one, int `[N]`.

    It is 1 if it is more similar than all second texts that are wrong. Not
    wrong are those that are equal to it, or belong to an equal first text.
    `first` and `second` are the rows of the texts.
    """
    _, queries = np.unique(np.array(first_texts, object), return_inverse=True)
    _, chosen, numbers = np.unique(
        np.array(second_texts, object), return_index=True, return_inverse=True
    )
    is_right = scipy.sparse.csr_array(
        (np.ones(len(queries), bool), (queries, numbers))
    )
    found = []
    for start in range(0, len(queries), _ROWS_AT_A_TIME):
        rows = slice(start, start + _ROWS_AT_A_TIME)
        scores = to_all(first[rows], second[chosen], measure)
        own = scores[np.arange(len(scores)), numbers[rows]]
        scores[is_right[queries[rows]].toarray()] = -np.inf
        # Of vectors that are all the same, none is found.
        found.append(1 + np.sum(scores >= own[:, None], axis=1))
    return np.concatenate(found)
