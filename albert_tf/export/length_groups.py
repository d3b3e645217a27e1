"""Encodes a batch in groups of rows of similar length, to need little padding.

A server puts requests together that have nothing in common. If every row were
padded to the longest, one long text would make its whole batch slow.

Data flow: ids -> rows by length -> [this file] -> vectors, rows as they came.
Core TensorFlow operations only, also of LiteRT.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

from albert_tf.export import ragged

Vectors = tuple[tf.Tensor, tf.Tensor]

# A group may have as many tokens of padding as this share of the tokens of the
# batch. More groups would have less padding; but each group costs as much as
# some more tokens, about 20 on a CPU and hundreds on a GPU.
_PADDING_SHARE = 8
_MIN_PADDING = 16


def run_in_groups(
    function: Callable[..., Sequence[tf.Tensor]],
    inputs: Sequence[tf.Tensor],
    lengths: tf.Tensor,
    none: Sequence[tf.Tensor],
) -> list[tf.Tensor]:
    """Applies a function to a batch, group by group.

    Args:
        function: Function of the lengths of R rows, int32 `[R]`, and of their
            part of the inputs, `[R, ..., L]` with the largest of the lengths
            L; returns tensors `[R, ...]`. It is traced once.
        inputs: Tensors `[B, ..., S]`.
        lengths: Int32 `[B]`, the places of each row that are needed.
        none: Results of no rows, `[0, ...]`; sizes that are not static may be
            of any value.

    Returns:
        The results, `[B, ...]`, in the order of the inputs.
    """
    num_rows = ragged.size(lengths)
    lengths, order = tf.math.top_k(lengths, num_rows)  # the longest first
    allowance = tf.reduce_sum(lengths) // _PADDING_SHARE
    allowance = tf.maximum(allowance, _MIN_PADDING)
    inputs = [tf.gather(values, order) for values in inputs]

    def run_group(start: tf.Tensor, *so_far: tf.Tensor) -> list[tf.Tensor]:
        end = group_end(lengths, start, allowance)
        longest = lengths[start]
        # LiteRT supports neither ellipses nor slices that add axes.
        parts = [
            values[
                slice(start, end),
                *[slice(None)] * (values.shape.rank - 2),
                slice(longest),
            ]
            for values in inputs
        ]
        found = function(lengths[start:end], *parts)
        joined = [
            tf.concat([one, more], 0)
            for one, more in zip(so_far, found, strict=True)
        ]
        return [end, *joined]

    shapes = [tf.TensorShape([None, *one.shape[1:]]) for one in none]
    _, *results = tf.while_loop(
        lambda start, *_: start < num_rows,
        run_group,
        [tf.constant(0), *none],
        shape_invariants=[tf.TensorShape([]), *shapes],
        parallel_iterations=1,
    )
    place = tf.scatter_nd(
        tf.expand_dims(order, 1), tf.range(num_rows), tf.reshape(num_rows, [1])
    )
    return [tf.gather(values, place) for values in results]


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
    width = tf.shape(input_ids)[1]
    zero = tf.zeros([], dtype)

    def encode_group(lengths: tf.Tensor, *inputs: tf.Tensor) -> Vectors:
        sequence, pooled = encode(*inputs)
        longest = tf.shape(inputs[0])[1]
        is_token = tf.range(longest) < tf.expand_dims(lengths, 1)  # [R, L]
        sequence = tf.where(tf.expand_dims(is_token, 2), sequence, zero)
        rest = [[0, 0], [0, width - longest], [0, 0]]
        return tf.pad(sequence, rest), pooled

    sequence, pooled = run_in_groups(
        encode_group,
        [input_ids, input_mask, segment_ids],
        row_lengths(input_mask),
        [
            tf.zeros([0, width, hidden_size], dtype),
            tf.zeros([0, hidden_size], dtype),
        ],
    )
    return sequence, pooled


def row_lengths(input_mask: tf.Tensor) -> tf.Tensor:
    """Returns int32 `[...]`: the place behind the last 1 of rows `[..., S]`.

    A row of zeros has all S places, so that its vectors are those that the
    model has for it.
    """
    width = tf.shape(input_mask)[-1]
    ends = tf.where(input_mask != 0, tf.range(1, width + 1), 0)
    lengths = tf.reduce_max(ends, axis=-1)
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
