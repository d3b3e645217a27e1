"""The words of a raw text, and the tokens of words.

What a word is belongs to the model: the data that it is trained on tell. For
models of transformers, the tokens of a text tell its words.

Data flow: text, or words -> [this file] -> ids, and where words start.
"""

import functools
import itertools
import re
import sys
import unicodedata
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.scripts import UNSPACED
from albert_tf.text.base import WORD_MARK, Tokenizer
from albert_tf.text.wordpiece_tokenizer import CONTINUATION, WordPieceTokenizer

# Which words a raw text has: see `word_pattern`, and as in transformers.
SPACED, APART, CHARACTERS, TOKENS = "spaced", "apart", "characters", "tokens"


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS" and character != "_"


def _ranges(is_member: Callable[[str], bool]) -> str:
    """Returns the inside of a class of regular expressions."""
    runs = itertools.groupby(map(chr, range(sys.maxunicode + 1)), is_member)
    members = ([*characters] for is_in, characters in runs if is_in)
    return "".join(f"{re.escape(r[0])}-{re.escape(r[-1])}" for r in members)


@functools.cache
def word_pattern(kind: str, added: tuple[tuple[str, str], ...] = ()) -> str:
    r"""Returns the regular expression of a word, for Python and for RE2.

    It is any character if `kind` is `CHARACTERS`. Else, white space separates
    words. Characters of scripts without blanks are words of their own, and
    so are punctuation marks and symbols, except one between two letters (`'`,
    `.`, `-`, `/`, `&`, `@`, `#`: `U.S`, `don't`) or two digits (`,`, `:`:
    `1,000`), `@` and `#` before a letter (`@name`), and runs such as `...`.
    Whatever is no white space, mark or symbol counts as a letter, `_` too. In
    `APART`, no mark joins letters. `added` are tokens, and patterns of them.

    >>> re.findall(word_pattern(SPACED), "Angela's visit: Paris...")
    ["Angela's", 'visit', ':', 'Paris', '...']
    """
    if kind == CHARACTERS:
        return "|".join([*(token for _, token in added), r"(?s:.)"])
    alone = UNSPACED + _ranges(_is_mark)
    letters = f"[^{alone}{_ranges(str.isspace)}]"
    # The first alternative is a number with its unit.
    part = f"(?:[0-9]+(?:[,:][0-9]+)+{letters}*|{letters}+)"
    word = part if kind == APART else f"[@#]?{part}(?:['’./&@#-]{part})*"
    accents = _ranges(lambda each: unicodedata.category(each)[0] == "M")
    unspaced = f"[{UNSPACED}][{accents}]*"
    words = rf"{word}|\.+|!+|\?+|-+|{unspaced}|[{alone}]"
    # Others are found as parts of words. New words are whole: `c++x` is none.
    cut = [
        f"{token}{letters}*" if token.startswith("(?i:") else token
        for name, token in added
        if not re.fullmatch(word, name)
    ]
    return "|".join([*cut, words])


class TextWords(NamedTuple):
    """The W words of a text, and its M tokens, of which a word may have none.

    Starts and ends are code points of the text.
    """

    ids: np.ndarray  # int32 [M]
    token_splits: np.ndarray  # int64 [W + 1]: where tokens of each begin, M
    starts: np.ndarray  # int32 [W]
    ends: np.ndarray  # int32 [W]

    @classmethod
    def of(
        cls, words: Sequence[str], starts: Sequence[int], tokenizer: Tokenizer
    ) -> "TextWords":
        """Encodes words, each as if there were blanks around it."""
        ids, sizes = tokenizer.encode_batch(words)
        ends = [s + len(word) for s, word in zip(starts, words, strict=True)]
        return cls(
            ids,
            np.append(0, sizes.cumsum()),
            np.array(starts, np.int32),
            np.array(ends, np.int32),
        )


def split(text: str, tokenizer: Tokenizer, kind: str) -> TextWords:
    """Returns the words of a text: matches of `word_pattern`.

    If `kind` is `TOKENS`, the text is encoded as a whole, and its tokens tell:
    one that `starts_word` does, and so does one after a token of no character,
    the mark alone, as in transformers.
    """
    if kind != TOKENS:
        pattern = word_pattern(kind, tokenizer.added.patterns)
        matches = [*re.finditer(pattern, text)]
        words = [match.group() for match in matches]
        return TextWords.of(words, [m.start() for m in matches], tokenizer)
    ids, _, (starts, ends) = tokenizer.encode_batch_with_offsets([text])
    tokens = [*map(tokenizer.id_to_token, ids.tolist())]
    is_first = starts_word(
        tokens, is_wordpiece=isinstance(tokenizer, WordPieceTokenizer)
    )
    is_first |= ids == tokenizer.special_ids.unk
    is_first |= np.append(True, starts == ends)[:-1]
    first = np.flatnonzero(is_first)
    splits = np.append(first, len(ids))
    return TextWords(ids, splits, starts[first], ends[splits[1:] - 1])


def starts_word(tokens: Sequence[str], *, is_wordpiece: bool) -> np.ndarray:
    """Returns bool `[n]`: whether tokens say that they start words.

    Tokens of WordPiece do without `##`, tokens of SentencePiece with its mark.
    """
    mark = CONTINUATION if is_wordpiece else WORD_MARK
    return np.array([t.startswith(mark) != is_wordpiece for t in tokens], bool)
