"""The text half of an exported model: tokenizers in a graph, and packing.

Data flow: strings -> `text_cut` -> `text_words` -> `TextGraph` -> `Tokens`
-> [this file] -> input_ids, input_mask, segment_ids.

Source: google-research/albert, classifier_utils._truncate_seq_pair and
convert_single_example, for the packing of pairs.
"""

import abc
import dataclasses
import functools
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.export import ragged, signature
from albert_tf.export.signature import Tensors
from albert_tf.export.text_cut import TextCut
from albert_tf.export.text_words import Words
from albert_tf.text.special_tokens import SpecialIds
from albert_tf.text.tokenizer import Tokenizer

# `[CLS]` and `[SEP]`, and the second `[SEP]` of a pair.
_NUM_SPECIAL, _NUM_SPECIAL_OF_PAIR = 2, 3
# Of a text of which all tokens are needed.
NO_LIMIT = np.iinfo(np.int32).max
# Room for the special tokens of a pair, and a token of each text.
MIN_SEQ_LENGTH = 5
# A typical request, for warming up.
EXAMPLE = {
    "text_a": "A first sentence.",
    "text_b": "A second one, some words longer.",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tokens:
    """The tokens of R texts as a ragged batch; see `ragged`.

    Args:
        ids: Int32 `[M]`, the tokens of all texts.
        row_ids: Int32 `[M]`, the text of each token.
        num_rows: Int32 scalar, R.
        starts: Int32 `[M]`, first code point of each token in the raw text,
            as in `Tokenizer.encode_with_offsets`; None if not requested.
        ends: Int32 `[M]`, one past the last code point; None if not requested.
    """

    ids: tf.Tensor
    row_ids: tf.Tensor
    num_rows: tf.Tensor
    starts: tf.Tensor | None = None
    ends: tf.Tensor | None = None

    def rows(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns each text's first token and number of tokens, int32 `[R]`."""
        return ragged.rows(self.row_ids, self.num_rows)


def tokens_of(tokenizer: Tokenizer) -> tuple[str, ...]:
    """Returns the token of each id."""
    return tuple(map(tokenizer.id_to_token, range(tokenizer.vocab_size)))


class TextGraph(abc.ABC):
    """A tokenizer made of graph operations.

    It is traced once, however many signatures use it.

    Args:
        tokenizer: The tokenizer in Python; the results are equal.
        cut: Cuts texts of which only some tokens are needed; None for none.

    Attributes:
        special_ids: Ids of padding, unknown, `[CLS]`, `[SEP]`, `[MASK]`.
        tokens: The token of each id.
    """

    def __init__(self, tokenizer: Tokenizer, cut: TextCut | None) -> None:
        self.special_ids = tokenizer.special_ids
        self.tokens = tokens_of(tokenizer)
        self._cut = cut
        self._functions: dict[bool, Any] = {}

    @abc.abstractmethod
    def _split(self, texts: tf.Tensor) -> Words:
        """Splits texts, strings `[R]`, into words that stand for themselves."""

    @abc.abstractmethod
    def _tokenize(
        self, words: Words, *, with_offsets: bool
    ) -> tuple[Tokens, Words, tf.Tensor]:
        """Tokenizes each kind of word.

        Returns the tokens, a row for each kind; the words, which may be of
        more kinds now; and the number of code points of each kind.
        """

    def __call__(
        self,
        texts: tf.Tensor,
        limits: tf.Tensor | None = None,
        *,
        with_offsets: bool = False,
    ) -> Tokens:
        """Tokenizes texts.

        Args:
            texts: UTF-8 strings `[R]`. Bytes that are not UTF-8 count as
                U+FFFD, as in Python's `decode(errors="replace")`.
            limits: Int32 `[R]`, how many tokens are needed of each text; of
                those behind, any number is returned. None for all tokens.
            with_offsets: Whether the result has starts and ends.
        """
        if limits is None:
            limits = tf.fill(tf.shape(texts), NO_LIMIT)
        if with_offsets not in self._functions:
            self._functions[with_offsets] = tf.function(
                functools.partial(self._run, with_offsets=with_offsets),
                autograph=False,
                input_signature=[
                    signature.strings(None),
                    signature.integers(None),
                ],
            )
        ids, row_ids, *offsets = self._functions[with_offsets](texts, limits)
        starts, ends = offsets or (None, None)
        return Tokens(
            ids=ids,
            row_ids=row_ids,
            num_rows=tf.shape(texts)[0],
            starts=starts,
            ends=ends,
        )

    def _run(
        self, texts: tf.Tensor, limits: tf.Tensor, *, with_offsets: bool
    ) -> tuple[tf.Tensor, ...]:
        # These are many small operations, which a GPU would only slow down.
        with tf.device("/device:CPU:0"):
            if self._cut is not None:
                texts = self._cut(texts, limits)
            tokens, words, lengths = self._tokenize(
                self._split(texts), with_offsets=with_offsets
            )
            tokens = _spread(tokens, words, lengths)
        offsets = (tokens.starts, tokens.ends) if with_offsets else ()
        return (tokens.ids, tokens.row_ids, *offsets)


def _spread(tokens: Tokens, words: Words, lengths: tf.Tensor) -> Tokens:
    """Returns the tokens of texts, given those of each kind of word.

    `lengths`, int32 `[U]`, are the numbers of code points of the kinds.
    """
    firsts, sizes = tokens.rows()
    word, within = ragged.expand(tf.gather(sizes, words.numbers))
    place = tf.gather(tf.gather(firsts, words.numbers), word) + within
    starts = ends = None
    if tokens.starts is not None and tokens.ends is not None:
        shift = tf.gather(words.starts(lengths), word)
        starts = tf.gather(tokens.starts, place) + shift
        ends = tf.gather(tokens.ends, place) + shift
    return Tokens(
        ids=tf.gather(tokens.ids, place),
        row_ids=tf.gather(words.row_ids, word),
        num_rows=words.num_rows,
        starts=starts,
        ends=ends,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ranges:
    """A range of neighbouring tokens for each of R rows.

    Args:
        starts: Int32 `[R]`, index of the first token among those of all texts.
        sizes: Int32 `[R]`, number of tokens.
    """

    starts: tf.Tensor
    sizes: tf.Tensor


def encode_pairs(
    text_a: tf.Tensor,
    text_b: tf.Tensor,
    text_graph: TextGraph,
    *,
    max_seq_length: int,
) -> Tensors:
    """Makes the inputs of a model of pairs of raw texts; see `pack_pairs`.

    Both texts are strings `[B]`; the second is empty where there is none.
    """
    texts = signature.same_batch(text_a=text_a, text_b=text_b)
    limits = tf.fill(tf.shape(text_a) * len(texts), max_seq_length)
    tokens = text_graph(tf.concat(texts, 0), limits)
    with tf.device("/device:CPU:0"):
        return pack_pairs(
            tokens,
            max_seq_length=max_seq_length,
            special=text_graph.special_ids,
        )


def pack_pairs(
    tokens: Tokens, *, max_seq_length: int, special: SpecialIds
) -> Tensors:
    """Makes `[CLS] a [SEP]`, or `[CLS] a [SEP] b [SEP]`, of each pair.

    Sequences that are too long lose tokens at the end of a text, one at a
    time: of the longer text, or of the second if both are equally long.

    Args:
        tokens: Of 2 B texts: the B first texts, then the B second ones. A
            second text without tokens makes no pair.
        max_seq_length: Longest sequence; at least `MIN_SEQ_LENGTH`.
        special: Ids of the special tokens.

    Returns:
        Int32 `[B, S]`, padded to the longest sequence: `input_ids`,
        `input_mask` and `segment_ids`.
    """
    num_pairs = tokens.num_rows // 2
    starts, sizes = tokens.rows()
    size_a, size_b = truncated_sizes(
        sizes[:num_pairs], sizes[num_pairs:], max_seq_length
    )
    return pack_ranges(
        tokens.ids,
        Ranges(starts=starts[:num_pairs], sizes=size_a),
        Ranges(starts=starts[num_pairs:], sizes=size_b),
        is_pair=size_b > 0,
        special=special,
    )


def pack_ranges(
    ids: tf.Tensor,
    first: Ranges,
    second: Ranges,
    *,
    is_pair: tf.Tensor | bool = True,
    special: SpecialIds,
    min_length: int = _NUM_SPECIAL,
) -> Tensors:
    """Makes `[CLS] a [SEP]`, or `[CLS] a [SEP] b [SEP]`, of ranges of tokens.

    Args:
        ids: Int32 `[M]`, the tokens of all texts.
        first: The range a of each row.
        second: The range b of each row, which may be empty.
        is_pair: Whether there is a second `[SEP]`: bool `[R]`, or one for all
            rows.
        special: Ids of the special tokens.
        min_length: Smallest length of the result.

    Returns:
        Int32 `[R, S]`, padded to the longest row: `input_ids`, `input_mask`
        and `segment_ids`.
    """
    size_a, size_b = first.sizes[:, None], second.sizes[:, None]  # [R, 1]
    is_pair = tf.broadcast_to(is_pair, tf.shape(first.sizes))[:, None]
    end_a = size_a + 1
    end = end_a + tf.where(is_pair, size_b + 2, 1)
    length = tf.reduce_max(tf.concat([end, [[min_length]]], 0))
    place = tf.range(length)[None]  # [1, S]
    is_a = (place > 0) & (place < end_a)
    is_b = (place > end_a) & (place <= end_a + size_b)
    source = tf.where(
        is_a,
        first.starts[:, None] + place - 1,
        second.starts[:, None] + place - end_a - 1,
    )
    source = tf.where(is_a | is_b, source, ragged.size(ids))
    input_ids = ragged.gather_or(ids, source, special.sep)
    input_ids = tf.where(place == 0, special.cls, input_ids)
    is_real = place < end
    return {
        "input_ids": tf.where(is_real, input_ids, special.pad),
        "input_mask": tf.cast(is_real, tf.int32),
        "segment_ids": tf.cast(is_real & (place > end_a), tf.int32),
    }


def truncated_sizes(
    size_a: tf.Tensor, size_b: tf.Tensor, max_seq_length: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns how many tokens of each text are kept; `size_b` may be 0."""
    room = max_seq_length - _NUM_SPECIAL_OF_PAIR
    half = room // 2
    alone = tf.minimum(size_a, max_seq_length - _NUM_SPECIAL)
    beside = tf.minimum(size_a, tf.maximum(room - size_b, room - half))
    return (
        tf.where(size_b > 0, beside, alone),
        tf.minimum(size_b, tf.maximum(room - size_a, half)),
    )
