"""Finds tokens with a special role: `[CLS]` and the like, and word starts.

The five special tokens are found by name; no text is encoded to them. Word
starts are for whole-word masking, which masks all tokens of a word or none: a
token that does not start a word belongs to the word before it.

Floor: text. Plain Python and NumPy.

Source: google-research/albert, create_pretraining_data._is_start_token_sp and
_is_start_token_bert.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from albert_tf import files

SENTENCEPIECE_NAMES = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
WORDPIECE_NAMES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

_PUNCTUATION = frozenset('!"#$%&()*+,-./:;?@[\\]^_`{|}~')
_ENGLISH = frozenset("abcdefghijklmnopqrstuvwxyz") | _PUNCTUATION


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpecialIds:
    """Ids of the special tokens.

    `pad` and `unk` are `<pad>` and `<unk>` in SentencePiece, `[PAD]` and
    `[UNK]` in WordPiece.
    """

    pad: int
    unk: int
    cls: int
    sep: int
    mask: int


def find_special_ids(
    ids: Mapping[str, int], names: Sequence[str], vocabulary: files.Path
) -> SpecialIds:
    """Looks up the special tokens.

    Args:
        ids: Id of every token.
        names: Tokens of `pad`, `unk`, `cls`, `sep`, `mask`, in this order.
        vocabulary: The vocabulary file, for the error.

    Raises:
        ValueError: One is missing; the message names it.
    """
    missing = [name for name in names if name not in ids]
    if missing:
        raise ValueError(
            f"{vocabulary}: the vocabulary has no token "
            f"{', '.join(missing)}, which ALBERT needs. Use the vocabulary "
            "of an ALBERT checkpoint, or train one with build_vocab.py."
        )
    pad, unk, cls, sep, mask = (ids[name] for name in names)
    return SpecialIds(pad=pad, unk=unk, cls=cls, sep=sep, mask=mask)


def sentencepiece_word_starts(tokens: Sequence[str]) -> np.ndarray:
    """Returns bool `[V]`: whether each token starts a word.

    It does if it begins with `▁` or `<`, if it is one punctuation mark, or if
    it has any character other than English letters and punctuation: digits,
    the apostrophe and foreign characters count as words of their own.

    >>> sentencepiece_word_starts(["▁it", "'", "s", "!", "!!", "7"]).tolist()
    [True, True, False, True, False, True]
    """
    return np.fromiter(map(_starts_word, tokens), bool, len(tokens))


def wordpiece_word_starts(tokens: Sequence[str]) -> np.ndarray:
    """Returns bool `[V]`: whether each token starts a word.

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
