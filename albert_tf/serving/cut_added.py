"""Cuts added tokens out of texts, in a graph.

Source: `text.added_tokens`; the results are equal.
"""

import functools
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from albert_tf.serving import ragged
from albert_tf.serving.ragged import PagedTable
from albert_tf.serving.text_normalization import NormalizedText, may_change
from albert_tf.text import added_tokens
from albert_tf.text.added_tokens import AddedTokens


def written(
    texts: tf.Tensor, added: AddedTokens
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Cuts the tokens found as written out of strings `[R]`.

    Returns the parts, strings `[P]`; the row of each, and the id of the added
    token that it is, or -1, int32 `[P]`.
    """
    names = added.as_written
    if not names:
        return texts, tf.range(ragged.size(texts)), tf.fill(tf.shape(texts), -1)
    parts, rows = split(texts, added_tokens.pattern(names))
    return parts, rows, _lookup(parts, names)


def in_normalized(
    texts: tf.Tensor,
    may_have: tf.Tensor,
    normalized: NormalizedText,
    added: AddedTokens,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Cuts the tokens found in normalized text out of raw strings `[R]`.

    Returns the same as `written`. Only rows that `may_have` tokens, bool `[R]`,
    are cut.
    """
    points = normalized.code_points
    strings = ragged.encode(points, normalized.row_splits)
    parts, rows = split(strings, added_tokens.pattern(added.normalized))
    ids = _lookup(parts, added.normalized)
    splits = ragged.sums_before(tf.strings.length(parts, "UTF8_CHAR"))
    starts, ends = splits[:-1], splits[1:]
    names = added.normalized
    are_whole = {name: int(name in added.whole_words) for name in names}
    is_whole = _lookup(parts, are_whole) > 0
    is_cut = (ids >= 0) & tf.gather(may_have, rows)
    is_cut &= ~(is_whole & _touches_word(normalized, starts, ends, rows))
    rows, starts, ends, ids = (
        tf.boolean_mask(x, is_cut) for x in (rows, starts, ends, ids)
    )
    starts, ends = normalized.raw_spans(starts, ends, rows)
    # Of two tokens made from one character, the first is found.
    is_later = (starts < ragged.shift_right(ends, 0)) & ~ragged.is_first(rows)
    rows, starts, ends, ids = (
        tf.boolean_mask(x, ~is_later) for x in (rows, starts, ends, ids)
    )
    raw, splits = ragged.decode(texts)
    raw_rows = ragged.row_ids(splits)
    begins = tf.gather(splits, rows)
    starts, ends = begins + starts, begins + ends
    # One more, because the last token may end the last text.
    is_first = tf.concat([ragged.is_first(raw_rows), [False]], 0)
    borders = tf.concat([starts, ends], 0)[:, None]
    is_first = tf.tensor_scatter_nd_update(
        is_first, borders, tf.fill(tf.shape(borders)[:1], True)
    )[:-1]
    firsts = ragged.indices(is_first)
    id_at = tf.tensor_scatter_nd_update(
        tf.fill(tf.shape(raw), -1), starts[:, None], ids
    )
    part_splits = tf.concat([firsts, tf.shape(raw)], 0)
    return (
        ragged.encode(raw, part_splits),
        tf.gather(raw_rows, firsts),
        tf.gather(id_at, firsts),
    )


def split(texts: tf.Tensor, pattern: str) -> tuple[tf.Tensor, tf.Tensor]:
    """Splits strings `[R]` before and after matches; returns the rows, too."""
    import tensorflow_text as tf_text  # Not every Python has it.

    parts = tf_text.regex_split(texts, f"({pattern})", f"({pattern})")
    return parts.values, ragged.row_ids(tf.cast(parts.row_splits, tf.int32))


def _lookup(texts: tf.Tensor, ids: Mapping[str, int]) -> tf.Tensor:
    """Returns the ids of names `[P]`, int32; -1 for other strings."""
    is_name = texts[:, None] == tf.constant([*ids])
    values = tf.constant([*ids.values()], tf.int32)
    return tf.reduce_max(tf.where(is_name, values, -1), 1)


def _touches_word(
    text: NormalizedText, starts: tf.Tensor, ends: tf.Tensor, rows: tf.Tensor
) -> tf.Tensor:
    """Returns whether a letter stands right before or after spans, bool."""
    continues = PagedTable(_continues_word()).lookup(text.code_points) > 0
    row_splits = text.row_splits
    before = tf.maximum(starts - 1, 0)
    is_within = starts > tf.gather(row_splits, rows)
    touches = is_within & ragged.gather_or(continues, before, False)
    is_within = ends < tf.gather(row_splits, rows + 1)
    return touches | (is_within & ragged.gather_or(continues, ends, False))


@functools.cache
def _continues_word() -> np.ndarray:
    table = np.zeros(ragged.NUM_CODE_POINTS, np.uint8)
    for code_point in may_change():
        table[code_point] = added_tokens.continues_word(chr(code_point))
    return table
