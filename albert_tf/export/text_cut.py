"""Cuts texts behind the tokens that a model can read, before they are searched.

How many tokens a text has at least is counted by characters that surely become
a part of a token. A text is cut where it has more than enough:

* before a word, if enough words come before it. Words are tokenized one by one;
  each has at least one token;
* at the first white space behind enough characters, because a token has only
  so many. Where there is none among the next `MAX_WORD_SIZE` characters that
  count, the word itself is cut. This is the only cut that might change a token:
  in theory, the best segmentation of a word depends on its end.

Data flow: strings -> [this file] -> strings.
"""

import numpy as np
import tensorflow as tf

from albert_tf.export import ragged
from albert_tf.export.code_point_table import PagedTable

# Bits of the table: the code point surely becomes a part of a token; it
# separates words; it is a word of its own.
COUNTS, SEPARATES, IS_WORD = 1, 2, 4
# Words of up to as many characters are never cut.
MAX_WORD_SIZE = 8192
# Shorter texts, in bytes for each token, are hardly worth cutting.
_MIN_BYTES = 8


class TextCut:
    """Cuts texts to the characters that their first tokens depend on.

    Args:
        bits: Uint8 `[NUM_CODE_POINTS]`, sums of the bits above.
        max_token_size: The most characters that count in one token; None if
            there is no limit, and texts are cut between words alone.
    """

    def __init__(self, bits: np.ndarray, max_token_size: int | None) -> None:
        self._bits = PagedTable(bits)
        self._max_token_size = max_token_size

    def __call__(self, texts: tf.Tensor, limits: tf.Tensor) -> tf.Tensor:
        """Cuts each text behind its first tokens.

        Args:
            texts: UTF-8 strings `[R]`.
            limits: Int32 `[R]`, how many tokens are needed of each.

        Returns:
            Strings `[R]`, with the same tokens up to this number.
        """
        needed = tf.cast(limits, tf.int64) + 1
        sizes = tf.cast(tf.strings.length(texts), tf.int64)
        is_long = sizes > needed * _MIN_BYTES

        def cut() -> tf.Tensor:
            long = ragged.indices(is_long)
            short = self._cut(tf.gather(texts, long), tf.gather(needed, long))
            number = ragged.count_before(is_long)[:-1] + ragged.size(texts)
            place = tf.where(is_long, number, tf.range(ragged.size(texts)))
            return tf.gather(tf.concat([texts, short], 0), place)

        return tf.cond(tf.reduce_any(is_long), cut, lambda: texts)

    def _cut(self, texts: tf.Tensor, needed: tf.Tensor) -> tf.Tensor:
        """Cuts texts behind `needed` tokens, int64 `[R]`, or later."""
        code_points, row_ids, lengths = ragged.decode(texts)
        bits = self._bits.lookup(code_points)
        ends = tf.cumsum(lengths)
        cuts = _nth(_word_starts(bits, row_ids), needed, row_ids, ends)
        if self._max_token_size is not None:
            counting = ragged.indices((bits & COUNTS) > 0)
            enough = needed * self._max_token_size
            begins = _nth(counting, enough, row_ids, ends)
            latest = _nth(counting, enough + MAX_WORD_SIZE, row_ids, ends)
            space = ragged.next_true((bits & SEPARATES) > 0, begins)
            cuts = tf.minimum(cuts, tf.minimum(space, latest))
        places = tf.range(ragged.size(code_points))
        kept = ragged.indices(places < tf.gather(cuts, row_ids))
        return ragged.encode(
            tf.gather(code_points, kept), cuts - (ends - lengths)
        )


def _word_starts(bits: tf.Tensor, row_ids: tf.Tensor) -> tf.Tensor:
    """Returns the first place that counts of each word, int32 `[W]`."""
    places = ragged.indices(bits > 0)
    bits = tf.gather(bits, places)
    is_start = ragged.is_first(tf.gather(row_ids, places))
    is_start |= (ragged.shift_right(bits, 0) & (SEPARATES | IS_WORD)) > 0
    is_start |= (bits & IS_WORD) > 0
    is_start &= (bits & COUNTS) > 0
    return tf.gather(places, ragged.indices(is_start))


def _nth(
    places: tf.Tensor, number: tf.Tensor, row_ids: tf.Tensor, ends: tf.Tensor
) -> tf.Tensor:
    """Returns int32 `[R]`: the place with a number, from 0, in each row.

    Places are int32 `[P]`, numbers int64 `[R]`; the result is the end of the
    row if it has fewer.
    """
    firsts, counts = ragged.rows(
        tf.gather(row_ids, places), ragged.size(number)
    )
    has_more = tf.cast(counts, tf.int64) > number
    place = tf.cast(tf.where(has_more, number, 0), tf.int32) + firsts
    place = tf.where(has_more, place, ragged.size(places))
    return tf.where(has_more, ragged.gather_or(places, place, 0), ends)
