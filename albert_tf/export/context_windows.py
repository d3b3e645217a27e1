"""Windows over contexts that are longer than the model's input, in a graph.

Data flow: tokens of questions and contexts -> [this file] -> windows -> ids.
Floor: export. Core TensorFlow operations only.

Source: `tasks.squad.windows`; the windows are equal.
"""

import dataclasses

import tensorflow as tf

from albert_tf.export import ragged
from albert_tf.export.pair_packing import Ranges
from albert_tf.export.tokens import Tokens
from albert_tf.tasks.squad import windows as windows_lib
from albert_tf.tasks.squad.windows import WindowLengths

# TF1: weight of a window's length beside a token's distance from its edge.
_LENGTH_WEIGHT = 0.01


@dataclasses.dataclass(frozen=True, kw_only=True)
class ContextWindows:
    """W windows over the contexts of B questions; at least one for each.

    Args:
        rows: Int32 `[W]`, the question of each window, never decreasing.
        questions: Range of the question's tokens, the same in all its windows.
        contexts: Range of the context's tokens.
    """

    rows: tf.Tensor
    questions: Ranges
    contexts: Ranges

    @property
    def offsets(self) -> tf.Tensor:
        """Int32 `[W]`, place of the first context token in the input."""
        return self.questions.sizes + 2

    def slice(self, begin: tf.Tensor, end: tf.Tensor) -> "ContextWindows":
        """Returns the windows from `begin` to before `end`."""
        questions, contexts = (
            Ranges(
                starts=ranges.starts[begin:end], sizes=ranges.sizes[begin:end]
            )
            for ranges in (self.questions, self.contexts)
        )
        return ContextWindows(
            rows=self.rows[begin:end], questions=questions, contexts=contexts
        )

    def context_tokens(self, length: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Finds the context tokens in the model's input.

        Args:
            length: S.

        Returns:
            Int32 `[W, S]`, the index of the token among those of all texts,
            or 0 for a place outside the context; and bool `[W, S]`, whether
            the place is inside the context.
        """
        place = tf.range(length)[None] - self.offsets[:, None]
        is_inside = (place >= 0) & (place < self.contexts.sizes[:, None])
        token = self.contexts.starts[:, None] + place
        return tf.where(is_inside, token, 0), is_inside


def split_contexts(tokens: Tokens, lengths: WindowLengths) -> ContextWindows:
    """Splits contexts into windows that together hold all their tokens.

    Args:
        tokens: Of 2 B texts: B questions, then their contexts.
        lengths: Largest lengths of questions and windows.
    """
    num_questions = tokens.num_rows // 2
    starts, sizes = tokens.rows()
    question_sizes = tf.minimum(sizes[:num_questions], lengths.max_query_length)
    context_sizes = sizes[num_questions:]
    room = lengths.max_seq_length - windows_lib.NUM_SPECIAL_TOKENS
    room -= question_sizes
    stride = tf.minimum(lengths.doc_stride, room)
    num_more = -(-tf.maximum(context_sizes - room, 0) // stride)
    rows, numbers = ragged.expand(num_more + 1)
    begins = numbers * tf.gather(stride, rows)
    return ContextWindows(
        rows=rows,
        questions=Ranges(
            starts=tf.gather(starts[:num_questions], rows),
            sizes=tf.gather(question_sizes, rows),
        ),
        contexts=Ranges(
            starts=tf.gather(starts[num_questions:], rows) + begins,
            sizes=tf.minimum(
                tf.gather(room, rows), tf.gather(context_sizes, rows) - begins
            ),
        ),
    )


def best_windows(windows: ContextWindows, num_tokens: tf.Tensor) -> tf.Tensor:
    """Finds the window with the most context around each token.

    Args:
        windows: Over all contexts.
        num_tokens: M, number of tokens of all texts.

    Returns:
        Int32 `[M]`, number of the window in which the shorter side of a token
        is longest; the first of equally good ones. Entries of question tokens
        are undefined.
    """
    sizes = windows.contexts.sizes
    numbers, places = ragged.expand(sizes)
    size = tf.gather(sizes, numbers)
    side = tf.cast(tf.minimum(places, size - 1 - places), tf.float64)
    score = side + _LENGTH_WEIGHT * tf.cast(size, tf.float64)
    token = tf.gather(windows.contexts.starts, numbers) + places
    best = tf.math.unsorted_segment_max(score, token, num_tokens)
    is_best = score == tf.gather(best, token)
    return tf.math.unsorted_segment_min(
        tf.where(is_best, numbers, ragged.size(sizes)), token, num_tokens
    )
