"""Which pieces start a unit of masking.

Whole-word masking hides all pieces of a word or none. A piece that does not
start a unit belongs to the one before it.

Floor: text. Plain Python and NumPy.

Source: google-research/albert, create_pretraining_data._is_start_piece_sp and
_is_start_piece_bert.
"""

from collections.abc import Sequence

import numpy as np

_PUNCTUATION = frozenset('!"#$%&()*+,-./:;?@[\\]^_`{|}~')
_ENGLISH = frozenset("abcdefghijklmnopqrstuvwxyz") | _PUNCTUATION


def sentencepiece_word_starts(pieces: Sequence[str]) -> np.ndarray:
    """Returns bool `[V]`: does the piece start a unit?

    It does if it begins with `▁` or `<`, if it is one punctuation mark, or if
    it holds anything but English letters and punctuation: digits, the
    apostrophe and foreign characters are units of their own.

    >>> sentencepiece_word_starts(["▁it", "'", "s", "!", "!!", "7"]).tolist()
    [True, True, False, True, False, True]
    """
    return np.fromiter(map(_starts_word, pieces), bool, len(pieces))


def wordpiece_word_starts(pieces: Sequence[str]) -> np.ndarray:
    """Returns bool `[V]`: does the piece start a word?

    >>> wordpiece_word_starts(["play", "##ing", "[SEP]"]).tolist()
    [True, False, True]
    """
    return np.array([not piece.startswith("##") for piece in pieces], bool)


def _starts_word(piece: str) -> bool:
    return (
        piece.startswith(("▁", "<"))
        or piece in _PUNCTUATION
        or not _ENGLISH.issuperset(piece.lower())
    )
