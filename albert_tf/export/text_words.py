"""Splits texts at spaces, so that equal words are tokenized once.

What lies between two spaces is called a word here, whatever it contains; it
is empty between neighbouring spaces. A text that cannot be split is one word.

Data flow: strings -> [this file] -> tokenizers of words.
"""

import dataclasses

import tensorflow as tf

from albert_tf.export import ragged
from albert_tf.export.code_point_table import PagedTable

_SPACE = " "


@dataclasses.dataclass(frozen=True, kw_only=True)
class Words:
    """The W words of R texts, of U kinds.

    Args:
        strings: String `[U]`, each kind of word.
        numbers: Int32 `[W]`, the kind of each word.
        row_ids: Int32 `[W]`, the text of each word, never decreasing.
        num_rows: Int32 scalar, R.
    """

    strings: tf.Tensor
    numbers: tf.Tensor
    row_ids: tf.Tensor
    num_rows: tf.Tensor

    def starts(self, lengths: tf.Tensor) -> tf.Tensor:
        """Returns where each word starts in its text, int32 `[W]`.

        `lengths`, int32 `[U]`, are those of the kinds of words.
        """
        # With the space behind each word.
        return ragged.sum_before(
            tf.gather(lengths, self.numbers) + 1, self.row_ids
        )


def whole(texts: tf.Tensor) -> Words:
    """Takes each text, strings `[R]`, as one word."""
    number = ragged.size(texts)
    strings, numbers = tf.unique(texts)
    return Words(
        strings=strings,
        numbers=numbers,
        row_ids=tf.range(number),
        num_rows=number,
    )


def split(texts: tf.Tensor, inseparable: PagedTable | None = None) -> Words:
    """Splits texts at spaces.

    Args:
        texts: UTF-8 strings `[R]`.
        inseparable: Not 0 for the code points whose texts are not split; None
            if there are none.
    """
    indices, parts, _ = tf.raw_ops.StringSplitV2(input=texts, sep=_SPACE)
    strings, numbers = tf.unique(parts)
    words = Words(
        strings=strings,
        numbers=numbers,
        row_ids=tf.cast(indices[:, 0], tf.int32),
        num_rows=ragged.size(texts),
    )
    if inseparable is None:
        return words
    code_points, kinds, _ = ragged.decode(strings)
    is_inseparable = inseparable.lookup(code_points) > 0
    strings, numbers, row_ids = tf.cond(
        tf.reduce_any(is_inseparable),
        lambda: _rejoin(
            texts, words, tf.gather(kinds, ragged.indices(is_inseparable))
        ),
        lambda: (words.strings, words.numbers, words.row_ids),
    )
    return dataclasses.replace(
        words, strings=strings, numbers=numbers, row_ids=row_ids
    )


def _rejoin(
    texts: tf.Tensor, words: Words, inseparable: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Makes one word of each text that has a word of an inseparable kind.

    Returns the new strings, numbers and row ids of the words.
    """
    is_kind = tf.math.unsorted_segment_max(
        tf.ones_like(inseparable), inseparable, ragged.size(words.strings)
    )
    is_row = tf.math.unsorted_segment_max(
        tf.gather(is_kind, words.numbers), words.row_ids, words.num_rows
    )
    is_row = is_row > 0
    is_joined = tf.gather(is_row, words.row_ids)
    whole_number = ragged.count_before(is_row)[:-1]
    whole_number += ragged.size(words.strings)
    numbers = tf.where(
        is_joined, tf.gather(whole_number, words.row_ids), words.numbers
    )
    kept = ragged.indices(~is_joined | ragged.is_first(words.row_ids))
    return (
        tf.concat([words.strings, tf.gather(texts, ragged.indices(is_row))], 0),
        tf.gather(numbers, kept),
        tf.gather(words.row_ids, kept),
    )
