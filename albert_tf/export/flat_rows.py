"""Rows of different lengths as one flat array, and what is done with them.

A batch of texts is one array of N elements, row after row, and `row_ids`
int32 `[N]`, never decreasing, that says to which row each element belongs. So
the work grows with the text that is there, not with the longest row. Rows may
be empty, and so may the batch.

Floor: export. Core TensorFlow operations only.
"""

import tensorflow as tf


def size(values: tf.Tensor) -> tf.Tensor:
    """Returns the length of the first axis, int32."""
    return tf.shape(values)[0]


def starts(row_ids: tf.Tensor, num_rows: tf.Tensor) -> tf.Tensor:
    """Returns int32 `[num_rows + 1]`: where rows begin, and the end of all."""
    return tf.searchsorted(row_ids, tf.range(num_rows + 1))


def shift_right(values: tf.Tensor, fill: tf.Tensor | int | bool) -> tf.Tensor:
    """Returns the element before each one; `fill` for the first."""
    return tf.concat([tf.cast([fill], values.dtype), values], 0)[:-1]


def shift_left(values: tf.Tensor, fill: tf.Tensor | int | bool) -> tf.Tensor:
    """Returns the element after each one; `fill` for the last."""
    return tf.concat([values, tf.cast([fill], values.dtype)], 0)[1:]


def is_first(row_ids: tf.Tensor) -> tf.Tensor:
    """Returns bool `[N]`: does the element begin its row?"""
    return row_ids != shift_right(row_ids, -1)


def is_last(row_ids: tf.Tensor) -> tf.Tensor:
    """Returns bool `[N]`: does the element end its row?"""
    return row_ids != shift_left(row_ids, -1)


def indices(mask: tf.Tensor) -> tf.Tensor:
    """Returns int32: where `mask` is true."""
    return tf.cast(tf.where(mask)[:, 0], tf.int32)


def count_before(mask: tf.Tensor) -> tf.Tensor:
    """Returns int32 `[N + 1]`: how often `mask` is true before each place."""
    return tf.concat([[0], tf.cumsum(tf.cast(mask, tf.int32))], 0)


def spread(lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Lays out elements that become `lengths` elements each.

    Args:
        lengths: Int32 `[N]`, 0 or more.

    Returns:
        Int32, one entry for each new element: the old element that it comes
        from, and its number among those of the same one.
    """
    ends = tf.cumsum(lengths)
    places = tf.range(tf.reduce_sum(lengths))
    sources = tf.searchsorted(ends, places, side="right")
    return sources, places - tf.gather(ends - lengths, sources)


def next_true(mask: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """Returns where `mask` `[N]` is next true, at each place or after it.

    N where it is not; a place is from 0 to N.
    """
    found = tf.concat([indices(mask), size(mask)[None]], 0)
    return tf.gather(found, tf.gather(count_before(mask), places))


def last_true(mask: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """Returns where `mask` `[N]` was last true, before each place; or -1."""
    found = tf.concat([[-1], indices(mask)], 0)
    return tf.gather(found, tf.gather(count_before(mask), places))


def decode(texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns code points, row ids and sizes of UTF-8 strings `[R]`.

    What is not UTF-8 becomes U+FFFD, as in Python's
    `decode(errors="replace")`.
    """
    rows = tf.strings.unicode_decode(texts, "UTF-8")
    splits = tf.cast(rows.row_splits, tf.int32)
    sizes = splits[1:] - splits[:-1]
    row_ids, _ = spread(sizes)
    return rows.values, row_ids, sizes


def encode(code_points: tf.Tensor, sizes: tf.Tensor) -> tf.Tensor:
    """Returns rows as UTF-8 strings `[R]`.

    Args:
        code_points: Int32 `[N]`.
        sizes: Int32 `[R]`, code points of each row; their sum is N.
    """
    rows = tf.RaggedTensor.from_row_lengths(code_points, sizes, validate=False)
    return tf.strings.unicode_encode(rows, "UTF-8")


def mark_chains(following: tf.Tensor, is_start: tf.Tensor) -> tf.Tensor:
    """Finds what is reached by going from element to element.

    All chains are followed at once, and twice as far in every round.

    Args:
        following: Int32 `[N]`, index of the element after each one, or N
            where a chain ends. There are no circles.
        is_start: Bool `[N]`, where chains begin.

    Returns:
        Bool `[N]`: is the element a start, or reached from one?
    """
    stop = size(following)
    jumps = tf.concat([following, stop[None]], 0)
    marks = tf.concat([tf.cast(is_start, tf.int32), [0]], 0)

    def go_on(jumps: tf.Tensor, marks: tf.Tensor) -> tf.Tensor:
        del marks
        return tf.reduce_any(jumps < stop)

    def double(
        jumps: tf.Tensor, marks: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        marks = tf.tensor_scatter_nd_max(marks, jumps[:, None], marks)
        return tf.gather(jumps, jumps), marks

    _, marks = tf.while_loop(go_on, double, (jumps, marks))
    return tf.cast(marks[:-1], tf.bool)


def running_max(values: tf.Tensor, row_ids: tf.Tensor) -> tf.Tensor:
    """Returns int32 `[N]`: the largest value of the row so far.

    Args:
        values: Int32 `[N]`, 0 or more.
        row_ids: Int32 `[N]`.
    """
    # A row begins above whatever the rows before it hold.
    step = tf.reduce_max(tf.concat([values, [0]], 0)) + 1
    floor = tf.cast(row_ids, tf.int64) * tf.cast(step, tf.int64)
    highest = tf.cast(values, tf.int64) + floor
    length = size(values)

    def double(
        distance: tf.Tensor, highest: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        earlier = tf.concat([highest[:distance], highest[:-distance]], 0)
        return distance * 2, tf.maximum(highest, earlier)

    _, highest = tf.while_loop(
        lambda distance, _: distance < length,
        double,
        (tf.constant(1), highest),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None])),
    )
    return tf.cast(highest - floor, tf.int32)
