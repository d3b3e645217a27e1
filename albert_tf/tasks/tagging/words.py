"""The words of a raw text, and the tokens of words.

A text that is tagged like the data of a run has words as those data have them:
punctuation apart. For other models, such as those of transformers, the tokens
of a text say what a word is.

Data flow: text, or words -> [this file] -> ids, and where words start.
NumPy; the rules are also those of the graph.

Source: transformers, `TokenClassificationPipeline`, for words of tokens.
"""

import functools
import string
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf.text import normalization
from albert_tf.text.base import WORD_MARK, Tokenizer
from albert_tf.text.wordpiece_tokenizer import CONTINUATION, WordPieceTokenizer

# Bits of tokens.
STARTS, ENDS = 1, 2
# Kinds of characters, as bits; a digit is a letter, too.
LETTER, DIGIT, SPACE = 1, 2, 4
_ALONE, _REPEATS = 8, 16
_JOINS_LETTERS, _JOINS_DIGITS, _PREFIX = 32, 64, 128
_JOINING = {
    **dict.fromkeys("'’.-/&", _JOINS_LETTERS),
    **dict.fromkeys(",:", _JOINS_DIGITS),
    **dict.fromkeys("@#", _PREFIX),
}


@functools.cache
def kind_of(character: str) -> int:
    """Returns the bits of a character; see `first_and_last`."""
    if character.isspace():
        return SPACE
    if character.isdecimal():
        return LETTER | DIGIT
    blocks = normalization.CHINESE_BLOCKS
    if any(first <= ord(character) <= last for first, last in blocks):
        return _ALONE
    is_mark = character in string.punctuation
    is_mark |= unicodedata.category(character)[0] in "PS"
    if character == "_" or not is_mark:
        return LETTER
    return _ALONE | _REPEATS | _JOINING.get(character, 0)


def first_and_last(
    code_points: Any,
    kinds: Any,
    shift_right: Callable[[Any, Any], Any],
    shift_left: Callable[[Any, Any], Any],
) -> tuple[Any, Any]:
    """Says which characters are the first, and the last, of a word.

    White space separates words. Chinese characters are words of their own, and
    so are runs of one punctuation mark or symbol (`...`), except between two
    letters (`'`, `.`, `-`, `/`, `&`: `U.S`, `don't`) or two digits (`,`, `:`:
    `1,000`), and `@` and `#` before a letter (`@name`). Whatever is no white
    space, mark or symbol counts as a letter, `_` too.

    Arguments and results are arrays `[N]` or tensors; the shifts are those of
    `serving.ragged`.
    """
    before, after = shift_right(kinds, SPACE), shift_left(kinds, SPACE)
    is_joined = (kinds & _JOINS_LETTERS != 0) & (before & after & LETTER != 0)
    is_joined |= (kinds & _JOINS_DIGITS != 0) & (before & after & DIGIT != 0)
    is_joined |= (kinds & _PREFIX != 0) & (after & LETTER != 0)
    is_alone = (kinds & _ALONE != 0) & ~is_joined
    alone_before = shift_right(is_alone, False)
    is_same = code_points == shift_right(code_points, -1)
    is_same &= is_alone & alone_before & (kinds & _REPEATS != 0)
    is_first = (before & SPACE != 0) | is_alone | alone_before
    is_first &= ~is_same & (kinds & SPACE == 0)
    is_last = shift_left(is_first, True) | (after & SPACE != 0)
    return is_first, is_last & (kinds & SPACE == 0)


def find_words(text: str) -> np.ndarray:
    """Returns starts and ends of the words of a text, int32 `[2, W]`.

    >>> find_words("Angela visited Paris...").tolist()
    [[0, 7, 15, 20], [6, 14, 20, 23]]
    """
    code_points = np.array([*map(ord, text)], np.int64)
    kinds = np.array([*map(kind_of, text)], np.int64)
    first, last = first_and_last(
        code_points,
        kinds,
        lambda values, fill: np.insert(values, 0, fill)[:-1],
        lambda values, fill: np.append(values, fill)[1:],
    )
    found = np.flatnonzero(first), np.flatnonzero(last) + 1
    return np.array(found, np.int32)


class TextWords(NamedTuple):
    """The W words of a text, and its M tokens, of which a word may have none.

    Starts and ends are code points of the text.
    """

    ids: np.ndarray  # int32 [M]
    token_splits: np.ndarray  # int64 [W + 1]: where those of each begin, M
    starts: np.ndarray  # int32 [W]
    ends: np.ndarray  # int32 [W]


def encode(
    words: Sequence[str], tokenizer: Tokenizer
) -> tuple[np.ndarray, np.ndarray]:
    """Encodes words, each as if there were blanks around it.

    Returns the ids of all, int32 `[M]`, and where those of each word begin,
    and M, int64 `[W + 1]`.
    """
    ids, sizes = tokenizer.encode_batch(words)
    return ids, np.append(0, sizes.cumsum())


def split(text: str, tokenizer: Tokenizer, *, is_spaced: bool) -> TextWords:
    """Returns the words of a text: of `find_words` if `is_spaced`.

    Else, the text is encoded as a whole, and `word_marks` tell its words.
    """
    if is_spaced:
        starts, ends = find_words(text)
        spans = zip(starts.tolist(), ends.tolist(), strict=True)
        words = [text[start:end] for start, end in spans]
        return TextWords(*encode(words, tokenizer), starts, ends)
    ids, _, (starts, ends) = tokenizer.encode_batch_with_offsets([text])
    marks = word_marks(
        [*map(tokenizer.id_to_token, ids.tolist())],
        is_wordpiece=isinstance(tokenizer, WordPieceTokenizer),
        unknown=tokenizer.id_to_token(tokenizer.special_ids.unk),
    )
    # The first token starts a word, whichever it is.
    starts_word = marks & STARTS | np.append(ENDS, marks)[:-1] & ENDS
    first = np.flatnonzero(starts_word)
    splits = np.append(first, len(ids))
    return TextWords(ids, splits, starts[first], ends[splits[1:] - 1])


def word_marks(
    tokens: Sequence[str], *, is_wordpiece: bool, unknown: str
) -> np.ndarray:
    """Returns int64 `[n]`: bits for tokens that start words, or end them.

    Of WordPiece, each token without `##` starts a word. Of SentencePiece, those
    with a mark of a word's start do, and the unknown token, as transformers'
    pipelines have it; there, a mark that is a token is a word, too.
    """
    if is_wordpiece:
        starts = [not token.startswith(CONTINUATION) for token in tokens]
        return np.array(starts, np.int64) * STARTS
    bits = [
        (token.startswith(WORD_MARK) or token == unknown) * STARTS
        | (token == WORD_MARK) * ENDS
        for token in tokens
    ]
    return np.array(bits, np.int64)
