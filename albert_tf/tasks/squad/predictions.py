"""From the outputs of the model to the answers of a question.

Data flow: outputs of its windows -> [this file] -> answers -> scores, files.

A span of tokens is a candidate if its window is the one in which its first
token has the most context, and if it is not too long. Of the spans with the
same text, the one with the best score counts.

Source: google-research/albert, `squad_utils` (`accumulate_predictions_v1`, ...)
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.settings import Settings, setting
from albert_tf.tasks.squad import windows as windows_lib
from albert_tf.tasks.squad.windows import WindowedQuestion
from albert_tf.tasks.task_data import Outputs

# TF1: score of either end of "no answer", where no span is a candidate.
NO_SPAN_SCORE = -1e6
NOWHERE = (-1, -1)
BEAM_NAMES = (
    "start_top_log_probs",
    "start_top_index",
    "end_top_log_probs",
    "end_top_index",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpanLimits(Settings):
    """Which spans are considered, and how many are kept.

    So many starts and ends of a window are combined, too.
    """

    n_best_size: int = setting(
        20,
        "Number of answers of a question in nbest_predictions.json.",
        at_least=1,
    )
    max_answer_length: int = setting(
        30, "Maximum number of tokens of an answer.", at_least=1
    )
    start_n_top: int = setting(
        5, "SQuAD 2.0: beam size for start positions.", at_least=1
    )
    end_n_top: int = setting(
        5,
        "SQuAD 2.0: beam size for end positions, per start position.",
        at_least=1,
    )


class SpanPrediction(NamedTuple):
    """A part of the context that may be the answer, as the files have it.

    `probability` is its share among the best answers.
    """

    text: str
    probability: float
    # TF1: the names also in version 1.1, where they are logits.
    start_log_prob: float
    end_log_prob: float


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class QuestionPrediction:
    """The best answers of one question, and where the first is in the context.

    `null_odds` are high if there seems to be no answer; 0 in version 1.1.
    """

    spans: list[SpanPrediction]
    characters: tuple[int, int] = NOWHERE
    null_odds: float = 0.0

    @property
    def text(self) -> str:
        """The best answer."""
        return self.spans[0].text

    def best(self) -> "QuestionPrediction":
        """Returns the prediction with only its best answer."""
        return dataclasses.replace(self, spans=self.spans[:1])


class ScoredSpans(NamedTuple):
    """M spans: int `[M]` first and last token, float `[M]` scores of both.

    The tokens are indices, in the input of a window or in the whole context.
    """

    first: np.ndarray
    last: np.ndarray
    start_scores: np.ndarray
    end_scores: np.ndarray


def spans_of_logits(
    question: WindowedQuestion, outputs: Outputs, limits: SpanLimits
) -> ScoredSpans:
    """Combines the best start with the best end positions of each window.

    Returns the candidates among them; if there is none, all of the windows.
    The outputs `start_logits` and `end_logits` have a row for each window.
    """
    rows = [*zip(outputs["start_logits"], outputs["end_logits"], strict=True)]
    likeliest = [_likeliest_spans(*row, limits.n_best_size) for row in rows]
    candidates = _candidates(question, likeliest, limits)
    if candidates.first.size:
        return candidates
    # Differs: the reference answers "empty" here.
    spans = []
    for row, window in zip(rows, question.windows, strict=True):
        context = range(question.offset, question.offset + len(window))
        spans.append(_all_spans(*row, context, limits.max_answer_length))
    return _candidates(question, spans, limits)


def _likeliest_spans(
    start_logits: np.ndarray, end_logits: np.ndarray, num_best: int
) -> ScoredSpans:
    order = [np.argsort(-x, kind="stable") for x in (start_logits, end_logits)]
    starts, ends = (positions[:num_best] for positions in order)
    starts, ends = np.repeat(starts, len(ends)), np.tile(ends, len(starts))
    return ScoredSpans(starts, ends, start_logits[starts], end_logits[ends])


def _all_spans(
    start_logits: np.ndarray, end_logits: np.ndarray, context: range, most: int
) -> ScoredSpans:
    """Returns all spans of the context that have `most` tokens or fewer."""
    longest = min(most, len(context))
    starts = np.repeat(np.arange(context.start, context.stop), longest)
    ends = starts + np.tile(np.arange(longest), len(context))
    is_inside = ends < context.stop
    starts, ends = starts[is_inside], ends[is_inside]
    return ScoredSpans(starts, ends, start_logits[starts], end_logits[ends])


def spans_of_beams(
    question: WindowedQuestion, outputs: Outputs, limits: SpanLimits
) -> ScoredSpans:
    """Returns the candidates among the spans that a beam search has found.

    The outputs `BEAM_NAMES` of a `BeamSpanModel` have a row for each window.
    """
    spans = []
    for start_scores, starts, end_scores, ends in zip(
        *(outputs[name] for name in BEAM_NAMES), strict=True
    ):
        num_ends = len(ends) // len(starts)
        spans.append(
            ScoredSpans(
                np.repeat(starts, num_ends),
                ends,
                np.repeat(start_scores, num_ends),
                end_scores,
            )
        )
    return _candidates(question, spans, limits)


def best_spans(
    question: WindowedQuestion, spans: ScoredSpans, limits: SpanLimits
) -> QuestionPrediction:
    """Returns the best answers; the empty text if there is no candidate."""
    scores = spans.start_scores + spans.end_scores
    chosen: dict[str, int] = {}
    for index in np.argsort(-scores, kind="stable").tolist():
        text = question.paragraph.span_text(
            spans.first[index], spans.last[index]
        )
        # TF1: it may be empty, if the tokens stand for white space.
        chosen.setdefault(text, index)
        if len(chosen) == limits.n_best_size:
            break
    if not chosen:
        none = SpanPrediction("", 1.0, NO_SPAN_SCORE, NO_SPAN_SCORE)
        return QuestionPrediction(spans=[none])
    indices = list(chosen.values())
    exponentials = np.exp(scores[indices] - scores[indices[0]])
    rows = [
        SpanPrediction(
            text=text,
            probability=float(probability),
            start_log_prob=float(spans.start_scores[index]),
            end_log_prob=float(spans.end_scores[index]),
        )
        for (text, index), probability in zip(
            chosen.items(), exponentials / exponentials.sum(), strict=True
        )
    ]
    best = question.paragraph.characters(
        spans.first[indices[0]], spans.last[indices[0]]
    )
    return QuestionPrediction(spans=rows, characters=best)


def _candidates(
    question: WindowedQuestion, spans: Sequence[ScoredSpans], limits: SpanLimits
) -> ScoredSpans:
    """Returns the candidates among the spans of each window."""
    owners = windows_lib.best_windows(
        len(question.paragraph.ids), question.windows
    )
    parts = []
    for index, (window, window_spans) in enumerate(
        zip(question.windows, spans, strict=True)
    ):
        start, end, *scores = window_spans
        shift = window.start - question.offset
        first, last = start + shift, end + shift
        is_kept = (
            (first >= window.start)
            & (last < window.stop)
            & (first <= last)
            & (last - first < limits.max_answer_length)
        )
        is_kept[is_kept] = owners[first[is_kept]] == index
        parts.append([values[is_kept] for values in (first, last, *scores)])
    first, last, *scores = map(np.concatenate, zip(*parts, strict=True))
    return ScoredSpans(
        first, last, *(values.astype(np.float64) for values in scores)
    )
