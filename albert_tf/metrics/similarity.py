"""Scores texts that belong together: similarities, and ranks among all.

Data flow: vectors, or the words of texts -> [this file] -> ranks -> scores.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import scipy.sparse

# A Chinese character counts as a word.
_WORD = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+")
_ROWS_AT_A_TIME = 256


class Similarities(Protocol):
    """How similar N first texts are to N second ones."""

    def of_pairs(self) -> np.ndarray:
        """Returns that of each first text to its second one, float `[N]`."""

    def to_all(self, rows: slice, columns: np.ndarray) -> np.ndarray:
        """Returns those of R first texts to M second ones, float `[R, M]`."""


class Cosines(NamedTuple):
    """Cosines of vectors of length 1, float `[N, H]`."""

    first: np.ndarray
    second: np.ndarray

    def of_pairs(self) -> np.ndarray:
        """See `Similarities`."""
        return np.asarray(np.sum(self.first * self.second, axis=1))

    def to_all(self, rows: slice, columns: np.ndarray) -> np.ndarray:
        """See `Similarities`."""
        return np.asarray(self.first[rows] @ self.second[columns].T)


class WordOverlap:
    """The share of the words of two texts that both have (Jaccard)."""

    def __init__(self, first: Sequence[str], second: Sequence[str]) -> None:
        words = [{*_WORD.findall(text.lower())} for text in [*first, *second]]
        numbers = {
            word: i for i, word in enumerate({w for s in words for w in s})
        }
        columns = [numbers[word] for own in words for word in own]
        ends = np.cumsum([0, *map(len, words)])
        counts = scipy.sparse.csr_array(
            (np.ones(len(columns)), columns, ends),
            shape=(len(words), max(1, len(numbers))),
        )
        self._first, self._second = counts[: len(first)], counts[len(first) :]

    def of_pairs(self) -> np.ndarray:
        """See `Similarities`."""
        shared = self._first.multiply(self._second).sum(axis=1)
        return _jaccard(
            shared, self._first.sum(axis=1), self._second.sum(axis=1)
        )

    def to_all(self, rows: slice, columns: np.ndarray) -> np.ndarray:
        """See `Similarities`."""
        first, second = self._first[rows], self._second[columns]
        shared = (first @ second.T).toarray()
        sizes = first.sum(axis=1)[:, None], second.sum(axis=1)[None]
        return _jaccard(shared, *sizes)


def _jaccard(
    shared: np.ndarray, first: np.ndarray, second: np.ndarray
) -> np.ndarray:
    return np.asarray(shared / np.maximum(first + second - shared, 1))


def ranks(
    first: Sequence[str], second: Sequence[str], similarities: Similarities
) -> np.ndarray:
    """Returns the rank of each second text for its first one, int `[N]`.

    It is 1 if it is more similar than all second texts that are wrong. Not
    wrong are those that are equal to it, or belong to an equal first text.
    """
    _, chosen, numbers = np.unique(
        np.array(second, object), return_index=True, return_inverse=True
    )
    right: dict[str, set[int]] = {}
    for text, number in zip(first, numbers.tolist(), strict=True):
        right.setdefault(text, set()).add(number)
    found = []
    for start in range(0, len(first), _ROWS_AT_A_TIME):
        rows = slice(start, start + _ROWS_AT_A_TIME)
        scores = similarities.to_all(rows, chosen)
        own = scores[np.arange(len(scores)), numbers[rows]]
        for i, text in enumerate(first[rows]):
            scores[i, [*right[text]]] = -np.inf
        # Those that are equally similar come first, or vectors that are all
        # the same would be perfect.
        found.append(1 + np.sum(scores >= own[:, None], axis=1))
    return np.concatenate(found)


def recall_at(ranks: np.ndarray, most: int) -> float:
    """Returns the share of ranks that are at most a number.

    >>> recall_at(np.array([1, 3, 20, 1]), 10)
    0.75
    """
    return float(np.mean(ranks <= most))


def reciprocal_rank_at(ranks: np.ndarray, most: int) -> float:
    """Returns the mean of 1 / rank, where larger ranks than `most` count 0.

    >>> reciprocal_rank_at(np.array([1, 2, 20, 1]), 10)
    0.625
    """
    return float(np.mean(np.where(ranks <= most, 1 / ranks, 0)))
