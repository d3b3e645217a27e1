"""The five tokens that text never becomes, found by name.

Floor: text. Plain Python.

Which tokens start a unit of masking.

Whole-word masking hides all tokens of a word or none. A token that does not
start a unit belongs to the one before it.

Floor: text. Plain Python and NumPy.

Source: google-research/albert, create_pretraining_data._is_start_token_sp and
_is_start_token_bert.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from albert_tf import files


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpecialIds:
    """Ids of the special tokens.

    Args:
        pad: `<pad>` (SentencePiece) or `[PAD]` (WordPiece).
        unk: `<unk>` or `[UNK]`.
        cls: `[CLS]`.
        sep: `[SEP]`.
        mask: `[MASK]`.
    """

    pad: int
    unk: int
    cls: int
    sep: int
    mask: int


SENTENCEPIECE_NAMES = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
WORDPIECE_NAMES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def find_special_ids(
    ids: Mapping[str, int], names: Sequence[str], vocabulary: files.Path
) -> SpecialIds:
    """Looks the special tokens up.

    Args:
        ids: Id of every token.
        names: Tokens of `pad`, `unk`, `cls`, `sep`, `mask`, in this order.
        vocabulary: The file, for the error.

    Raises:
        ValueError: One is missing; the message names it.
    """
    missing = [name for name in names if name not in ids]
    if missing:
        raise ValueError(
            f"{vocabulary}: the vocabulary has no token "
            f"{', '.join(missing)}, which ALBERT needs. Use the vocabulary "
            "of an ALBERT checkpoint, or make one with build_vocab.py."
        )
    pad, unk, cls, sep, mask = (ids[name] for name in names)
    return SpecialIds(pad=pad, unk=unk, cls=cls, sep=sep, mask=mask)


_PUNCTUATION = frozenset('!"#$%&()*+,-./:;?@[\\]^_`{|}~')
_ENGLISH = frozenset("abcdefghijklmnopqrstuvwxyz") | _PUNCTUATION


def sentencepiece_word_starts(tokens: Sequence[str]) -> np.ndarray:
    """Returns bool `[V]`: does the token start a unit?

    It does if it begins with `▁` or `<`, if it is one punctuation mark, or if
    it holds anything but English letters and punctuation: digits, the
    apostrophe and foreign characters are units of their own.

    >>> sentencepiece_word_starts(["▁it", "'", "s", "!", "!!", "7"]).tolist()
    [True, True, False, True, False, True]
    """
    return np.fromiter(map(_starts_word, tokens), bool, len(tokens))


def wordpiece_word_starts(tokens: Sequence[str]) -> np.ndarray:
    """Returns bool `[V]`: does the token start a word?

    >>> wordpiece_word_starts(["play", "##ing", "[SEP]"]).tolist()
    [True, False, True]
    """
    return np.array([not token.startswith("##") for token in tokens], bool)


def _starts_word(token: str) -> bool:
    return (
        token.startswith(("▁", "<"))
        or token in _PUNCTUATION
        or not _ENGLISH.issuperset(token.lower())
    )
