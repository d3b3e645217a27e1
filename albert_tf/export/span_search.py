"""The best span of a window, and of all windows of a question, in a graph.

Data flow: outputs of a model -> [this file] -> first and last token, score.
Floor: export. Core TensorFlow operations only.

Scores are float64, as there, so that ties are the same ones.

Source: `tasks.squad.predictions`, whose best spans these equal.
"""

import dataclasses

import tensorflow as tf

from albert_tf.export import flat_rows

_NOTHING = float("-inf")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spans:
    """Spans of W windows, N of each, in the order in which ties are broken.

    Args:
        starts: Int32 `[W, N]`, places of first tokens in the model's input.
        ends: Int32 `[W, N]`, of last tokens.
        scores: Float64 `[W, N]`.
    """

    starts: tf.Tensor
    ends: tf.Tensor
    scores: tf.Tensor


@dataclasses.dataclass(frozen=True, kw_only=True)
class Allowed:
    """What makes a span a candidate.

    Args:
        is_start: Bool `[W, S]`: is it a token of the context with most
            context in this window?
        is_end: Bool `[W, S]`: is it a token of the context?
        max_answer_length: Tokens of an answer at most.
    """

    is_start: tf.Tensor
    is_end: tf.Tensor
    max_answer_length: int


def likeliest_spans(
    start_logits: tf.Tensor, end_logits: tf.Tensor, num_best: int
) -> Spans:
    """Returns each of the likeliest starts with each of the ends.

    Args:
        start_logits: Float32 `[W, S]`.
        end_logits: Float32 `[W, S]`.
        num_best: How many of either, or S if that is less.
    """
    number = tf.minimum(num_best, tf.shape(start_logits)[1])
    start_values, starts = tf.math.top_k(start_logits, number)
    end_values, ends = tf.math.top_k(end_logits, number)
    return Spans(
        starts=tf.repeat(starts, number, axis=1),
        ends=tf.tile(ends, [1, number]),
        scores=_sums(
            tf.repeat(start_values, number, axis=1),
            tf.tile(end_values, [1, number]),
        ),
    )


def all_spans(
    start_logits: tf.Tensor, end_logits: tf.Tensor, max_answer_length: int
) -> Spans:
    """Returns all spans that are not too long; see `likeliest_spans`."""
    shape = tf.shape(start_logits)
    longest = tf.minimum(max_answer_length, shape[1])
    starts = tf.repeat(tf.range(shape[1]), longest)
    ends = starts + tf.tile(tf.range(longest), shape[1:])
    inside = flat_rows.indices(ends < shape[1])
    starts, ends = tf.gather(starts, inside), tf.gather(ends, inside)
    full = tf.concat([shape[:1], tf.shape(starts)], 0)
    return Spans(
        starts=tf.broadcast_to(starts, full),
        ends=tf.broadcast_to(ends, full),
        scores=_sums(
            tf.gather(start_logits, starts, axis=1),
            tf.gather(end_logits, ends, axis=1),
        ),
    )


def beam_spans(outputs: dict[str, tf.Tensor], num_ends: int) -> Spans:
    """Returns the spans that a `BeamSpanModel` followed.

    Args:
        outputs: Of the model.
        num_ends: How many ends belong to each start.
    """
    return Spans(
        starts=tf.repeat(outputs["start_top_index"], num_ends, axis=1),
        ends=outputs["end_top_index"],
        scores=_sums(
            tf.repeat(outputs["start_top_log_probs"], num_ends, axis=1),
            outputs["end_top_log_probs"],
        ),
    )


def _sums(starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    return tf.cast(starts, tf.float64) + tf.cast(ends, tf.float64)


def best_of_windows(spans: Spans, allowed: Allowed) -> Spans:
    """Returns the best candidate of each window, N = 1; score -inf if none."""
    is_candidate = tf.gather(allowed.is_start, spans.starts, batch_dims=1)
    is_candidate &= tf.gather(allowed.is_end, spans.ends, batch_dims=1)
    size = spans.ends - spans.starts
    is_candidate &= (size >= 0) & (size < allowed.max_answer_length)
    scores = tf.where(
        is_candidate, spans.scores, tf.constant(_NOTHING, tf.float64)
    )
    best = tf.reduce_max(scores, axis=1, keepdims=True)
    number = tf.shape(scores)[1]
    place = tf.where(scores == best, tf.range(number)[None], number - 1)
    place = tf.reduce_min(place, axis=1, keepdims=True)
    return Spans(
        starts=tf.gather(spans.starts, place, batch_dims=1),
        ends=tf.gather(spans.ends, place, batch_dims=1),
        scores=best,
    )


def best_window(
    scores: tf.Tensor, rows: tf.Tensor, num_rows: tf.Tensor
) -> tf.Tensor:
    """Finds the window with the best candidate of each question.

    Args:
        scores: Float64 `[W]`, -inf where a window has no candidate.
        rows: Int32 `[W]`, the question of each window.
        num_rows: Number of questions, B.

    Returns:
        Int32 `[B]`, of windows that are as good the first; W if there is no
        candidate.
    """
    best = tf.math.unsorted_segment_max(scores, rows, num_rows)
    is_best = (scores == tf.gather(best, rows)) & (scores > _NOTHING)
    number = flat_rows.size(scores)
    place = tf.where(is_best, tf.range(number), number)
    return tf.math.unsorted_segment_min(place, rows, num_rows)
