"""Ragged batches as flat values and row splits, and operations on them.

A batch of R texts is one array of N values, row after row, with `row_splits`,
int32 `[R + 1]`: where each row starts, and N. The work then grows with the
amount of text, not with the longest row. Rows may be empty, and so may the
batch. `row_ids`, int32 `[N]`, say the same for each value: its row.
"""

import dataclasses

import tensorflow as tf


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ranges:
    """A range of neighbouring values for each of R rows.

    Args:
        starts: Int32 `[R]`, index of the first value.
        sizes: Int32 `[R]`, number of values.
    """

    starts: tf.Tensor
    sizes: tf.Tensor

    def __getitem__(self, rows: slice) -> "Ranges":
        return Ranges(starts=self.starts[rows], sizes=self.sizes[rows])


def size(values: tf.Tensor) -> tf.Tensor:
    """Returns the length of the first axis, int32."""
    return tf.shape(values)[0]


def row_ids(row_splits: tf.Tensor) -> tf.Tensor:
    """Returns the row of each value."""
    sources, _ = expand(row_splits[1:] - row_splits[:-1])
    return sources


def row_splits(row_ids: tf.Tensor, num_rows: tf.Tensor) -> tf.Tensor:
    """Returns the row splits for row ids, which never decrease."""
    lengths = tf.math.unsorted_segment_sum(
        tf.ones_like(row_ids), row_ids, num_rows
    )
    return sums_before(lengths)


def sums_before(values: tf.Tensor) -> tf.Tensor:
    """Returns int32 `[N + 1]`: the sum of the values before each, and of all.

    For the lengths of rows, these are the row splits.
    """
    return tf.concat([[0], tf.cumsum(values)], 0)


def shift_right(values: tf.Tensor, fill: tf.Tensor | int | bool) -> tf.Tensor:
    """Returns the value before each one; `fill` for the first."""
    return tf.concat([tf.cast([fill], values.dtype), values], 0)[:-1]


def shift_left(values: tf.Tensor, fill: tf.Tensor | int | bool) -> tf.Tensor:
    """Returns the value after each one; `fill` for the last."""
    return tf.concat([values, tf.cast([fill], values.dtype)], 0)[1:]


def is_first(row_ids: tf.Tensor) -> tf.Tensor:
    """Returns bool `[N]`: whether each value is the first of its row."""
    return row_ids != shift_right(row_ids, -1)


def is_last(row_ids: tf.Tensor) -> tf.Tensor:
    """Returns bool `[N]`: whether each value is the last of its row."""
    return row_ids != shift_left(row_ids, -1)


def indices(mask: tf.Tensor) -> tf.Tensor:
    """Returns the int32 indices at which `mask` is true."""
    return tf.cast(tf.where(mask)[:, 0], tf.int32)


def gather_or(
    values: tf.Tensor, places: tf.Tensor, otherwise: tf.Tensor | float
) -> tf.Tensor:
    """Gathers from `values` `[N]`; a place of N gives `otherwise`."""
    last = tf.cast([otherwise], values.dtype)
    return tf.gather(tf.concat([values, last], 0), places)


def expand(lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Replaces every value by `lengths` new ones.

    Args:
        lengths: Int32 `[N]`, 0 or more.

    Returns:
        Two int32 arrays with an entry for each new value: the index of the
        old value it replaces, and its number among those that replace it.
    """
    # `tf.repeat` would need memory for N times the largest length.
    ends = tf.cumsum(lengths)
    number = tf.reduce_sum(lengths)
    num_ends = tf.math.unsorted_segment_sum(
        tf.ones_like(ends), ends, number + 1
    )
    sources = tf.cumsum(num_ends)[:-1]
    return sources, tf.range(number) - tf.gather(ends - lengths, sources)


def next_true(mask: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """Finds the first true entry of `mask` `[N]` at or after each place.

    The result is N where there is none. Places are from 0 to N.
    """
    found = tf.concat([indices(mask), size(mask)[None]], 0)
    return tf.gather(found, tf.gather(_num_before(mask), places))


def previous_true(mask: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """Finds the last true entry of `mask` `[N]` before each place, or -1."""
    found = tf.concat([[-1], indices(mask)], 0)
    return tf.gather(found, tf.gather(_num_before(mask), places))


def _num_before(mask: tf.Tensor) -> tf.Tensor:
    return sums_before(tf.cast(mask, tf.int32))


def decode(texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the code points and row splits of strings `[R]`.

    Bytes that are not UTF-8 become U+FFFD, as in Python's
    `decode(errors="replace")`.
    """
    rows = tf.strings.unicode_decode(texts, "UTF-8")
    return rows.values, tf.cast(rows.row_splits, tf.int32)


def encode(code_points: tf.Tensor, row_splits: tf.Tensor) -> tf.Tensor:
    """Returns rows of code points as UTF-8 strings `[R]`."""
    rows = tf.RaggedTensor.from_row_splits(
        code_points, row_splits, validate=False
    )
    return tf.strings.unicode_encode(rows, "UTF-8")


def places_of_bytes(
    code_points: tf.Tensor,
    row_splits: tf.Tensor,
    offsets: tf.Tensor,
    row_ids: tf.Tensor,
) -> tf.Tensor:
    """Finds code points by the byte of `encode`'s string at which they begin.

    `offsets`, integers `[M]`, are bytes of the rows `row_ids`. Returns
    indices of all code points, int32 `[M]`; N behind the last byte.
    """
    num_bytes = 1 + sum(
        tf.cast(code_points >= first, tf.int32)
        for first in (0x80, 0x800, 0x10000)
    )
    begins = sums_before(num_bytes)
    row_begins = tf.gather(begins, row_splits)
    offsets = tf.cast(offsets, tf.int32)
    return tf.searchsorted(begins, tf.gather(row_begins, row_ids) + offsets)
