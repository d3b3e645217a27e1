"""Windows over contexts that are longer than the model's input, in a graph.

Data flow: tokens of questions and contexts -> [this file] -> windows -> ids.
Floor: export. Core TensorFlow operations only.

Source: `tasks.squad.windows`, whose windows these equal.
"""

import dataclasses

import tensorflow as tf

from albert_tf.export import flat_rows, pair_packing
from albert_tf.export.pair_packing import Ranges
from albert_tf.export.tokens import Tokens
from albert_tf.tasks.squad import windows as windows_lib
from albert_tf.tasks.squad.windows import WindowLengths
from albert_tf.text.special_tokens import SpecialIds

# TF1: weight of a window's length beside a token's distance from its edge.
_LENGTH_WEIGHT = 0.01


@dataclasses.dataclass(frozen=True, kw_only=True)
class ContextWindows:
    """Windows, W, over the contexts of B questions; at least one of each.

    Args:
        rows: Int32 `[W]`, the question of each, never decreasing.
        questions: Range of the question, the same in all its windows.
        contexts: Range of the part of the context.
    """

    rows: tf.Tensor
    questions: Ranges
    contexts: Ranges

    @property
    def offsets(self) -> tf.Tensor:
        """Int32 `[W]`, place of the first token in the model's input."""
        return self.questions.sizes + 2

    def slice(self, begin: tf.Tensor, end: tf.Tensor) -> "ContextWindows":
        """Returns some neighbouring windows."""
        return ContextWindows(
            rows=self.rows[begin:end],
            questions=_slice(self.questions, begin, end),
            contexts=_slice(self.contexts, begin, end),
        )

    def pack(
        self, ids: tf.Tensor, special: SpecialIds, *, min_length: int
    ) -> dict[str, tf.Tensor]:
        """Returns the inputs of a model, int32 `[W, S]`."""
        return pair_packing.pack_ranges(
            ids,
            self.questions,
            self.contexts,
            special=special,
            min_length=min_length,
        )

    def places(self, length: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Tells which places of the model's input hold the context.

        Args:
            length: S.

        Returns:
            Int32 `[W, S]`, the token among those of all texts, 0 where the
            place holds something else; and bool `[W, S]`, whether it holds a
            token of the context.
        """
        place = tf.range(length)[None] - self.offsets[:, None]
        is_inside = (place >= 0) & (place < self.contexts.sizes[:, None])
        token = self.contexts.starts[:, None] + place
        return tf.where(is_inside, token, 0), is_inside


def _slice(ranges: Ranges, begin: tf.Tensor, end: tf.Tensor) -> Ranges:
    return Ranges(
        starts=ranges.starts[begin:end], sizes=ranges.sizes[begin:end]
    )


def lay_windows(tokens: Tokens, lengths: WindowLengths) -> ContextWindows:
    """Lays windows over contexts, so that all their tokens are in one.

    Args:
        tokens: Of 2 B texts, B questions and then their contexts.
        lengths: How long questions and windows may be.
    """
    num_questions = tokens.num_rows // 2
    starts = flat_rows.starts(tokens.row_ids, tokens.num_rows)
    sizes = starts[1:] - starts[:-1]
    question_sizes = tf.minimum(sizes[:num_questions], lengths.max_query_length)
    context_sizes = sizes[num_questions:]
    room = lengths.max_seq_length - windows_lib.NUM_SPECIAL_TOKENS
    room -= question_sizes
    stride = tf.minimum(lengths.doc_stride, room)
    num_more = -(-tf.maximum(context_sizes - room, 0) // stride)
    rows, numbers = flat_rows.spread(num_more + 1)
    begins = numbers * tf.gather(stride, rows)
    return ContextWindows(
        rows=rows,
        questions=Ranges(
            starts=tf.gather(starts[:num_questions], rows),
            sizes=tf.gather(question_sizes, rows),
        ),
        contexts=Ranges(
            starts=tf.gather(starts[num_questions:-1], rows) + begins,
            sizes=tf.minimum(
                tf.gather(room, rows), tf.gather(context_sizes, rows) - begins
            ),
        ),
    )


def best_windows(windows: ContextWindows, num_tokens: tf.Tensor) -> tf.Tensor:
    """Tells which window has most context around each token.

    Args:
        windows: Over all contexts.
        num_tokens: Of all texts, M.

    Returns:
        Int32 `[M]`, number of the window in which the shorter side of a token
        is longest; of windows that are as good, the first. It has no meaning
        for the tokens of questions.
    """
    sizes = windows.contexts.sizes
    numbers, places = flat_rows.spread(sizes)
    size = tf.gather(sizes, numbers)
    side = tf.cast(tf.minimum(places, size - 1 - places), tf.float64)
    score = side + _LENGTH_WEIGHT * tf.cast(size, tf.float64)
    token = tf.gather(windows.contexts.starts, numbers) + places
    best = tf.math.unsorted_segment_max(score, token, num_tokens)
    is_best = score == tf.gather(best, token)
    return tf.math.unsorted_segment_min(
        tf.where(is_best, numbers, flat_rows.size(sizes)), token, num_tokens
    )
