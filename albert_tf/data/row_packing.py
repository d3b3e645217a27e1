"""Packs sequences into rows, so that little of a batch is padding.

`tf.data`. Letters: n batches of m sequences each.

Source: Johnson 1973, "Near-optimal bin packing algorithms": first-fit
decreasing.
"""

import tensorflow as tf


def packed_at(input_mask: tf.Tensor, num_parts: int) -> tf.Tensor:
    """Returns where in the rows of its part each sequence starts, int32 `[b]`.

    `input_mask` is int32 `[b, S]`; the batch has `num_parts` equal parts.
    """
    rows, row_length = input_mask.shape
    lengths = tf.reduce_max(input_mask * tf.range(1, row_length + 1), axis=1)
    parts = tf.reshape(lengths, [num_parts, rows // num_parts])
    return tf.reshape(first_fit_decreasing(parts, row_length), [rows])


def first_fit_decreasing(lengths: tf.Tensor, row_length: int) -> tf.Tensor:
    """Places sequences in rows: the longest first, each in the first with room.

    `lengths`, int32 `[n, m]`, has the tokens of each sequence, 1 to
    `row_length`. Returns int32 `[n, m]`, the position of each sequence's first
    token among those of the rows of its batch, which are numbered row by row.
    """
    num_batches, num_sequences = lengths.shape
    order = tf.argsort(lengths, axis=1, direction="DESCENDING", stable=True)
    ordered = tf.gather(lengths, order, batch_dims=1)
    batches = tf.range(num_batches)

    def place(
        index: tf.Tensor, room: tf.Tensor, starts: tf.TensorArray
    ) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray]:
        length = ordered[:, index]  # [n]
        fits = tf.cast(room >= length[:, None], tf.int32)
        row = tf.argmax(fits, axis=1, output_type=tf.int32)
        chosen = tf.stack([batches, row], axis=1)
        taken = row_length - tf.gather_nd(room, chosen)
        room = tf.tensor_scatter_nd_sub(room, chosen, length)
        starts = starts.write(index, row * row_length + taken)
        return index + 1, room, starts

    _, _, starts = tf.while_loop(
        lambda index, *_: index < num_sequences,
        place,
        (
            tf.constant(0),
            tf.fill([num_batches, num_sequences], row_length),
            tf.TensorArray(tf.int32, num_sequences),
        ),
    )
    by_length = tf.transpose(starts.stack())  # [n, m]
    back = tf.argsort(order, axis=1)
    return tf.gather(by_length, back, batch_dims=1)
