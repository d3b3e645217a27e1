"""Encodes a batch in groups of rows of similar length, to need little padding.

A server puts requests together that have nothing in common. If every row were
padded to the longest, one long text would make its whole batch slow.

Data flow: ids -> rows by length -> [this file] -> vectors, rows as they came.
Floor: export. Core TensorFlow operations only, also of LiteRT.
"""

from collections.abc import Callable

import tensorflow as tf

from albert_tf.export import ragged

Vectors = tuple[tf.Tensor, tf.Tensor]

# A group may have as many tokens of padding as this share of the tokens of the
# batch. More groups would have less padding; but each group costs as much as
# some more tokens, about 20 on a CPU and hundreds on a GPU.
_PADDING_SHARE = 8
_MIN_PADDING = 16


def encode_in_groups(
    encode: Callable[..., Vectors],
    input_ids: tf.Tensor,
    input_mask: tf.Tensor,
    segment_ids: tf.Tensor,
    *,
    hidden_size: int,
    dtype: str,
) -> Vectors:
    """Applies an encoder to a batch, group by group.

    Args:
        encode: Function of three inputs, int32 `[R, L]`, that returns vectors
            `[R, L, H]` and `[R, H]` of `dtype`. It is traced once.
        input_ids: Int32 `[B, S]`.
        input_mask: Int32 `[B, S]`.
        segment_ids: Int32 `[B, S]`.
        hidden_size: H.
        dtype: Of the vectors.

    Returns:
        `[B, S, H]` and `[B, H]`; vectors behind the last token of a row that
        `input_mask` keeps are zero.
    """
    lengths = row_lengths(input_mask)
    num_rows, width = ragged.size(input_ids), tf.shape(input_ids)[1]
    lengths, order = tf.math.top_k(lengths, num_rows)  # the longest first
    allowance = tf.reduce_sum(lengths) // _PADDING_SHARE
    allowance = tf.maximum(allowance, _MIN_PADDING)
    zero = tf.zeros([], dtype)
    inputs = [
        tf.gather(values, order)
        for values in (input_ids, input_mask, segment_ids)
    ]

    def encode_group(start: tf.Tensor, *so_far: tf.Tensor) -> tuple:
        end = group_end(lengths, start, allowance)
        longest = lengths[start]
        sequence, pooled = encode(
            *(values[start:end, :longest] for values in inputs)
        )
        # LiteRT does not support slices that add axes.
        is_token = tf.range(longest) < tf.expand_dims(lengths[start:end], 1)
        sequence = tf.where(tf.expand_dims(is_token, 2), sequence, zero)
        sequence = tf.pad(sequence, [[0, 0], [0, width - longest], [0, 0]])
        return (
            end,
            tf.concat([so_far[0], sequence], 0),
            tf.concat([so_far[1], pooled], 0),
        )

    none = (
        tf.zeros([0, width, hidden_size], dtype),
        tf.zeros([0, hidden_size], dtype),
    )
    shapes = [
        tf.TensorShape([*[None] * (v.shape.rank - 1), hidden_size])
        for v in none
    ]
    _, sequence, pooled = tf.while_loop(
        lambda start, *_: start < num_rows,
        encode_group,
        (tf.constant(0), *none),
        shape_invariants=(tf.TensorShape([]), *shapes),
        parallel_iterations=1,
    )
    place = tf.scatter_nd(
        tf.expand_dims(order, 1), tf.range(num_rows), tf.reshape(num_rows, [1])
    )
    return tf.gather(sequence, place), tf.gather(pooled, place)


def row_lengths(input_mask: tf.Tensor) -> tf.Tensor:
    """Returns int32 `[B]`: the place behind the last 1 of each row.

    A row of zeros has all S places, so that its vectors are those that the
    model has for it.
    """
    width = tf.shape(input_mask)[1]
    ends = tf.where(input_mask != 0, tf.range(1, width + 1), 0)
    lengths = tf.reduce_max(ends, axis=1)
    return tf.where(lengths > 0, lengths, width)


def group_end(
    lengths: tf.Tensor, start: tf.Tensor, allowance: tf.Tensor
) -> tf.Tensor:
    """Returns the end of the group that starts with a row.

    The group has as many rows as it can without more padding than allowed.

    Args:
        lengths: Int32 `[B]`, never increasing.
        start: Number of the first row.
        allowance: Largest number of tokens of padding; 0 or more.
    """
    rest = lengths[start:]
    padding = tf.cumsum(rest[0] - rest)
    return start + tf.reduce_sum(tf.cast(padding <= allowance, tf.int32))
