"""Parts of raw texts, without the white space around them, in a graph.

Data flow: contexts, spans -> [this file] -> answers.
Floor: export. Core TensorFlow operations only.

Source: `tasks.squad.paragraphs.Paragraph.span_text`, whose texts these equal.

What a model of SQuAD can be asked: the answer to a question, in a context.

Data flow: question, context -> windows -> [this file] -> answer.
Floor: export.

Source: google-research/albert, run_squad_v1.py, run_squad_v2.py, for what ids
give; `tasks.squad.data`, whose answers those to raw text equal.
"""

import dataclasses
import functools
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from albert_tf.export import (
    code_point_table,
    context_windows,
    flat_rows,
    signature,
    span_search,
)
from albert_tf.export.code_point_table import PagedTable
from albert_tf.export.context_windows import ContextWindows
from albert_tf.export.exported_text import ServedText
from albert_tf.export.signature import Signature
from albert_tf.export.span_search import Allowed, Spans
from albert_tf.export.tokens import TextGraph, Tokens
from albert_tf.tasks.squad import predictions
from albert_tf.tasks.squad.predictions import SpanLimits
from albert_tf.tasks.squad.windows import WindowLengths


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


Tensors = dict[str, tf.Tensor]

# Windows that go through the model together: memory against overhead.
_WINDOWS_PER_CALL = 16
_WARMUP_TEXTS = {
    "question": "Where did the snow fall?",
    "context": "The snow fell on the hills. In the valley it rained.",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadSettings:
    """How answers are looked for.

    Args:
        lengths: How long questions and windows may be.
        limits: Which spans are considered.
        null_threshold: What `null_score` must be below for there to be an
            answer; None to answer always.
    """

    lengths: WindowLengths
    limits: SpanLimits
    null_threshold: float | None = None


class SpanScorer(Protocol):
    """The numeric half of a model of SQuAD.

    Attributes:
        min_length: Length that its input must have at least.
    """

    min_length: int

    def outputs(self, **ids: tf.Tensor) -> Tensors:
        """Returns what the signature `tokens` does."""
        ...

    def spans(
        self, outputs: Tensors, input_mask: tf.Tensor, limits: SpanLimits
    ) -> list[Spans]:
        """Returns spans; the later ones count where the first have none."""
        ...

    def null_scores(self, outputs: Tensors) -> tf.Tensor:
        """Returns float32 `[W]`: high if there seems to be no answer."""
        ...


def make_signatures(
    scorer: SpanScorer, text_graph: TextGraph, settings: SquadSettings
) -> list[Signature]:
    """Traces what a model of SQuAD can be asked.

    Raw text gives `answer`, strings `[B]`, "" if there is none; `start` and
    `end`, int32 `[B]`, its code points in the context, -1 if there is none;
    `score`, float32 `[B]`, of its start and its end together (logits, or in
    version 2.0 logarithms of probabilities), before the null threshold; and
    `null_score`, float32 `[B]`, 0 in version 1.1. Ids give what the model
    does.

    Args:
        scorer: The numeric half.
        text_graph: Text to ids, and where they lie.
        settings: How answers are looked for.
    """
    reader = _Reader(scorer, ServedText(text_graph), settings)
    texts = {name: signature.strings(None) for name in _WARMUP_TEXTS}
    ids = {name: signature.integers(None, None) for name in signature.ID_INPUTS}
    return [
        Signature(
            name=signature.DEFAULT,
            function=signature.trace(reader.answer, **texts),
            warmup=signature.text_requests(**_WARMUP_TEXTS),
        ),
        Signature(
            name=signature.TOKENS,
            function=signature.trace(scorer.outputs, **ids),
            warmup=signature.id_requests(),
        ),
    ]


class _Reader:
    """From question and context to the answer."""

    def __init__(
        self,
        scorer: SpanScorer,
        text_graph: TextGraph,
        settings: SquadSettings,
    ) -> None:
        self._scorer = scorer
        self._text_graph = text_graph
        self._settings = settings

    def answer(self, question: tf.Tensor, context: tf.Tensor) -> Tensors:
        question, context = signature.same_size(
            question=question, context=context
        )
        tokens = self._text_graph(
            tf.concat([question, context], 0), with_offsets=True
        )
        with tf.device("/device:CPU:0"):
            windows = context_windows.lay_windows(
                tokens, self._settings.lengths
            )
            owners = context_windows.best_windows(
                windows, flat_rows.size(tokens.ids)
            )
        found = self._ask_all(windows, tokens, owners)
        with tf.device("/device:CPU:0"):
            return self._choose(found, windows, tokens, context)

    def _ask_all(
        self, windows: ContextWindows, tokens: Tokens, owners: tf.Tensor
    ) -> "_Found":
        """Asks the model of all windows, some at a time."""
        number = flat_rows.size(windows.rows)

        def ask_some(begin: tf.Tensor, *so_far: tf.Tensor) -> Any:
            end = tf.minimum(begin + _WINDOWS_PER_CALL, number)
            found = self._ask(windows.slice(begin, end), begin, tokens, owners)
            joined = [
                tf.concat([one, more], 0)
                for one, more in zip(so_far, found.tensors(), strict=True)
            ]
            return end, *joined

        none = _Found.none()
        _, *tensors = tf.while_loop(
            lambda begin, *_: begin < number,
            ask_some,
            (tf.constant(0), *none.tensors()),
            shape_invariants=(tf.TensorShape([]), *none.shapes()),
            parallel_iterations=1,
        )
        return _Found(*tensors)

    def _ask(
        self,
        windows: ContextWindows,
        first: tf.Tensor,
        tokens: Tokens,
        owners: tf.Tensor,
    ) -> "_Found":
        """Asks the model of some windows, `first` and those behind it."""
        limits = self._settings.limits
        ids = windows.pack(
            tokens.ids,
            self._text_graph.special_ids,
            min_length=self._scorer.min_length,
        )
        outputs = self._scorer.outputs(**ids)
        length = tf.shape(ids["input_ids"])[1]
        token, is_inside = windows.places(length)
        numbers = first + tf.range(flat_rows.size(windows.rows))
        # Without any token in any text there is none to look up.
        owners = tf.concat([owners, [-1]], 0)
        is_own = tf.gather(owners, token) == numbers[:, None]
        allowed = Allowed(
            is_start=is_inside & is_own,
            is_end=is_inside,
            max_answer_length=limits.max_answer_length,
        )
        best = [
            span_search.best_of_windows(spans, allowed)
            for spans in self._scorer.spans(outputs, ids["input_mask"], limits)
        ]
        # Kinds of spans that there are not count as without candidate.
        best += best[:1] * (_NUM_KINDS - len(best))
        shift = (windows.contexts.starts - windows.offsets)[:, None]
        return _Found(
            scores=tf.concat([one.scores for one in best], 1),
            firsts=tf.concat([one.starts for one in best], 1) + shift,
            lasts=tf.concat([one.ends for one in best], 1) + shift,
            null_scores=self._scorer.null_scores(outputs),
        )

    def _choose(
        self,
        found: "_Found",
        windows: ContextWindows,
        tokens: Tokens,
        context: tf.Tensor,
    ) -> Tensors:
        rows, num_rows = windows.rows, tf.shape(context)[0]
        number = flat_rows.size(rows)
        place = tf.fill([num_rows], number * _NUM_KINDS)
        for kind in reversed(range(_NUM_KINDS)):
            window = span_search.best_window(
                found.scores[:, kind], rows, num_rows
            )
            place = tf.where(window < number, window * _NUM_KINDS + kind, place)
        score = _at(found.scores, place, 2 * predictions.NO_SPAN_SCORE)
        null_score = tf.math.unsorted_segment_min(
            found.null_scores, rows, num_rows
        )
        is_found = place < number * _NUM_KINDS
        threshold = self._settings.null_threshold
        if threshold is not None:
            is_found &= null_score < threshold
        starts = _at(tokens.starts, _at(found.firsts, place, 0), 0)
        ends = _at(tokens.ends, _at(found.lasts, place, 0), 0)
        answer, start, end = cut_out(
            context,
            tf.where(is_found, starts, 0),
            tf.where(is_found, ends, 0),
        )
        return {
            "answer": answer,
            "start": start,
            "end": end,
            "score": tf.cast(score, tf.float32),
            "null_score": null_score,
        }


# A scorer offers two kinds of spans at most; see `SpanScorer.spans`.
_NUM_KINDS = 2


@dataclasses.dataclass(frozen=True)
class _Found:
    """Of W windows: the best span of each kind, as tokens of all texts."""

    scores: tf.Tensor  # float64 [W, 2]
    firsts: tf.Tensor  # int32 [W, 2]
    lasts: tf.Tensor  # int32 [W, 2]
    null_scores: tf.Tensor  # float32 [W]

    @staticmethod
    def none() -> "_Found":
        """Returns those of no window."""
        places = tf.zeros([0, _NUM_KINDS], tf.int32)
        return _Found(
            tf.zeros([0, _NUM_KINDS], tf.float64), places, places, tf.zeros([0])
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
