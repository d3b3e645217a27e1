"""`WordPieceTokenizer` as operations of a graph.

Data flow: words -> `text_normalization` -> [this file] -> ids and their
places in the raw text.

Source: `text.wordpiece_tokenizer`; the results are equal.
"""

import tensorflow as tf

from albert_tf import files
from albert_tf.export import ragged, text_words
from albert_tf.export.exported_text import TextGraph, Tokens
from albert_tf.export.text_cut import TextCut
from albert_tf.export.text_normalization import WordPieceNormalization
from albert_tf.export.text_words import Words
from albert_tf.export.trie import Trie
from albert_tf.text.wordpiece_tokenizer import WordPieceTokenizer

_CONTINUATION = "##"
_MAX_WORD_SIZE = 200
_SPACE = ord(" ")
# Prefixes in the trie for tokens that start a word and those that continue it.
_AT_START, _AFTER_START = "\0", "\1"


class WordPieceGraph(TextGraph):
    """The graph of a WordPiece vocabulary.

    Args:
        vocab_file: Text file with one token per line.
        do_lower_case: Whether text is lower-cased and loses its accents.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is not UTF-8, or lacks a special token.
    """

    def __init__(
        self, vocab_file: files.Path, *, do_lower_case: bool = True
    ) -> None:
        tokenizer = WordPieceTokenizer(vocab_file, do_lower_case=do_lower_case)
        self._normalization = WordPieceNormalization(
            do_lower_case=do_lower_case
        )
        # A token has any number of characters: it may be unknown.
        cut = TextCut(self._normalization.cut_bits, None)
        super().__init__(tokenizer, cut)
        self._trie = Trie(_marked_tokens(tokenizer))
        self._at_start = self._trie.state(_AT_START)
        self._after_start = self._trie.state(_AFTER_START)

    def _split(self, texts: tf.Tensor) -> Words:
        return text_words.split(texts)

    def _tokenize(
        self, words: Words, *, with_offsets: bool
    ) -> tuple[Tokens, Words, tf.Tensor]:
        text = self._normalization(words.strings)
        is_space = text.code_points == _SPACE
        kept = ragged.indices(~is_space)
        # From here on, each word of WordPiece is a row of its own.
        is_start = ragged.shift_right(is_space, True)
        is_start |= ragged.is_first(text.row_ids)
        is_start = tf.gather(is_start, kept)
        row_ids = tf.cumsum(tf.cast(is_start, tf.int32)) - 1
        begins, ends, ids = self._find_tokens(
            tf.gather(text.code_points, kept), row_ids, is_start
        )
        begins = tf.gather(kept, begins)
        row_ids = tf.gather(text.row_ids, begins)
        raw_starts = raw_ends = None
        if with_offsets:
            ends = tf.gather(kept, ends - 1) + 1
            raw_starts, raw_ends = text.raw_spans(begins, ends, row_ids)
        tokens = Tokens(
            ids=ids,
            row_ids=row_ids,
            num_rows=text.num_rows,
            starts=raw_starts,
            ends=raw_ends,
        )
        return tokens, words, text.raw_lengths

    def _find_tokens(
        self, code_points: tf.Tensor, words: tf.Tensor, is_start: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Cuts words into tokens, from the left, each the longest possible.

        `words` `[N]` says which word each code point belongs to, `is_start`
        `[N]` whether it starts one. Returns begin, end and id of each token.
        """
        states = tf.where(is_start, self._at_start, self._after_start)
        sizes, ids = self._trie.longest(
            code_points, words, states, num_taken=len(_AT_START)
        )
        places = tf.range(ragged.size(words))
        number = tf.reduce_max(tf.concat([words, [-1]], 0)) + 1
        firsts, lengths = ragged.rows(words, number)
        first = tf.gather(firsts, words)
        end = first + tf.gather(lengths, words)
        after = places + sizes
        stop = ragged.size(words)
        is_end = (after == end) | (sizes == 0)
        is_taken = ragged.mark_reachable(
            tf.where(is_end, stop, after), is_start
        )
        is_stuck = tf.cast(is_taken & (sizes == 0), tf.int32)
        stuck = tf.math.unsorted_segment_sum(is_stuck, words, stop)
        is_long = end - first > _MAX_WORD_SIZE
        is_long &= tf.gather(sizes, first) < end - first
        is_unknown = (tf.gather(stuck, words) > 0) | is_long
        begins = ragged.indices(tf.where(is_unknown, is_start, is_taken))
        ends = tf.where(is_unknown, end, after)
        ids = tf.where(is_unknown, self.special_ids.unk, ids)
        return begins, tf.gather(ends, begins), tf.gather(ids, begins)


def _marked_tokens(tokenizer: WordPieceTokenizer) -> dict[str, int]:
    """Returns the ids of tokens, with the prefixes of the trie."""
    ids = {}
    for token_id in range(tokenizer.vocab_size):
        token = tokenizer.id_to_token(token_id)
        ids[_AT_START + token] = token_id
        if len(token) > len(_CONTINUATION) and token.startswith(_CONTINUATION):
            ids[_AFTER_START + token.removeprefix(_CONTINUATION)] = token_id
    return ids
