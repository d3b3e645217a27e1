"""Splits text into the words and punctuation marks that WordPiece takes.

Data flow: raw text -> [this file] -> WordPiece.

As `normalization.py` does for SentencePiece, it replaces characters one at a
time, by a table, and traces them to their origin.

Source: google-research/albert, tokenization.BasicTokenizer.
"""

import re
import string
import unicodedata
from typing import Any

import numpy as np

from albert_tf.text import normalization
from albert_tf.text.normalization import TracedText

# CJK unified ideographs, extensions A to E, and compatibility ideographs: the
# inside of a class of regular expressions.
CHINESE = (
    "\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002b73f"
    "\U0002b740-\U0002b81f\U0002b820-\U0002ceaf\uf900-\ufaff"
    "\U0002f800-\U0002fa1f"
)
_CHINESE_CHARACTER = re.compile(f"[{CHINESE}]")


def split_words(text: str, **options: Any) -> list[str]:
    """Splits text into the words and punctuation marks that WordPiece takes.

    Control characters are removed, Chinese characters and punctuation marks
    become words of their own, letters are lower-cased if `do_lower_case`, and
    lose their accents unless `keep_accents`; `tokenize_chinese_chars` may be
    false, and so may `space_marks`: then punctuation marks stay in words.

    >>> split_words("Café，你好!", do_lower_case=True, keep_accents=False)
    ['cafe', '，', '你', '好', '!']
    """
    return _space_words(text, **options).split()


def split_words_traced(
    text: str, **options: Any
) -> tuple[TracedText, list[tuple[int, int]]]:
    """Returns normalized text with raw spans, and the spans of its words."""
    spaced = _space_words(text, **options)
    table = normalization.character_table(_space_words, **options)
    sizes = np.array(
        [len(table[ord(character)]) for character in text], np.int64
    )
    traced = normalization.trace(
        spaced, np.arange(len(text)), sizes, raw_size=len(text)
    )
    return traced, [word.span() for word in normalization.WORD.finditer(spaced)]


def normalize(text: str, **options: Any) -> str:
    """Returns normalized text whose punctuation marks stay in words."""
    return _space_words(text, **options, space_marks=False)


def _space_words(
    text: str,
    *,
    do_lower_case: bool,
    keep_accents: bool,
    tokenize_chinese_chars: bool = True,
    space_marks: bool = True,
) -> str:
    text = text.translate(
        normalization.character_table(_clean, chinese=tokenize_chinese_chars)
    )
    if do_lower_case:
        text = text.lower()
    if not keep_accents:
        text = unicodedata.normalize("NFD", text)
    return text.translate(
        normalization.character_table(
            _space_punctuation,
            keep_accents=keep_accents,
            space_marks=space_marks,
        )
    )


def _clean(character: str, *, chinese: bool) -> str:
    category = unicodedata.category(character)
    if character in "\t\n\r" or category == "Zs":
        return " "
    if (
        category in ("Cc", "Cf")
        or character == normalization.REPLACEMENT_CHARACTER
    ):
        return ""
    is_word = chinese and _CHINESE_CHARACTER.match(character)
    return f" {character} " if is_word else character


def _space_punctuation(
    character: str, *, keep_accents: bool, space_marks: bool
) -> str:
    category = unicodedata.category(character)
    if category == "Mn" and not keep_accents:
        return ""
    # TF1: every ASCII symbol counts as punctuation, even "$" and "^", which
    # Unicode classifies as symbols.
    is_mark = category.startswith("P") or character in string.punctuation
    if space_marks and is_mark:
        return f" {character} "
    return character
