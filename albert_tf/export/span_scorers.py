"""The models of SQuAD 1.1 and 2.0, with the weights that are served.

Data flow: ids -> [this file] -> logits or beams -> spans.
Floor: export.

Source: `modeling.span_model` and `modeling.beam_span_model`, whose outputs
these equal.
"""

from typing import Any

import tensorflow as tf

from albert_tf.export import span_search
from albert_tf.export.exported_encoder import ServedEncoder, ServedWeights
from albert_tf.export.span_search import Spans
from albert_tf.modeling.span_models import BeamSpanModel, SpanModel
from albert_tf.tasks.squad.predictions import SpanLimits

Tensors = dict[str, tf.Tensor]


class LogitScorer:
    """A `squad_signatures.SpanScorer` of version 1.1.

    Args:
        model: Called for its structure.
        weights: Its weights.
    """

    min_length = 1

    def __init__(self, model: SpanModel, weights: ServedWeights) -> None:
        self._head: Any = model.span_head
        self._weights = weights
        self._encode = ServedEncoder(model.albert, weights)

    def outputs(self, **ids: tf.Tensor) -> Tensors:
        """Returns `start_logits` and `end_logits`, float32 `[B, S]`."""
        sequence, _ = self._encode(**ids)
        with self._weights.scope():
            logits = self._head(sequence)  # [B, S, 2]
        starts, ends = tf.unstack(logits, axis=-1)
        return {"start_logits": starts, "end_logits": ends}

    def spans(
        self, outputs: Tensors, input_mask: tf.Tensor, limits: SpanLimits
    ) -> list[Spans]:
        """Returns the likeliest spans, and all of them."""
        # Positions of the question have logits that count, as in the
        # reference; the window's padding depends on other windows.
        starts, ends = (
            tf.where(input_mask > 0, outputs[name], tf.float32.min)
            for name in ("start_logits", "end_logits")
        )
        return [
            span_search.likeliest_spans(starts, ends, limits.n_best_size),
            span_search.all_spans(starts, ends, limits.max_answer_length),
        ]

    def null_scores(self, outputs: Tensors) -> tf.Tensor:
        """Returns 0: version 1.1 knows no question without an answer."""
        return tf.zeros_like(outputs["start_logits"][:, 0])


class BeamScorer:
    """A `squad_signatures.SpanScorer` of version 2.0.

    Args:
        model: Called for its structure.
        weights: Its weights.
        separator_id: Id of `[SEP]`.
    """

    def __init__(
        self, model: BeamSpanModel, weights: ServedWeights, separator_id: int
    ) -> None:
        self.min_length = max(model.start_n_top, model.end_n_top)
        self._model = model
        self._head: Any = model.beam_span_head
        self._weights = weights
        self._separator_id = separator_id
        self._encode = ServedEncoder(model.albert, weights)

    def outputs(self, **ids: tf.Tensor) -> Tensors:
        """Returns what a `BeamSpanModel` does."""
        sequence, _ = self._encode(**ids)
        p_mask = forbidden_places(separator_id=self._separator_id, **ids)
        with self._weights.scope():
            return self._head(
                tf.cast(sequence, tf.float32),
                p_mask,
                num_starts=self._model.start_n_top,
                num_ends=self._model.end_n_top,
            )

    def spans(
        self, outputs: Tensors, input_mask: tf.Tensor, limits: SpanLimits
    ) -> list[Spans]:
        """Returns the spans that were followed."""
        del input_mask, limits
        return [span_search.beam_spans(outputs, self._model.end_n_top)]

    def null_scores(self, outputs: Tensors) -> tf.Tensor:
        """Returns the logits of no answer."""
        return outputs["cls_logits"]


def forbidden_places(
    input_ids: tf.Tensor,
    input_mask: tf.Tensor,
    segment_ids: tf.Tensor,
    *,
    separator_id: int,
) -> tf.Tensor:
    """Returns `p_mask`, float32 `[B, S]`: 0 for the context and `[CLS]`.

    Args:
        input_ids: Int32 `[B, S]`.
        input_mask: Int32 `[B, S]`.
        segment_ids: Int32 `[B, S]`.
        separator_id: Id of `[SEP]`, which text never becomes.
    """
    is_context = (segment_ids > 0) & (input_mask > 0)
    is_context &= input_ids != separator_id
    is_first = tf.range(tf.shape(input_ids)[1]) == 0
    return tf.where(is_context | is_first[None], 0.0, 1.0)
