"""Questions with each of their options in place, in a graph.

Data flow: question, options -> [this file] -> texts of choices.
Floor: export. Core TensorFlow operations only.

Source: `tasks.race.examples.MultipleChoiceExample.choice_texts`, whose texts
these equal.
"""

import tensorflow as tf

from albert_tf.export import flat_rows
from albert_tf.tasks.race import examples

# The characters of a class of characters.
BLANKS = tuple(map(ord, examples.BLANK.pattern[1:-1]))
_BLANK_AT_END = " _"
# Of all choices of a request together, so that memory is enough: an option
# takes the place of every blank, and so texts can grow by multiplication.
MAX_CODE_POINTS = 2**24


def complete(question: tf.Tensor, options: tf.Tensor) -> tf.Tensor:
    """Puts every option into the place of every blank of its question.

    Where there is no blank, the option follows the question.

    Args:
        question: Strings `[B]`.
        options: Strings `[B, C]`.

    Returns:
        Strings `[B x C]`, all options of a question one after the other.
    """
    num_questions, num_options = tf.unstack(tf.shape(options))
    question = _with_blank(question)
    codes, rows, sizes = flat_rows.decode(tf.repeat(question, num_options))
    flat_options = tf.reshape(options, [num_questions * num_options])
    option_codes, _, option_sizes = flat_rows.decode(flat_options)
    option_starts = tf.cumsum(option_sizes, exclusive=True)
    is_blank = _is_blank(codes)
    lengths = tf.where(is_blank, tf.gather(option_sizes, rows), 1)
    with tf.control_dependencies([_check_size(lengths)]):
        sources, within = flat_rows.spread(lengths)
    place = tf.gather(tf.gather(option_starts, rows), sources) + within
    in_option = tf.gather(is_blank, sources)
    place = tf.where(in_option, place, flat_rows.size(option_codes))
    completed = tf.where(
        in_option,
        tf.gather(tf.concat([option_codes, [0]], 0), place),
        tf.gather(codes, sources),
    )
    new_sizes = tf.math.unsorted_segment_sum(
        lengths, rows, flat_rows.size(sizes)
    )
    return flat_rows.encode(completed, new_sizes)


def _with_blank(question: tf.Tensor) -> tf.Tensor:
    codes, rows, sizes = flat_rows.decode(question)
    num_blanks = tf.math.unsorted_segment_sum(
        tf.cast(_is_blank(codes), tf.int32), rows, flat_rows.size(sizes)
    )
    ending = tf.where(num_blanks > 0, "", _BLANK_AT_END)
    return tf.strings.join([question, ending])


def _is_blank(code_points: tf.Tensor) -> tf.Tensor:
    return tf.reduce_any(code_points[:, None] == tf.constant(BLANKS), axis=1)


def _check_size(lengths: tf.Tensor) -> tf.Operation:
    total = tf.reduce_sum(tf.cast(lengths, tf.int64))
    return tf.Assert(
        total <= MAX_CODE_POINTS,
        [
            "Questions with options in the place of their blanks may have at "
            f"most {MAX_CODE_POINTS} characters together. Received:",
            total,
        ],
    )
