"""What a model says of the windows of a question, made an answer.

Data flow: outputs of a model -> [this file] -> answers -> scores, files.
Floor: tasks. NumPy.

A span is a candidate if its first token has most context in its window, and
it is not too long. Of spans with the same text the likeliest counts.

Source: google-research/albert, `squad_utils.accumulate_predictions_v1`,
`write_predictions_v1`, `accumulate_predictions_v2`, `write_predictions_v2`.

Settings of the search for answers in SQuAD 2.0.

Floor: tasks. Plain Python, so that a script can report a bad flag before
TensorFlow is imported.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from albert_tf.tasks.squad import windows as windows_lib
from albert_tf.tasks.squad.windows import Window, WindowedQuestion

# TF1: score of either end of "no answer", where no span is a candidate.
NO_SPAN_SCORE = -1e6
BEAM_NAMES = (
    "start_top_log_probs",
    "start_top_index",
    "end_top_log_probs",
    "end_top_index",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpanLimits:
    """Which spans are considered, and how many are kept.

    Args:
        n_best_size: Answers of a question that are kept; and, of a window,
            starts and ends that are combined.
        max_answer_length: Tokens of an answer at most.

    Raises:
        ValueError: A number is below 1.
    """

    n_best_size: int = 20
    max_answer_length: int = 30

    def __post_init__(self) -> None:
        for name in ("n_best_size", "max_answer_length"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"`{name}` must be at least 1. Received: "
                    f"{name}={getattr(self, name)}."
                )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class SpanPrediction:
    """A part of the paragraph that may be the answer.

    Args:
        text: Its characters.
        probability: Among the answers that are kept for the question.
        start_score: Of the first token: a logit, or in version 2.0 the
            logarithm of a probability.
        end_score: Of the last token, likewise.
    """

    text: str
    probability: float
    start_score: float
    end_score: float


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class QuestionPrediction:
    """What a model says of one question.

    Args:
        spans: The likeliest answers, best first.
        null_odds: High if there seems to be none; 0 in version 1.1.
    """

    spans: list[SpanPrediction]
    null_odds: float = 0.0

    @property
    def text(self) -> str:
        """The best answer."""
        return self.spans[0].text


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Spans:
    """Candidates, M, from all windows of a question.

    Args:
        first: Int `[M]`, first token, in the paragraph.
        last: Int `[M]`, last token.
        start_scores: Float `[M]`.
        end_scores: Float `[M]`.
    """

    first: np.ndarray
    last: np.ndarray
    start_scores: np.ndarray
    end_scores: np.ndarray


def spans_of_logits(
    question: WindowedQuestion,
    start_logits: Sequence[np.ndarray],
    end_logits: Sequence[np.ndarray],
    limits: SpanLimits,
) -> Spans:
    """Combines the likeliest starts with the likeliest ends of each window.

    Args:
        question: The question.
        start_logits: A row for each window, at least as long as its input.
        end_logits: Likewise.
        limits: Which spans are considered.

    Returns:
        Every pair of a start and an end that is a candidate; if none is,
        every candidate there is.
    """
    # Differs: where the likeliest starts and ends make no candidate, the
    # reference answers "empty".
    for combine in (_likeliest_pairs, _all_pairs):
        spans = []
        for window, starts, ends in zip(
            question.windows, start_logits, end_logits, strict=True
        ):
            places = slice(question.offset, question.offset + window.size)
            start, end = combine(starts, ends, places, limits)
            spans.append((start, end, starts[start], ends[end]))
        found = _candidates(question, spans, limits)
        if len(found.first):
            break
    return found


def spans_of_beams(
    question: WindowedQuestion,
    beams: Sequence[Mapping[str, np.ndarray]],
    limits: SpanLimits,
) -> Spans:
    """Takes the candidates among the spans that a beam search found.

    Args:
        question: The question.
        beams: For each window the outputs `BEAM_NAMES` of a `BeamSpanModel`:
            those of starts `[k1]`, those of ends `[k1 * k2]`.
        limits: Which spans are considered.
    """
    spans = []
    for beam in beams:
        num_ends = len(beam["end_top_index"]) // len(beam["start_top_index"])
        spans.append(
            (
                np.repeat(beam["start_top_index"], num_ends),
                beam["end_top_index"],
                np.repeat(beam["start_top_log_probs"], num_ends),
                beam["end_top_log_probs"],
            )
        )
    return _candidates(question, spans, limits)


def best_spans(
    question: WindowedQuestion, spans: Spans, limits: SpanLimits
) -> list[SpanPrediction]:
    """Returns the likeliest answers, best first; at least one.

    Where there is no candidate, it is the empty text.
    """
    scores = spans.start_scores + spans.end_scores
    chosen: dict[str, int] = {}
    for place in np.argsort(-scores, kind="stable").tolist():
        text = question.paragraph.span_text(
            spans.first[place], spans.last[place]
        )
        # TF1: it may be empty, if the tokens stand for white space.
        chosen.setdefault(text, place)
        if len(chosen) == limits.n_best_size:
            break
    if not chosen:
        return [
            SpanPrediction(
                text="",
                probability=1.0,
                start_score=NO_SPAN_SCORE,
                end_score=NO_SPAN_SCORE,
            )
        ]
    places = list(chosen.values())
    powers = np.exp(scores[places] - scores[places[0]])
    return [
        SpanPrediction(
            text=text,
            probability=float(probability),
            start_score=float(spans.start_scores[place]),
            end_score=float(spans.end_scores[place]),
        )
        for (text, place), probability in zip(
            chosen.items(), powers / powers.sum(), strict=True
        )
    ]


def _likeliest_pairs(
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    _: slice,
    limits: SpanLimits,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns each of the likeliest starts with each of the ends."""
    starts, ends = (
        np.argsort(-logits, kind="stable")[: limits.n_best_size]
        for logits in (start_logits, end_logits)
    )
    return np.repeat(starts, len(ends)), np.tile(ends, len(starts))


def _all_pairs(
    _: np.ndarray, __: np.ndarray, places: slice, limits: SpanLimits
) -> tuple[np.ndarray, np.ndarray]:
    """Returns all spans of tokens of the paragraph that are not too long."""
    size = places.stop - places.start
    longest = min(limits.max_answer_length, size)
    starts = np.repeat(np.arange(size), longest)
    ends = starts + np.tile(np.arange(longest), size)
    is_inside = ends < size
    return starts[is_inside] + places.start, ends[is_inside] + places.start


_WindowSpans = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _candidates(
    question: WindowedQuestion,
    spans: Sequence[_WindowSpans],
    limits: SpanLimits,
) -> Spans:
    """Keeps the candidates.

    Args:
        question: The question.
        spans: For each window, start and end as places in the model's input,
            and the scores of both.
        limits: Which spans are considered.
    """
    owners = windows_lib.best_windows(
        len(question.paragraph.ids), question.windows
    )
    kept = [
        _candidates_in(question, number, window, owners, own, limits)
        for number, (window, own) in enumerate(
            zip(question.windows, spans, strict=True)
        )
    ]
    first, last, start_scores, end_scores = map(
        np.concatenate, zip(*kept, strict=True)
    )
    return Spans(
        first=first,
        last=last,
        start_scores=start_scores.astype(np.float64),
        end_scores=end_scores.astype(np.float64),
    )


def _candidates_in(
    question: WindowedQuestion,
    number: int,
    window: Window,
    owners: np.ndarray,
    spans: _WindowSpans,
    limits: SpanLimits,
) -> _WindowSpans:
    start, end, start_scores, end_scores = spans
    shift = window.start - question.offset
    first, last = start + shift, end + shift
    is_kept = (
        (first >= window.start)
        & (last < window.end)
        & (first <= last)
        & (last - first < limits.max_answer_length)
    )
    is_kept[is_kept] = owners[first[is_kept]] == number
    return (
        first[is_kept],
        last[is_kept],
        start_scores[is_kept],
        end_scores[is_kept],
    )


# Tokens of the shortest batch: lengths are padded to multiples of it.
MAX_TOP = 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class BeamSearch:
    """Settings of the head of version 2.0.

    Args:
        start_n_top: k1, how many starts are followed.
        end_n_top: k2, how many ends for each of them.
        dropout_prob: Share that is dropped before the score of no answer.

    Raises:
        ValueError: A number is below 1 or above `MAX_TOP`, or the share not
            in [0, 1).
    """

    start_n_top: int = 5
    end_n_top: int = 5
    dropout_prob: float = 0.1

    def __post_init__(self) -> None:
        for name in ("start_n_top", "end_n_top"):
            value = getattr(self, name)
            if value < 1:
                raise ValueError(
                    f"`{name}` must be at least 1. Received: {name}={value}."
                )
            if value > MAX_TOP:
                raise ValueError(
                    f"`{name}` must be at most {MAX_TOP}, because a batch of "
                    "short windows has no more tokens to choose from. "
                    f"Received: {name}={value}."
                )
        if not 0 <= self.dropout_prob < 1:
            raise ValueError(
                "`dropout_prob` must be at least 0 and below 1. Received: "
                f"dropout_prob={self.dropout_prob}."
            )
