"""Tokens added to a vocabulary: they are cut out of a text before all else.

Data flow: text -> [this file] -> added tokens, and parts for the vocabulary.

Source: Hugging Face tokenizers, `AddedVocabulary`.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from albert_tf.scripts import UNSPACED
from albert_tf.text.vocabulary_file import WHOLE_WORD

if TYPE_CHECKING:
    from albert_tf.text.normalization import TracedText

Normalize = Callable[[str], str]
Trace = Callable[[str], "TracedText"]

# Words without blanks or marks around them.
WITHOUT_BORDERS = re.compile(f"[{UNSPACED}]|.*[{UNSPACED}]$")
_ZERO_WIDTH_JOINERS = "\u200c\u200d"


class Part(NamedTuple):
    """A part of a text, and the id of the added token that it is, if any."""

    start: int
    end: int
    token_id: int | None


class AddedTokens:
    """The added tokens of a tokenizer.

    Args:
        ids: The id of each token, by name.
        kinds: How each is found: `AS_WRITTEN`, `NORMALIZED` or `WHOLE_WORD`.
        normalize: Normalizes a name as the text in which it is found.

    Attributes:
        as_written: Tokens found in raw text: ids by name, the longest first.
        normalized: The same of normalized text, by normalized name.
        whole_words: Normalized names that are found as whole words.
    """

    def __init__(
        self,
        ids: Mapping[str, int],
        kinds: Mapping[str, bool | str],
        normalize: Normalize,
    ) -> None:
        found_as = {n: normalize(n) if kinds[n] else n for n in ids}
        names = sorted(ids, key=lambda n: len(found_as[n]), reverse=True)
        self.as_written = {n: ids[n] for n in names if not kinds[n]}
        self.normalized = {found_as[n]: ids[n] for n in names if kinds[n]}
        self.whole_words = {
            found_as[n] for n in names if kinds[n] == WHOLE_WORD
        }
        self._in_text = re.compile(pattern(self.as_written))
        self._in_normalized = re.compile(pattern(self.normalized))

    def __bool__(self) -> bool:
        return bool(self.as_written or self.normalized)

    @property
    def patterns(self) -> tuple[tuple[str, str], ...]:
        """The tokens and their expressions, of Python and RE2, in raw text.

        Letters of normalized tokens are found in any case.
        """
        names = [(n, "{}") for n in self.as_written]
        names += [(n.strip(), "(?i:{})") for n in self.normalized]
        return tuple((n, form.format(re.escape(n))) for n, form in names)

    def cut(
        self, text: str, normalize: Normalize, trace: Trace
    ) -> Iterator[Part]:
        """Cuts added tokens out of a text; no part is empty.

        Args:
            text: Raw text.
            normalize: Returns the normalized text of a text.
            trace: Returns the same with its origin.
        """
        matches = self._in_text.finditer(text) if self.as_written else ()
        spans = [(*m.span(), self.as_written[m.group()]) for m in matches]
        for part in _parts(spans, len(text)):
            if part.token_id is not None or not self.normalized:
                yield part
                continue
            raw = text[part.start : part.end]
            spans = self._spans_in_normalized(raw, normalize, trace)
            for inner in _parts(spans, len(raw)):
                start, end = part.start + inner.start, part.start + inner.end
                yield Part(start, end, inner.token_id)

    def _spans_in_normalized(
        self, raw: str, normalize: Normalize, trace: Trace
    ) -> list[tuple[int, int, int]]:
        text = normalize(raw)
        matches = [
            match
            for match in self._in_normalized.finditer(text)
            if match.group() not in self.whole_words
            or _is_whole(text, *match.span())
        ]
        if not matches:
            return []
        starts, ends = trace(raw).raw_spans([m.span() for m in matches])
        ids = [self.normalized[match.group()] for match in matches]
        return [*zip(starts.tolist(), ends.tolist(), ids, strict=True)]


def pattern(names: Mapping[str, int]) -> str:
    """Returns an expression, of Python and RE2, that finds the longest name."""
    return "|".join(map(re.escape, names))


def _is_whole(text: str, start: int, end: int) -> bool:
    around = text[max(start - 1, 0) : start] + text[end : end + 1]
    return not any(map(continues_word, around))


def _parts(spans: Sequence[tuple[int, int, int]], size: int) -> Iterator[Part]:
    before = 0
    for start, end, token_id in spans:
        # Of two tokens made from one character, the first is found.
        if start < before:
            continue
        if before < start:
            yield Part(before, start, None)
        yield Part(start, end, token_id)
        before = end
    if before < size:
        yield Part(before, size, None)


def continues_word(character: str) -> bool:
    r"""Returns whether a character is one of a word: `\w` of Rust's regex."""
    category = unicodedata.category(character)
    is_letter = category[0] in "LM" or category in ("Nd", "Nl", "Pc")
    return is_letter or character in _ZERO_WIDTH_JOINERS


def is_word(name: str) -> bool:
    """Returns whether a new token is a word, `desk`, and no mark, `[E1]`."""
    return continues_word(name[0]) or continues_word(name[-1])
