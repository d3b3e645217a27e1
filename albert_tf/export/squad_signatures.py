"""The signatures of a SQuAD model: the answer to a question about a context.

Data flow: question, context -> windows -> [this file] -> answer.
Floor: export.

Source: google-research/albert, run_squad_v1.py and run_squad_v2.py, for the
outputs of ids; `tasks.squad.data`, whose answers those of raw text equal.
"""

import dataclasses
import functools
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.export import (
    code_point_table,
    context_windows,
    pair_packing,
    ragged,
    signature,
    span_search,
)
from albert_tf.export.code_point_table import PagedTable
from albert_tf.export.context_windows import ContextWindows
from albert_tf.export.exported_text import ExportedText
from albert_tf.export.signature import Signature, Tensors
from albert_tf.export.span_search import SpanScorer
from albert_tf.export.tokens import Tokens
from albert_tf.tasks.squad import predictions
from albert_tf.tasks.squad.predictions import SpanLimits
from albert_tf.tasks.squad.windows import WindowLengths

# Windows that go through the model together: memory against overhead.
_WINDOWS_PER_CALL = 16
# A scorer returns at most two sets of spans; see `SpanScorer.spans`.
_NUM_SETS = 2
_EXAMPLE = {
    "question": "Where did the snow fall?",
    "context": "The snow fell on the hills. In the valley it rained.",
}


def make_signatures(
    scorer: SpanScorer,
    text_graph: ExportedText,
    *,
    lengths: WindowLengths,
    limits: SpanLimits,
    null_threshold: float | None = None,
) -> list[Signature]:
    """Traces the signatures of a SQuAD model.

    Raw text gives `answer`, strings `[B]`, "" if there is none; `start` and
    `end`, int32 `[B]`, its code points in the context, -1 if there is none;
    `score`, float32 `[B]`, of its start and end together (logits, or in
    version 2.0 log-probabilities), before the null threshold is applied; and
    `null_score`, float32 `[B]`, 0 in version 1.1. Ids give the outputs of the
    model.

    Args:
        scorer: The model.
        text_graph: Makes tokens of raw text.
        lengths: Largest lengths of questions and windows.
        limits: Which spans are considered.
        null_threshold: There is no answer if the null score is at or above
            this value; None to answer always.
    """
    reader = _Reader(scorer, text_graph, lengths, limits, null_threshold)
    return signature.text_and_token_signatures(
        reader.answer, scorer.outputs, example=_EXAMPLE
    )


@dataclasses.dataclass(frozen=True)
class _Reader:
    """Answers questions about contexts; see `make_signatures`."""

    scorer: SpanScorer
    text_graph: ExportedText
    lengths: WindowLengths
    limits: SpanLimits
    null_threshold: float | None

    def answer(self, question: tf.Tensor, context: tf.Tensor) -> Tensors:
        question, context = signature.same_batch(
            question=question, context=context
        )
        tokens = self.text_graph(
            tf.concat([question, context], 0), with_offsets=True
        )
        with tf.device("/device:CPU:0"):
            windows = context_windows.split_contexts(tokens, self.lengths)
            owners = context_windows.best_windows(
                windows, ragged.size(tokens.ids)
            )
        found = self._search_all(windows, tokens, owners)
        with tf.device("/device:CPU:0"):
            return self._choose(found, windows, tokens, context)

    def _search_all(
        self, windows: ContextWindows, tokens: Tokens, owners: tf.Tensor
    ) -> "_WindowAnswers":
        """Searches all windows, some at a time."""
        number = ragged.size(windows.rows)

        def search_some(begin: tf.Tensor, *so_far: tf.Tensor) -> Any:
            end = tf.minimum(begin + _WINDOWS_PER_CALL, number)
            found = self._search(
                windows.slice(begin, end), begin, tokens, owners
            )
            joined = [
                tf.concat([one, more], 0)
                for one, more in zip(so_far, found.tensors(), strict=True)
            ]
            return end, *joined

        none = _WindowAnswers.none()
        _, *tensors = tf.while_loop(
            lambda begin, *_: begin < number,
            search_some,
            (tf.constant(0), *none.tensors()),
            shape_invariants=(tf.TensorShape([]), *none.shapes()),
            parallel_iterations=1,
        )
        return _WindowAnswers(*tensors)

    def _search(
        self,
        windows: ContextWindows,
        first: tf.Tensor,
        tokens: Tokens,
        owners: tf.Tensor,
    ) -> "_WindowAnswers":
        """Searches some windows, the first of which has number `first`."""
        ids = pair_packing.pack_ranges(
            tokens.ids,
            windows.questions,
            windows.contexts,
            special=self.text_graph.special_ids,
            min_length=self.scorer.min_length,
        )
        outputs = self.scorer.outputs(**ids)
        length = tf.shape(ids["input_ids"])[1]
        token, is_inside = windows.context_tokens(length)
        numbers = first + tf.range(ragged.size(windows.rows))
        # If no text has any token, there is none to look up.
        owners = tf.concat([owners, [-1]], 0)
        is_own = tf.gather(owners, token) == numbers[:, None]
        best = [
            span_search.best_spans(
                spans,
                is_start=is_inside & is_own,
                is_end=is_inside,
                max_answer_length=self.limits.max_answer_length,
            )
            for spans in self.scorer.spans(
                outputs, ids["input_mask"], self.limits
            )
        ]
        best += best[:1] * (_NUM_SETS - len(best))
        shift = (windows.contexts.starts - windows.offsets)[:, None]
        return _WindowAnswers(
            scores=tf.concat([one.scores for one in best], 1),
            firsts=tf.concat([one.starts for one in best], 1) + shift,
            lasts=tf.concat([one.ends for one in best], 1) + shift,
            null_scores=self.scorer.null_scores(outputs),
        )

    def _choose(
        self,
        found: "_WindowAnswers",
        windows: ContextWindows,
        tokens: Tokens,
        context: tf.Tensor,
    ) -> Tensors:
        """Chooses the best window of each question and cuts out its answer."""
        rows, num_rows = windows.rows, tf.shape(context)[0]
        number = ragged.size(rows)
        nowhere = number * _NUM_SETS
        place = tf.fill([num_rows], nowhere)
        for column in reversed(range(_NUM_SETS)):
            window = span_search.best_window(
                found.scores[:, column], rows, num_rows
            )
            place = tf.where(
                window < number, window * _NUM_SETS + column, place
            )
        score = _at(found.scores, place, 2 * predictions.NO_SPAN_SCORE)
        null_score = tf.math.unsorted_segment_min(
            found.null_scores, rows, num_rows
        )
        is_answered = place < nowhere
        if self.null_threshold is not None:
            is_answered &= null_score < self.null_threshold
        starts = _at(tokens.starts, _at(found.firsts, place, 0), 0)
        ends = _at(tokens.ends, _at(found.lasts, place, 0), 0)
        answer, start, end = cut_out(
            context,
            tf.where(is_answered, starts, 0),
            tf.where(is_answered, ends, 0),
        )
        return {
            "answer": answer,
            "start": start,
            "end": end,
            "score": tf.cast(score, tf.float32),
            "null_score": null_score,
        }


@dataclasses.dataclass(frozen=True)
class _WindowAnswers:
    """The best span of each set in W windows, as indices of all tokens."""

    scores: tf.Tensor  # float64 [W, 2]
    firsts: tf.Tensor  # int32 [W, 2]
    lasts: tf.Tensor  # int32 [W, 2]
    null_scores: tf.Tensor  # float32 [W]

    @staticmethod
    def none() -> "_WindowAnswers":
        """Returns the answers of no window."""
        places = tf.zeros([0, _NUM_SETS], tf.int32)
        return _WindowAnswers(
            tf.zeros([0, _NUM_SETS], tf.float64), places, places, tf.zeros([0])
        )

    def tensors(self) -> tuple[tf.Tensor, ...]:
        return self.scores, self.firsts, self.lasts, self.null_scores

    def shapes(self) -> tuple[tf.TensorShape, ...]:
        return tuple(
            tf.TensorShape([None, *tensor.shape[1:]])
            for tensor in self.tensors()
        )


def _at(values: Any, places: tf.Tensor, otherwise: float) -> tf.Tensor:
    """Gathers from all values; a place past the end gives `otherwise`."""
    flat = tf.reshape(values, [-1])
    return tf.gather(
        tf.concat([flat, tf.cast([otherwise], flat.dtype)], 0), places
    )


def cut_out(
    texts: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Cuts one part out of each text and strips the white space around it.

    The result equals `tasks.squad.windows.Paragraph.span_text`.

    Args:
        texts: Strings `[B]`.
        starts: Int32 `[B]`, first code point of each part.
        ends: Int32 `[B]`, one past the last; at most `starts` for none.

    Returns:
        The parts, strings `[B]`, and their starts and ends in the text, int32
        `[B]`; both are -1 if nothing is left.
    """
    codes, _, sizes = ragged.decode(texts)
    row_starts = tf.cumsum(sizes, exclusive=True)
    is_solid = PagedTable(_white_space()).lookup(codes) == 0
    ends = tf.maximum(starts, ends)
    first = ragged.next_true(is_solid, row_starts + starts)
    stop = ragged.previous_true(is_solid, row_starts + ends) + 1
    lengths = tf.maximum(stop - first, 0)
    is_left = lengths > 0
    sources, within = ragged.expand(lengths)
    parts = tf.gather(codes, tf.gather(first, sources) + within)
    return (
        ragged.encode(parts, lengths),
        tf.where(is_left, first - row_starts, -1),
        tf.where(is_left, stop - row_starts, -1),
    )


@functools.cache
def _white_space() -> np.ndarray:
    """Returns 1 for each code point that Python's `strip` removes."""
    code_points = range(code_point_table.NUM_CODE_POINTS)
    return np.array([chr(c).isspace() for c in code_points], np.uint8)
