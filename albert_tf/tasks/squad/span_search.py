"""Scores and the best spans of the SQuAD 1.1 and 2.0 models, in a graph.

A scorer runs a model with the exported weights and lists candidate spans; the
functions find the best span of a window, and the best window of a question.
Scores are float64, as in Python, so that ties are the same.

Data flow: ids -> [this file] -> logits or beams -> spans.
Source: `modeling.span_models`, `tasks.squad.predictions`, which give the same.
"""

import dataclasses

import tensorflow as tf

from albert_tf.serving import ragged
from albert_tf.serving.exported_encoder import ExportedEncoder
from albert_tf.serving.signature import Tensors
from albert_tf.tasks.spec import Exported
from albert_tf.tasks.squad.predictions import SpanLimits

_NO_SCORE = float("-inf")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpanTensors:
    """N spans of each of W windows, in the order in which ties are broken.

    Starts and ends are positions of tokens in the model's input.
    """

    starts: tf.Tensor  # int32 [W, N]
    ends: tf.Tensor  # int32 [W, N]
    scores: tf.Tensor  # float64 [W, N]


class LogitScorer:
    """The scorer of version 1.1; its input is at least `min_length` long.

    With `compares_null`, the logits of `[CLS]` stand for there being no
    answer, as transformers' `run_qa.py` trains version 2.0, and the score of
    the best span must be subtracted from `null_scores`, float32 `[W]`.
    """

    min_length = 1

    def __init__(self, exported: Exported, *, compares_null: bool) -> None:
        self.compares_null = compares_null
        self._model, self._weights = exported.model, exported.weights
        self._encode = ExportedEncoder(self._model.albert, self._weights)

    def outputs(self, **ids: tf.Tensor) -> Tensors:
        """Returns `start_logits` and `end_logits`, float32 `[B, S]`."""
        sequence, _ = self._encode(**ids)
        with self._weights.scope():
            logits = self._model.span_head(sequence)  # [B, S, 2]
        starts, ends = tf.unstack(logits, axis=-1)
        return {"start_logits": starts, "end_logits": ends}

    def spans(
        self, outputs: Tensors, input_mask: tf.Tensor, limits: SpanLimits
    ) -> list[SpanTensors]:
        """Returns the likeliest spans; and all, where none of them is valid."""
        # The question's logits count, as in the reference; logits of padding
        # must not, because its size depends on the other windows.
        starts, ends = (
            tf.where(input_mask > 0, outputs[name], tf.float32.min)
            for name in ("start_logits", "end_logits")
        )
        return [
            likeliest_spans(starts, ends, limits.n_best_size),
            all_spans(starts, ends, limits.max_answer_length),
        ]

    def null_scores(self, outputs: Tensors) -> tf.Tensor:
        """Returns the score of `[CLS]`; or 0: every question has an answer."""
        if self.compares_null:
            return outputs["start_logits"][:, 0] + outputs["end_logits"][:, 0]
        return tf.zeros_like(outputs["start_logits"][:, 0])


class BeamScorer:
    """The scorer of version 2.0."""

    compares_null = False

    def __init__(self, exported: Exported) -> None:
        self._model, self._weights = exported.model, exported.weights
        self.min_length = max(self._model.start_n_top, self._model.end_n_top)
        self._separator_id = exported.tokenizer.special_ids.sep or 0
        self._encode = ExportedEncoder(self._model.albert, self._weights)

    def outputs(self, **ids: tf.Tensor) -> Tensors:
        """Returns the outputs of the signature `tokens`."""
        sequence, _ = self._encode(**ids)
        # 0 for the context and `[CLS]`. Text never becomes `[SEP]`.
        is_context = (ids["segment_ids"] > 0) & (ids["input_mask"] > 0)
        is_context &= ids["input_ids"] != self._separator_id
        is_first = tf.range(tf.shape(sequence)[1]) == 0
        p_mask = tf.where(is_context | is_first[None], 0.0, 1.0)
        with self._weights.scope():
            outputs: Tensors = self._model.beam_span_head(
                tf.cast(sequence, tf.float32),
                p_mask,
                num_starts=self._model.start_n_top,
                num_ends=self._model.end_n_top,
            )
        return outputs

    def spans(
        self, outputs: Tensors, input_mask: tf.Tensor, limits: SpanLimits
    ) -> list[SpanTensors]:
        """Returns the spans of the beams, as both sets."""
        return [beam_spans(outputs, self._model.end_n_top)] * 2

    def null_scores(self, outputs: Tensors) -> tf.Tensor:
        """Returns the logits of there being no answer."""
        return outputs["cls_logits"]


def likeliest_spans(
    start_logits: tf.Tensor, end_logits: tf.Tensor, num_best: int
) -> SpanTensors:
    """Combines the likeliest starts with the likeliest ends.

    The logits are float32 `[W, S]`; at most S starts and S ends are used.
    """
    num_best = tf.minimum(num_best, tf.shape(start_logits)[1])
    start_values, starts = tf.math.top_k(start_logits, num_best)
    end_values, ends = tf.math.top_k(end_logits, num_best)
    return SpanTensors(
        starts=tf.repeat(starts, num_best, axis=1),
        ends=tf.tile(ends, [1, num_best]),
        scores=_sums(
            tf.repeat(start_values, num_best, axis=1),
            tf.tile(end_values, [1, num_best]),
        ),
    )


def all_spans(
    start_logits: tf.Tensor, end_logits: tf.Tensor, max_answer_length: int
) -> SpanTensors:
    """Returns all spans that are not too long; see `likeliest_spans`."""
    shape = tf.shape(start_logits)
    longest = tf.minimum(max_answer_length, shape[1])
    starts = tf.repeat(tf.range(shape[1]), longest)
    ends = starts + tf.tile(tf.range(longest), shape[1:])
    inside = ragged.indices(ends < shape[1])
    starts, ends = tf.gather(starts, inside), tf.gather(ends, inside)
    full = tf.concat([shape[:1], tf.shape(starts)], 0)
    return SpanTensors(
        starts=tf.broadcast_to(starts, full),
        ends=tf.broadcast_to(ends, full),
        scores=_sums(
            tf.gather(start_logits, starts, axis=1),
            tf.gather(end_logits, ends, axis=1),
        ),
    )


def beam_spans(outputs: Tensors, num_ends: int) -> SpanTensors:
    """Returns the spans that a `BeamSpanModel` has followed."""
    return SpanTensors(
        starts=tf.repeat(outputs["start_top_index"], num_ends, axis=1),
        ends=outputs["end_top_index"],
        scores=_sums(
            tf.repeat(outputs["start_top_log_probs"], num_ends, axis=1),
            outputs["end_top_log_probs"],
        ),
    )


def _sums(starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    return tf.cast(starts, tf.float64) + tf.cast(ends, tf.float64)


def best_spans(
    spans: SpanTensors,
    *,
    is_start: tf.Tensor,
    is_end: tf.Tensor,
    max_answer_length: int,
) -> SpanTensors:
    """Finds the best valid span of each window; its score is -inf if none is.

    A valid span starts where `is_start` and ends where `is_end`, bool `[W, S]`,
    and has at most `max_answer_length` tokens.
    """
    is_valid = tf.gather(is_start, spans.starts, batch_dims=1)
    is_valid &= tf.gather(is_end, spans.ends, batch_dims=1)
    size = spans.ends - spans.starts
    is_valid &= (size >= 0) & (size < max_answer_length)
    scores = tf.where(
        is_valid, spans.scores, tf.constant(_NO_SCORE, tf.float64)
    )
    # `top_k` takes the first of equally good spans.
    best, best_index = tf.math.top_k(scores, 1)
    return SpanTensors(
        starts=tf.gather(spans.starts, best_index, batch_dims=1),
        ends=tf.gather(spans.ends, best_index, batch_dims=1),
        scores=best,
    )


def best_window(
    scores: tf.Tensor, rows: tf.Tensor, num_rows: tf.Tensor
) -> tf.Tensor:
    """Finds the window with the best span of each of B questions.

    The scores of the windows, float64 `[W]`, are -inf where there is no valid
    span; `rows`, int32 `[W]`, are their questions. Returns int32 `[B]`, the
    first of equally good windows, and W if there is none.
    """
    best = tf.math.unsorted_segment_max(scores, rows, num_rows)
    is_best = (scores == tf.gather(best, rows)) & (scores > _NO_SCORE)
    size = ragged.size(scores)
    best_index = tf.where(is_best, tf.range(size), size)
    return tf.math.unsorted_segment_min(best_index, rows, num_rows)
