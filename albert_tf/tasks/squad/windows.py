"""Windows over a context that is longer than the input, and their records.

Data flow: questions -> [this file] -> records; and again -> predictions.

A record is `[CLS] question [SEP] window [SEP]`, with segment ids 0 up to the
first `[SEP]` and 1 behind it. A window without the whole answer counts as
impossible to answer, and its answer points to `[CLS]`.

The tokenizer says which characters each token stands for.
Differs: the reference aligns text and tokens by their longest common
subsequence, in quadratic time, once for each question; it drops contexts of
which less than four fifths align (Korean ones, or those with long runs of
white space), even in prediction. Its spans include the space before a word,
and its answers are stripped of it.

Source: Devlin et al. 2019, `run_squad.py` of google-research/bert;
google-research/albert, `squad_utils.convert_examples_to_features`.
"""

import dataclasses
import functools
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf import checks
from albert_tf.metrics import squad as metrics
from albert_tf.tasks.squad.examples import Answer, SquadExample
from albert_tf.tasks.task import Record
from albert_tf.text.base import SpecialIds
from albert_tf.text.tokenizer import Tokenizer

_logger = logging.getLogger(__name__)

# [CLS] and two [SEP].
NUM_SPECIAL_TOKENS = 3
# Texts encoded by one call: more would take more memory and save no time.
PARAGRAPHS_PER_CALL = 64
QUESTIONS_PER_CALL = 1024
# Answers that the log lists.
_MAX_LISTED = 20
# TF1: weight of a window's length beside a token's distance from its edge.
_LENGTH_WEIGHT = 0.01


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowLengths:
    """Lengths in tokens: of a sequence, between windows, of a question.

    A sequence is question, window and special tokens; the longest question
    leaves room for a window. `doc_stride` is the distance between the starts
    of two windows. Questions longer than `max_query_length` lose their end.
    """

    max_seq_length: int = 384
    doc_stride: int = 128
    max_query_length: int = 64

    def __post_init__(self) -> None:
        for name in ("doc_stride", "max_query_length"):
            checks.check_integer(name, getattr(self, name), at_least=1)
        checks.check_integer(
            "max_seq_length",
            self.max_seq_length,
            at_least=self.max_query_length + NUM_SPECIAL_TOKENS + 1,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Window:
    """Consecutive tokens of a paragraph, none if the paragraph has none."""

    start: int
    size: int

    @property
    def end(self) -> int:
        """One past the index of the last one."""
        return self.start + self.size


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Paragraph:
    """A text and its tokens, n.

    Args:
        text: The text as the file has it.
        ids: Int32 `[n]`, ids of the tokens.
        starts: Int32 `[n]`, first character of each token; non-decreasing.
        ends: Int32 `[n]`, one past its last character; non-decreasing.
    """

    text: str
    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    def span_text(self, first: int, last: int) -> str:
        """Returns the text from a first to a last token."""
        return self.text[self.starts[first] : self.ends[last]].strip()

    def find_tokens(self, answer: Answer) -> tuple[int, int] | None:
        """Returns the first and the last token that an answer touches.

        Returns:
            None if no token stands for any of its characters, or if the text
            has other characters in this place.
        """
        start, end = answer.start, answer.start + len(answer.text)
        # White space around an answer belongs to no token.
        inner = answer.text.strip()
        if not inner or self.text[start:end] != answer.text:
            return None
        start += answer.text.index(inner)
        end = start + len(inner)
        first = int(self.ends.searchsorted(start, side="right"))
        last = int(self.starts.searchsorted(end, side="left")) - 1
        return (first, last) if first <= last else None


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class WindowedQuestion:
    """A question, its context, and the windows over the context.

    Args:
        question_ids: Int32 `[q]`, ids of its tokens, cut to length.
        paragraph: The context; questions about the same one share it.
        windows: At least one.
    """

    example: SquadExample
    question_ids: np.ndarray
    paragraph: Paragraph
    windows: tuple[Window, ...]

    @property
    def offset(self) -> int:
        """Position of a window's first token in the model's input."""
        return len(self.question_ids) + 2


class Questions(Sequence[SquadExample]):
    """The questions of a set, and the windows over their contexts.

    A sequence of `SquadExample`s, in their order. Both the records and the
    predictions of a set need its windows; they are made once, on first use.

    Those about the same context should be neighbours, so that it is encoded
    once.
    """

    def __init__(
        self,
        examples: Sequence[SquadExample],
        tokenizer: Tokenizer,
        lengths: WindowLengths,
    ) -> None:
        self._examples = examples
        self._tokenizer = tokenizer
        self._lengths = lengths

    def __len__(self) -> int:
        return len(self._examples)

    def __getitem__(self, index: Any) -> Any:
        examples: Any = self._examples[index]
        if isinstance(index, slice):
            return Questions(examples, self._tokenizer, self._lengths)
        return examples

    @property
    def num_windows(self) -> int:
        """The number of windows of all questions, counted without keeping."""
        return sum(len(question.windows) for question in self.split())

    @functools.cached_property
    def windowed(self) -> list[WindowedQuestion]:
        """The questions with their windows."""
        return list(self.split())

    def split(self) -> Iterator[WindowedQuestion]:
        """Yields the questions with their windows, without keeping them."""
        paragraphs: dict[str, Paragraph] = {}
        for first in range(0, len(self), QUESTIONS_PER_CALL):
            chunk = self._examples[first : first + QUESTIONS_PER_CALL]
            paragraphs = _find_paragraphs(chunk, self._tokenizer, paragraphs)
            ids, sizes = self._tokenizer.encode_batch(
                [example.question for example in chunk]
            )
            starts = np.cumsum(sizes) - sizes
            kept = np.minimum(sizes, self._lengths.max_query_length)
            for example, start, size in zip(
                chunk, starts.tolist(), kept.tolist(), strict=True
            ):
                paragraph = paragraphs[example.context]
                room = self._lengths.max_seq_length - size - NUM_SPECIAL_TOKENS
                yield WindowedQuestion(
                    example=example,
                    question_ids=ids[start : start + size],
                    paragraph=paragraph,
                    windows=split_windows(
                        len(paragraph.ids),
                        size=room,
                        stride=self._lengths.doc_stride,
                    ),
                )


def _find_paragraphs(
    examples: Sequence[SquadExample],
    tokenizer: Tokenizer,
    known: Mapping[str, Paragraph],
) -> dict[str, Paragraph]:
    """Returns the contexts of examples by text; encodes those not known."""
    texts = dict.fromkeys(example.context for example in examples)
    new = [text for text in texts if text not in known]
    paragraphs = dict(known)
    for paragraph in encode_paragraphs(new, tokenizer):
        paragraphs[paragraph.text] = paragraph
    return {text: paragraphs[text] for text in texts}


def encode_paragraphs(
    texts: Sequence[str], tokenizer: Tokenizer
) -> Iterator[Paragraph]:
    """Yields the paragraphs of texts, in order; texts may be empty."""
    for first in range(0, len(texts), PARAGRAPHS_PER_CALL):
        chunk = texts[first : first + PARAGRAPHS_PER_CALL]
        ids, lengths, (starts, ends) = tokenizer.encode_batch_with_offsets(
            chunk
        )
        stops = np.cumsum(lengths)
        for text, tokens in zip(
            chunk, map(slice, stops - lengths, stops), strict=True
        ):
            yield Paragraph(
                text=text,
                ids=ids[tokens],
                starts=starts[tokens],
                ends=ends[tokens],
            )


def split_windows(
    num_tokens: int, *, size: int, stride: int
) -> tuple[Window, ...]:
    """Covers a paragraph with windows, so that each token is in at least one.

    A paragraph without tokens has one window without tokens.

    >>> split_windows(5, size=3, stride=1)[1:]
    (Window(start=1, size=3), Window(start=2, size=3))

    Args:
        num_tokens: Number of tokens of the paragraph.
        size: Maximum size of a window.
        stride: At most `size` is used, so that no token is left out.
    """
    # Differs: the reference makes no window of an empty paragraph, and its
    # questions get no prediction.
    stride = min(stride, size)
    num_more = -(-max(0, num_tokens - size) // stride)
    starts = range(0, (num_more + 1) * stride, stride)
    return tuple(
        Window(start=s, size=min(size, num_tokens - s)) for s in starts
    )


def best_windows(num_tokens: int, windows: Sequence[Window]) -> np.ndarray:
    """Returns the window in which each of n tokens has the most context.

    Returns:
        Int32 `[n]`, index of the window in which the shorter side of the
        token's context is longest; of equally good windows, the first.
    """
    best = np.zeros(num_tokens, np.int32)
    best_scores = np.full(num_tokens, -1.0)
    for index, window in enumerate(windows):
        places = np.arange(window.size)
        scores = np.minimum(places, places[::-1]) + _LENGTH_WEIGHT * window.size
        tokens = slice(window.start, window.end)
        is_better = scores > best_scores[tokens]
        best[tokens][is_better] = index
        best_scores[tokens][is_better] = scores[is_better]
    return best


def prediction_records(
    questions: Iterable[WindowedQuestion], special: SpecialIds
) -> Iterator[Record]:
    """Yields a record for each window, without answers.

    Yields:
        Dict of int32 `input_ids`, `input_mask`, `segment_ids` and float32
        `p_mask` (1 where no answer may be) `[s]`; int32 `start_positions`,
        `end_positions` and float32 `is_impossible` `[]`, all 0.
    """
    for question in questions:
        for window in question.windows:
            yield _inputs(question, window, special) | _labels(0, 0, 0)


def training_records(
    questions: Iterable[WindowedQuestion], special: SpecialIds
) -> Iterator[Record]:
    """Yields a record for each window, with one answer of its question.

    Questions are skipped if the context does not have their answer in its
    place. They are counted and listed in the log at the end, and so are
    answers that begin or end within a token.

    Yields:
        The arrays of `prediction_records`. Where the window holds the whole
        answer, `start_positions` and `end_positions` are its first and last
        token; elsewhere they are 0 and `is_impossible` is 1.
    """
    misfits: list[str] = []
    num_questions = num_lost = 0
    for question in questions:
        num_questions += 1
        tokens, misfit = find_answer(question)
        if misfit:
            misfits.append(misfit)
            if tokens is None:
                num_lost += 1
                continue
        for window in question.windows:
            labels = _labels(0, 0, 1)
            if tokens and window.start <= tokens[0] <= tokens[1] < window.end:
                shift = question.offset - window.start
                labels = _labels(tokens[0] + shift, tokens[1] + shift, 0)
            yield _inputs(question, window, special) | labels
    if misfits:
        _logger.warning(
            "%d of %d answers begin or end within a token; training uses the "
            "whole tokens. %d answers are not in their context, or are no "
            "tokens of it; their questions are skipped: %s.",
            len(misfits) - num_lost,
            num_questions,
            num_lost,
            checks.listed(misfits, at_most=_MAX_LISTED),
        )


def find_answer(
    question: WindowedQuestion,
) -> tuple[tuple[int, int] | None, str | None]:
    """Finds the tokens of an answer of a question.

    Of several answers it takes the first that consists of whole tokens, in
    the sense of the metrics; else the first that touches any tokens.

    Returns:
        The first and the last token of the answer in the context, None if
        there is no answer or if none can be found; and, if the answer does
        not consist of whole tokens of its context, a line for the log.
    """
    # Differs: the reference refuses to train on questions with several
    # answers, as files for evaluation have them.
    misfits = []
    for answer in question.example.answers or ():
        tokens = question.paragraph.find_tokens(answer)
        text = question.paragraph.span_text(*tokens) if tokens else None
        # Most texts are equal as they stand, which is quicker to check.
        if text is not None and (
            text == answer.text or metrics.exact_match(text, [answer.text])
        ):
            return tokens, None
        # 60 characters say enough.
        misfit = f"{answer.text!r:.60}, found: {text!r:.60}"
        misfits.append((tokens, f"{question.example.guid} ({misfit})"))
    misfits.sort(key=lambda pair: pair[0] is None)
    return misfits[0] if misfits else (None, None)


def _inputs(
    question: WindowedQuestion, window: Window, special: SpecialIds
) -> Record:
    offset = question.offset
    size = offset + window.size + 1
    input_ids = np.full(size, special.sep, np.int32)
    input_ids[0] = special.cls
    input_ids[1 : offset - 1] = question.question_ids
    input_ids[offset:-1] = question.paragraph.ids[window.start : window.end]
    segment_ids = np.zeros(size, np.int32)
    segment_ids[offset:] = 1
    p_mask = np.zeros(size, np.float32)
    p_mask[1:offset] = 1
    p_mask[-1] = 1
    return {
        "input_ids": input_ids,
        "input_mask": np.ones(size, np.int32),
        "segment_ids": segment_ids,
        "p_mask": p_mask,
    }


def _labels(start: int, end: int, is_impossible: int) -> Record:
    return {
        "start_positions": np.array(start, np.int32),
        "end_positions": np.array(end, np.int32),
        "is_impossible": np.array(is_impossible, np.float32),
    }
