"""Scores texts that belong together: the rank of each among all.

Data flow: vectors, or words, of texts -> [this file] -> ranks.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse

# A Chinese character counts as a word.
_WORD = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+")
_ROWS_AT_A_TIME = 256


def word_matrix(texts: Sequence[str]) -> Any:
    """Returns which of V words are in N texts, sparse, 0 and 1 `[N, V]`."""
    words = [[*{*_WORD.findall(text.lower())}] for text in texts]
    flat = np.array([word for own in words for word in own] or [""], object)
    names, columns = np.unique(flat, return_inverse=True)
    ends = np.cumsum([0, *map(len, words)])
    values = np.ones(ends[-1]), columns[: ends[-1]], ends
    return scipy.sparse.csr_array(values, shape=(len(texts), len(names)))


def jaccard(first: Any, second: Any, *, of_pairs: bool = False) -> np.ndarray:
    """Returns the share of common words of two `word_matrix`es.

    It is that of each row of `first` and each of `second`, `[N, M]`; or, with
    `of_pairs`, of each row and the one beside it, `[N]`.
    """
    sizes, others = first.sum(axis=1), second.sum(axis=1)
    if of_pairs:
        shared = first.multiply(second).sum(axis=1)
    else:
        shared, sizes = (first @ second.T).toarray(), sizes[:, None]
    return np.asarray(shared / np.maximum(sizes + others - shared, 1))


def ranks(
    first: Sequence[str],
    second: Sequence[str],
    similarities: Callable[[slice, np.ndarray], np.ndarray],
) -> np.ndarray:
    """Returns the rank of each second text for its first one, int `[N]`.

    It is 1 if it is more similar than all second texts that are wrong. Not
    wrong are those that are equal to it, or belong to an equal first text.
    `similarities` are those of some first texts to M second ones, `[R, M]`.
    """
    _, chosen, numbers = np.unique(
        np.array(second, object), return_index=True, return_inverse=True
    )
    right: dict[str, list[int]] = {text: [] for text in first}
    for text, number in zip(first, numbers.tolist(), strict=True):
        right[text].append(number)
    found = []
    for start in range(0, len(first), _ROWS_AT_A_TIME):
        rows = slice(start, start + _ROWS_AT_A_TIME)
        scores = similarities(rows, chosen)
        own = scores[np.arange(len(scores)), numbers[rows]]
        for i, text in enumerate(first[rows]):
            scores[i, right[text]] = -np.inf
        # Of vectors that are all the same, none is found.
        found.append(1 + np.sum(scores >= own[:, None], axis=1))
    return np.concatenate(found)
