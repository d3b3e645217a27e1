"""Finds documents that are in the corpus several times, or nearly so.

Data flow: documents -> hashes of each -> documents to leave out.
NumPy; datasketch is imported when near-duplicates are looked for.

A document is left out if it has a hash in common with one that comes before it
in the corpus. So the first one stays, and the result depends on the corpus
alone. White space and capital letters make no difference.

- exact: the hash is of the text.
- minhash: the hashes are of bands of the document's MinHash signature, the
  sets of its sequences of five words. Two documents with the Jaccard similarity
  s have one in common with the probability 1 - (1 - s^r)^b, where the numbers b
  of bands and r of values in each are chosen by datasketch for a threshold. Its
  index takes kilobytes for each document; here, 8 b bytes are sorted.

Source: Broder 1997, "On the resemblance and containment of documents";
Leskovec, Rajaraman and Ullman, "Mining of Massive Datasets", section 3.4.
"""

import dataclasses
import functools
import hashlib
import itertools
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf import checks
from albert_tf.data import corpus
from albert_tf.data.corpus import FileContents
from albert_tf.data.shards import Duplicates
from albert_tf.text import documents
from albert_tf.text.documents import Document

# Share of their sequences of words that near-duplicates have in common.
_THRESHOLD = 0.8

# Of 100 million documents, one is taken for another with a chance of 0.03%.
_HASH_SIZE = 8
_NUM_PERMUTATIONS = 128
_SHINGLE_WORDS = 5
# Sequences that are hashed together: 2 MiB at a time.
_BATCH_SHINGLES = 4096
# A character of Chinese, Japanese or Korean text counts as a word.
_WORD = re.compile(rf"(?=\w)[{documents.CJK}]|[^\W{documents.CJK}]+")


class Measures(NamedTuple):
    """Measures of N documents, in their order.

    `sizes` and `characters` are uint32 [N]; `hashes` is uint64 [N, number of
    hashes].
    """

    sizes: np.ndarray
    characters: np.ndarray
    hashes: np.ndarray


class Deduplicator:
    """Finds documents by a method, `exact` or `minhash`."""

    def __init__(self, method: str) -> None:
        # An exact hash is of no value of a signature.
        self._shape = _bands() if method == "minhash" else (1, 0)

    def hashes(self, document: Document) -> list[int]:
        """Returns the hashes of a document, 64 bits each."""
        num_bands, num_rows = self._shape
        text = document.text.casefold()
        words = _WORD.findall(text) if num_rows else []
        if not words:
            return [_hash(" ".join(text.split()).encode())] * num_bands
        signature = _signature(words)[: num_bands * num_rows]
        bands = signature.astype("<u4").reshape(num_bands, num_rows)
        return [_hash(band.tobytes()) for band in bands]

    def measure(self, documents: Sequence[Document]) -> Measures:
        """Returns the measures of documents."""
        hashes = [self.hashes(document) for document in documents]
        return Measures(
            np.array([document.size for document in documents], np.uint32),
            np.array([len(document.text) for document in documents], np.uint32),
            np.array(hashes, np.uint64).reshape(-1, self._shape[0]),
        )

    def leave_out(
        self, contents: Sequence[FileContents]
    ) -> tuple[list[FileContents], Duplicates]:
        """See `corpus.Deduplicator`."""
        empty = self.measure([])
        measures = [
            Measures(
                *map(np.concatenate, zip(empty, *file.measures, strict=True))
            )
            for file in contents
        ]
        is_left_out = find_duplicates([of_file.hashes for of_file in measures])
        remaining = [
            dataclasses.replace(
                file,
                block_sizes=[
                    *map(
                        sum, corpus.divide(of_file.sizes[~is_out].tolist(), int)
                    )
                ],
                is_left_out=is_out,
                measures=(),
            )
            for file, of_file, is_out in zip(
                contents, measures, is_left_out, strict=True
            )
        ]
        characters = sum(
            int(of_file.characters[is_out].sum())
            for of_file, is_out in zip(measures, is_left_out, strict=True)
        )
        num_documents = sum(int(is_out.sum()) for is_out in is_left_out)
        duplicates = Duplicates(documents=num_documents, characters=characters)
        return remaining, duplicates


def find_duplicates(hashes: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Returns which documents have a hash in common with an earlier one.

    A hash is compared with the hashes of its column only. `hashes` has an array
    for each file, in order; so has the result, bool [N].
    """
    ends = np.cumsum([len(of_file) for of_file in hashes])
    is_duplicate = np.zeros(ends[-1], bool)
    for index in range(hashes[0].shape[1]):
        column = np.concatenate([of_file[:, index] for of_file in hashes])
        order = np.argsort(column, kind="stable")
        column = column[order]
        is_duplicate[order[1:][column[1:] == column[:-1]]] = True
    return np.split(is_duplicate, ends[:-1])


def _hash(data: bytes) -> int:
    digest = hashlib.blake2b(data, digest_size=_HASH_SIZE).digest()
    return int.from_bytes(digest, "little")


@functools.cache
def _bands() -> tuple[int, int]:
    """Returns the numbers of bands, and of values in each."""
    with checks.needs_package("datasketch", "`deduplicate`='minhash'"):
        import datasketch
    index = datasketch.MinHashLSH(
        threshold=_THRESHOLD, num_perm=_NUM_PERMUTATIONS
    )
    return index.b, index.r


def _signature(words: list[str]) -> np.ndarray:
    """Returns the MinHash of the sequences of words, uint32."""
    signature = _empty_signature().copy()
    num_shingles = max(1, len(words) - _SHINGLE_WORDS + 1)
    shingles = (
        " ".join(words[first : first + _SHINGLE_WORDS]).encode()
        for first in range(num_shingles)
    )
    while batch := list(itertools.islice(shingles, _BATCH_SHINGLES)):
        signature.update_batch(batch)
    return np.asarray(signature.hashvalues)


@functools.cache
def _empty_signature() -> Any:
    from datasketch import MinHash

    return MinHash(num_perm=_NUM_PERMUTATIONS, seed=1, scheme="affine32")
