"""Normalizes text before tokenization, and traces characters to their origin.

Data flow: raw text -> [this file] -> SentencePiece.

Characters are replaced one at a time, by a table, so the origin of a character
follows from the lengths of the replacements. `word_splitting.py` does the same
for WordPiece.

Source: google-research/albert, tokenization.preprocess_text.
"""

import dataclasses
import functools
import itertools
import re
import unicodedata
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

_LAST_ASCII = 127
WORD = re.compile(r"\S+")
REPLACEMENT_CHARACTER = "\ufffd"


class _CharacterTable(dict[int, str]):
    """A table for `str.translate` that computes entries on first use."""

    def __init__(self, rule: Callable[[str], str]) -> None:
        super().__init__()
        self._rule = rule

    def __missing__(self, code_point: int) -> str:
        replacement = self[code_point] = self._rule(chr(code_point))
        return replacement


@dataclasses.dataclass(frozen=True, kw_only=True)
class TracedText:
    """Normalized text with the raw span of each of its characters.

    Raw characters that were removed, such as accents, belong to the character
    before them.
    """

    text: str
    starts: np.ndarray  # int64 `[len(text)]`, raw code points
    ends: np.ndarray
    raw_size: int  # code points of the raw text

    def raw_spans(self, spans: npt.ArrayLike) -> np.ndarray:
        """Maps spans of `text` to spans of the raw text, without outer spaces.

        A span that is empty or has only spaces becomes an empty span where the
        next character starts. Neither starts nor ends decrease. The spans are
        `[n, 2]`; the result is int64 `[2, n]`, starts and ends.
        """
        starts, ends = np.asarray(spans, np.int64).reshape(-1, 2).T
        solid = np.flatnonzero(_code_points(self.text) != ord(" "))
        solid = np.append(solid, len(self.text))
        # The first and the last character of each span that are not spaces.
        first = np.minimum(solid[solid.searchsorted(starts)], ends)
        last = solid[solid.searchsorted(ends) - 1]
        raw_starts = np.append(self.starts, self.raw_size)[first]
        raw_ends = np.append(self.ends, self.raw_size)[last]
        raw_ends = np.where(first < ends, raw_ends, raw_starts)
        return np.maximum.accumulate([raw_starts, raw_ends], axis=1)


def normalize(
    text: str, *, do_lower_case: bool, keep_accents: bool = False
) -> str:
    """Normalizes text for SentencePiece models such as the released ones.

    Runs of white space become one space; compatibility characters are
    decomposed (NFKD) and combining marks removed, even from cased text, unless
    `keep_accents`; and letters are lower-cased if `do_lower_case`.

    >>> normalize("  Café ﬁ １２３ ½", do_lower_case=True)
    'cafe fi 123 1⁄2'
    """
    text = " ".join(text.split())
    if not text.isascii():
        options = {"do_lower_case": do_lower_case, "keep_accents": keep_accents}
        text = text.translate(character_table(_decompose, **options))
    # Lower-casing keeps the length: the only character that grows, U+0130, has
    # been replaced.
    return text.lower() if do_lower_case else text


def trace_all(
    texts: Sequence[str], normalized: Sequence[str], **options: bool
) -> TracedText:
    """Traces `" ".join(normalized)`, of `normalize`, to `" ".join(texts)`."""
    table = character_table(_decompose, **options)
    collapsed = [" ".join(text.split()) for text in texts]
    starts = starts_of(texts)
    origins = [np.zeros(0, np.int64)]
    for start, text, words in zip(starts, texts, collapsed, strict=True):
        origins.append(start + _origins(text, words))
    joined = " ".join(collapsed)
    sizes = np.ones(len(joined), np.int64)
    for index in np.flatnonzero(_code_points(joined) > _LAST_ASCII).tolist():
        sizes[index] = len(table[ord(joined[index])])
    return trace(
        " ".join(normalized),
        # There is no space before the first text.
        np.concatenate(origins)[1:],
        sizes,
        raw_size=len(" ".join(texts)),
    )


def starts_of(texts: Sequence[str]) -> np.ndarray:
    """Returns where each text starts in `" ".join(texts)`, int64 `[n]`.

    >>> starts_of(["It", "is", ""]).tolist()
    [0, 3, 6]
    """
    sizes = np.array([len(text) + 1 for text in texts], np.int64)
    return sizes.cumsum() - sizes


@functools.cache
def character_table(
    rule: Callable[..., str], **options: bool
) -> dict[int, str]:
    """Returns a table for `str.translate` that a rule for characters fills."""
    return _CharacterTable(functools.partial(rule, **options))


def _origins(text: str, words: str) -> np.ndarray:
    """Returns where the words of a text, joined by single spaces, come from.

    That is -1, for a space before the text, and then the position in `text` of
    each character of `words`; a space is the last one before a word.
    """
    if len(words) == len(text):
        return np.arange(-1, len(text))
    spaced = (range(w.start() - 1, w.end()) for w in WORD.finditer(text))
    positions = list(itertools.chain.from_iterable(spaced))
    positions[:1] = [-1]
    return np.array(positions)


def trace(
    text: str, origins: np.ndarray, sizes: np.ndarray, *, raw_size: int
) -> TracedText:
    """Follows each character of `text` back to the raw one that became it.

    `origins` are positions in the raw text, increasing; `sizes` say how many
    characters each of them became.
    """
    starts = np.repeat(origins, sizes)
    ends = starts + 1
    sizes_so_far = np.cumsum(sizes)
    for vanished in np.flatnonzero(sizes == 0):
        before = sizes_so_far[vanished] - 1
        if before >= 0 and text[before] != " ":
            ends[before] = origins[vanished] + 1
    return TracedText(text=text, starts=starts, ends=ends, raw_size=raw_size)


def _code_points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<i4")


def _decompose(
    character: str, *, do_lower_case: bool = False, keep_accents: bool = False
) -> str:
    if "\ud800" <= character <= "\udfff":
        # A lone surrogate, from a damaged JSON escape, cannot be encoded.
        return REPLACEMENT_CHARACTER
    if keep_accents:
        lower = character.lower() if do_lower_case else ""
        return lower if len(lower) > 1 else character
    decomposed = unicodedata.normalize("NFKD", character)
    return "".join(c for c in decomposed if not unicodedata.combining(c))
