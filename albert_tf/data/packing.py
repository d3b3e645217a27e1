"""Packs sequences into rows: finds a place for each, in the graph.

Data flow: batch of `input_pipeline.py` -> [this file] -> `packed_at`, by which
`modeling/packing.py` lays several sequences out in a row. TensorFlow. Letters:
b sequences of S tokens, in n parts of m.

Source: Johnson 1973, "Near-optimal bin packing algorithms": first-fit
decreasing.
"""

import tensorflow as tf


def packed_at(input_mask: tf.Tensor, num_parts: int) -> tf.Tensor:
    """Returns where in the rows of its part each sequence starts, int32 `[b]`.

    `input_mask` is int32 `[b, S]`; the batch has `num_parts` equal parts. The
    longest sequences are placed first, each in the first row with room. The
    positions of a part, S a row, are numbered row by row.
    """
    num_rows, row_length = input_mask.shape
    num_sequences = num_rows // num_parts
    lengths = tf.reduce_max(input_mask * tf.range(1, row_length + 1), axis=1)
    lengths = tf.reshape(lengths, [num_parts, num_sequences])  # [n, m]
    order = tf.argsort(lengths, axis=1, direction="DESCENDING", stable=True)
    ordered = tf.gather(lengths, order, batch_dims=1)
    parts = tf.range(num_parts)

    def place(
        index: tf.Tensor, room: tf.Tensor, starts: tf.TensorArray
    ) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray]:
        length = ordered[:, index]  # [n]
        fits = tf.cast(room >= length[:, None], tf.int32)
        row = tf.argmax(fits, axis=1, output_type=tf.int32)
        chosen = tf.stack([parts, row], axis=1)
        taken = row_length - tf.gather_nd(room, chosen)
        room = tf.tensor_scatter_nd_sub(room, chosen, length)
        starts = starts.write(index, row * row_length + taken)
        return index + 1, room, starts

    _, _, starts = tf.while_loop(
        lambda index, *_: index < num_sequences,
        place,
        (
            tf.constant(0),
            tf.fill([num_parts, num_sequences], row_length),
            tf.TensorArray(tf.int32, num_sequences),
        ),
    )
    by_length = tf.transpose(starts.stack())  # [n, m]
    back = tf.argsort(order, axis=1)
    places = tf.gather(by_length, back, batch_dims=1)
    return tf.reshape(places, [num_rows])
