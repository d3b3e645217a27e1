"""Parts of raw texts, without the white space around them, in a graph.

Data flow: contexts, spans -> [this file] -> answers.
Floor: export. Core TensorFlow operations only.

Source: `tasks.squad.paragraphs.Paragraph.span_text`, whose texts these equal.
"""

import functools

import numpy as np
import tensorflow as tf

from albert_tf.export import code_point_table, flat_rows
from albert_tf.export.code_point_table import PagedTable


@functools.cache
def _spaces() -> np.ndarray:
    """Returns 1 for each code point that Python's `strip` takes away."""
    code_points = range(code_point_table.NUM_CODE_POINTS)
    return np.array([chr(c).isspace() for c in code_points], np.uint8)


def cut_out(
    texts: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Cuts one part out of each text.

    Args:
        texts: Strings `[B]`.
        starts: Int32 `[B]`, in code points.
        ends: Int32 `[B]`, one past the last; not above `starts` for none.

    Returns:
        The parts, strings `[B]`, and where they then begin and end, int32
        `[B]`: both -1 if nothing is left.
    """
    codes, _, sizes = flat_rows.decode(texts)
    begins = tf.cumsum(sizes, exclusive=True)
    is_solid = PagedTable(_spaces()).lookup(codes) == 0
    ends = tf.maximum(starts, ends)
    first = flat_rows.next_true(is_solid, begins + starts)
    stop = flat_rows.last_true(is_solid, begins + ends) + 1
    lengths = tf.maximum(stop - first, 0)
    is_there = lengths > 0
    sources, within = flat_rows.spread(lengths)
    parts = tf.gather(codes, tf.gather(first, sources) + within)
    return (
        flat_rows.encode(parts, lengths),
        tf.where(is_there, first - begins, -1),
        tf.where(is_there, stop - begins, -1),
    )
