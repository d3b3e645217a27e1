"""Text before it is cut into pieces, and where its characters came from.

Data flow: raw text -> [this file] -> SentencePiece or WordPiece.
Floor: text. Plain Python and NumPy.

Two pipelines, because the released checkpoints need two: the English ones
(`normalize`) and the Chinese ones (`split_words`). Both change characters one
at a time, by a table, so the origin of a character follows from the lengths.

Source: google-research/albert, tokenization.preprocess_text and
tokenization.BasicTokenizer.
"""

import dataclasses
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence

import numpy as np

_WORD = re.compile(r"\S+")
_REPLACEMENT_CHARACTER = "\ufffd"


class _CharacterTable(dict[int, str]):
    """For `str.translate`: computes an entry when it is first asked for."""

    def __init__(self, rule: Callable[[str], str]) -> None:
        super().__init__()
        self._rule = rule

    def __missing__(self, code_point: int) -> str:
        replacement = self[code_point] = self._rule(chr(code_point))
        return replacement


@dataclasses.dataclass(frozen=True, kw_only=True)
class TracedText:
    """Normalised text with the raw span of each of its characters.

    Args:
        text: The normalised text.
        starts: Int64 `[len(text)]`, first raw code point of each character.
        ends: Int64 `[len(text)]`, one past its last raw code point. Raw
            characters that left nothing behind, such as accents, belong to
            the character before them.
        raw_size: Number of code points of the raw text.
    """

    text: str
    starts: np.ndarray
    ends: np.ndarray
    raw_size: int

    def raw_spans(
        self, spans: Iterable[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        """Maps spans of `text` to spans of the raw text, without outer spaces.

        A span of spaces only, or of nothing, becomes an empty one where the
        next character starts. Starts never decrease, nor do ends.
        """
        raw: list[tuple[int, int]] = []
        last_start = last_end = 0
        for start, end in spans:
            start, end = self._raw_span(start, end)
            last_start = max(start, last_start)
            last_end = max(end, last_end)
            raw.append((last_start, last_end))
        return raw

    def _raw_span(self, start: int, end: int) -> tuple[int, int]:
        part = self.text[start:end]
        start += len(part) - len(part.lstrip(" "))
        if start < end:
            last = start + len(part.strip(" ")) - 1
            return int(self.starts[start]), int(self.ends[last])
        at_end = start == len(self.text)
        here = self.raw_size if at_end else int(self.starts[start])
        return here, here


def normalize(text: str, *, do_lower_case: bool) -> str:
    """Prepares text for the released SentencePiece models.

    Runs of white space become one space, compatibility characters are
    decomposed (NFKD), combining marks are dropped, even from cased text, and
    letters are made lower case if asked.

    >>> normalize("  Café ﬁ １２３ ½", do_lower_case=True)
    'cafe fi 123 1⁄2'
    """
    text = " ".join(text.split())
    if not text.isascii():
        text = text.translate(_DECOMPOSED)
    # Lower-casing keeps the length: the one character of Unicode that grows,
    # U+0130, has been decomposed.
    return text.lower() if do_lower_case else text


def normalize_traced(text: str, *, do_lower_case: bool) -> TracedText:
    """Returns `normalize(text)` together with raw spans."""
    normalized = normalize(text, do_lower_case=do_lower_case)
    parts: list[str] = []
    origins: list[int] = []
    for word in _WORD.finditer(text):
        if parts:
            parts.append(" ")
            origins.append(word.start() - 1)
        parts += [_DECOMPOSED[ord(character)] for character in word.group()]
        origins += range(word.start(), word.end())
    return _trace(text, normalized, origins, parts)


def split_words(text: str, *, do_lower_case: bool) -> list[str]:
    """Cuts text into the words and punctuation marks that WordPiece takes.

    Control characters are dropped, Chinese characters and punctuation marks
    stand alone, and, if asked, letters are made lower case and lose accents.

    >>> split_words("Café，你好!", do_lower_case=True)
    ['cafe', '，', '你', '好', '!']
    """
    return _space_words(text, do_lower_case=do_lower_case).split()


def split_words_traced(
    text: str, *, do_lower_case: bool
) -> tuple[TracedText, list[tuple[int, int]]]:
    """Returns normalised text with raw spans, and where its words lie."""
    spaced = _space_words(text, do_lower_case=do_lower_case)
    parts = [
        _space_words(character, do_lower_case=do_lower_case)
        for character in text
    ]
    traced = _trace(text, spaced, range(len(text)), parts)
    return traced, [word.span() for word in _WORD.finditer(spaced)]


def _space_words(text: str, *, do_lower_case: bool) -> str:
    text = text.translate(_CLEANED)
    if do_lower_case:
        text = unicodedata.normalize("NFD", text.lower())
        return text.translate(_SPACED_WITHOUT_ACCENTS)
    return text.translate(_SPACED)


def _trace(
    raw: str, text: str, origins: Sequence[int], parts: Iterable[str]
) -> TracedText:
    """Follows each character of `text` back to the raw one that became it.

    Args:
        raw: The raw text.
        text: The normalised text.
        origins: Positions in `raw`, rising.
        parts: What the character at each origin became, up to case.
    """
    sizes = np.fromiter(map(len, parts), np.int64)
    positions = np.asarray(origins, np.int64)
    starts = np.repeat(positions, sizes)
    ends = starts + 1
    sizes_so_far = np.cumsum(sizes)
    for vanished in np.flatnonzero(sizes == 0):
        before = sizes_so_far[vanished] - 1
        if before >= 0 and text[before] != " ":
            ends[before] = positions[vanished] + 1
    return TracedText(text=text, starts=starts, ends=ends, raw_size=len(raw))


def _decompose(character: str) -> str:
    if "\ud800" <= character <= "\udfff":
        # Half a surrogate pair, from a damaged JSON escape: not encodable.
        return _REPLACEMENT_CHARACTER
    decomposed = unicodedata.normalize("NFKD", character)
    return "".join(c for c in decomposed if not unicodedata.combining(c))


def _clean(character: str) -> str:
    category = unicodedata.category(character)
    if character in "\t\n\r" or category == "Zs":
        return " "
    if category in ("Cc", "Cf") or character == _REPLACEMENT_CHARACTER:
        return ""
    return f" {character} " if _is_chinese(character) else character


def _is_chinese(character: str) -> bool:
    code_point = ord(character)
    return any(first <= code_point <= last for first, last in _CHINESE_BLOCKS)


def _space_punctuation(character: str) -> str:
    # TF1: every ASCII symbol counts as punctuation, also "$" and "^", which
    # Unicode calls symbols.
    is_symbol = character.isascii() and not (
        character.isalnum()
        or character.isspace()
        or not character.isprintable()
    )
    if is_symbol or unicodedata.category(character).startswith("P"):
        return f" {character} "
    return character


def _space_punctuation_without_accents(character: str) -> str:
    if unicodedata.category(character) == "Mn":
        return ""
    return _space_punctuation(character)


# CJK unified ideographs, extensions A to E, and compatibility ideographs.
_CHINESE_BLOCKS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
_DECOMPOSED = _CharacterTable(_decompose)
_CLEANED = _CharacterTable(_clean)
_SPACED = _CharacterTable(_space_punctuation)
_SPACED_WITHOUT_ACCENTS = _CharacterTable(_space_punctuation_without_accents)
