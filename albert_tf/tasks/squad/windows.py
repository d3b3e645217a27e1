"""Windows over a context that is longer than the input, and their records.

Data flow: questions -> [this file] -> records; and again -> predictions.

A record is `[CLS] question [SEP] window [SEP]`, with segment ids 0 up to the
first `[SEP]` and 1 after it. A window without the whole answer counts as
impossible to answer, and its answer points to `[CLS]`.

The tokenizer says which characters each token stands for.
Differs: the reference aligns text and tokens by their longest common
subsequence, in quadratic time, and drops contexts of which less than four
fifths align, even in prediction. Its spans include the space before a word.

Source: `run_squad.py` of google-research/bert; google-research/albert,
`squad_utils.convert_examples_to_features`.
"""

import dataclasses
import functools
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from albert_tf import checks
from albert_tf.metrics import squad as metrics
from albert_tf.tasks import encoder_records
from albert_tf.tasks.lengths import NUM_SPECIAL_TOKENS, Lengths
from albert_tf.tasks.squad.examples import Answer, SquadExample
from albert_tf.tasks.task_data import Record
from albert_tf.text.base import Tokenizer
from albert_tf.text.vocabulary_file import SpecialIds

_LOGGER = logging.getLogger(__name__)

# Questions encoded by one call: more would take more memory and save no time.
QUESTIONS_PER_CALL = 128
# Answers that the log lists.
_MAX_LISTED = 20
# TF1: weight of a window's length, where a token's distance from its edge has
# the weight 1.
LENGTH_WEIGHT = 0.01


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowLengths(Lengths):
    """Lengths in tokens: of a sequence, between windows, of a question.

    A sequence is question, window and special tokens; `doc_stride` is the
    distance of two starts. Questions that are too long lose their end.
    """

    part = "max_query_length"
    max_seq_length: int = 384
    doc_stride: int = 128
    max_query_length: int = 64

    def __post_init__(self) -> None:
        checks.check_integer("doc_stride", self.doc_stride, at_least=1)
        super().__post_init__()


@dataclasses.dataclass(frozen=True, eq=False)
class Paragraph:
    """A text and its tokens: int32 `[n]` their ids, and where they are.

    `starts` are their first characters, `ends` one past their last ones; both
    are non-decreasing.
    """

    text: str
    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    def span_text(self, first: int, last: int) -> str:
        """Returns the text from a first to a last token."""
        return self.text[self.starts[first] : self.ends[last]].strip()

    def characters(self, first: int, last: int) -> tuple[int, int]:
        """Returns where that text starts and ends, in characters."""
        text = self.text[self.starts[first] : self.ends[last]]
        start = int(self.starts[first]) + len(text) - len(text.lstrip())
        return start, start + len(text.strip())

    def find_tokens(self, answer: Answer) -> tuple[int, int] | None:
        """Returns the first and the last token that an answer touches.

        None if there are none, or if the text has other characters there.
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
    """A question, the ids of its tokens cut to length, and its context.

    `windows` come from `split_windows`.
    """

    example: SquadExample
    question_ids: np.ndarray
    paragraph: Paragraph
    windows: tuple[range, ...]

    @property
    def offset(self) -> int:
        """Position of a window's first token in the model's input."""
        return len(self.question_ids) + 2


@dataclasses.dataclass(frozen=True, eq=False)
class Questions(Sequence[SquadExample]):
    """The questions of a set, and the windows over their contexts.

    `windowed` are made once, for the records and for the predictions.
    """

    examples: Sequence[SquadExample]
    tokenizer: Tokenizer
    lengths: WindowLengths

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return dataclasses.replace(self, examples=self.examples[index])
        return self.examples[index]

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
        room = self.lengths.max_seq_length - NUM_SPECIAL_TOKENS
        for first in range(0, len(self), QUESTIONS_PER_CALL):
            chunk = self.examples[first : first + QUESTIONS_PER_CALL]
            contexts = list(dict.fromkeys(e.context for e in chunk))
            all_ids, sizes, offsets = self.tokenizer.encode_batch_with_offsets(
                contexts
            )
            tokens = np.vstack([all_ids, offsets])
            parts = np.split(tokens, np.cumsum(sizes)[:-1], axis=1)
            # Neighbours about the same context share its tokens.
            paragraph_of = {
                text: Paragraph(text, *part)
                for text, part in zip(contexts, parts, strict=True)
            }
            ids, sizes = self.tokenizer.encode_batch(
                [example.question for example in chunk]
            )
            rows = np.split(ids, np.cumsum(sizes)[:-1])
            for example, row in zip(chunk, rows, strict=True):
                paragraph = paragraph_of[example.context]
                question_ids = row[: self.lengths.max_query_length]
                yield WindowedQuestion(
                    example=example,
                    question_ids=question_ids,
                    paragraph=paragraph,
                    windows=split_windows(
                        len(paragraph.ids),
                        size=room - len(question_ids),
                        stride=self.lengths.doc_stride,
                    ),
                )


def split_windows(
    num_tokens: int, *, size: int, stride: int
) -> tuple[range, ...]:
    """Covers a paragraph with windows, so that each token is in at least one.

    A paragraph without tokens has one window without tokens. `size` is the
    maximum of a window, and of `stride`, which would else leave tokens out.

    >>> split_windows(5, size=3, stride=1)[1:]
    (range(1, 4), range(2, 5))
    """
    # Differs: the reference makes no window of an empty paragraph, and its
    # questions get no prediction.
    stride = min(stride, size)
    num_more = -(-max(0, num_tokens - size) // stride)
    starts = range(0, (num_more + 1) * stride, stride)
    return tuple(range(s, min(s + size, num_tokens)) for s in starts)


def best_windows(num_tokens: int, windows: Sequence[range]) -> np.ndarray:
    """Returns, int32 `[n]`, the window in which a token has the most context.

    It is that in which the shorter side of the token's context is longest; of
    equally good windows, the first.
    """
    best = np.zeros(num_tokens, np.int32)
    best_scores = np.full(num_tokens, -1.0)
    for index, window in enumerate(windows):
        places, size = np.arange(len(window)), len(window)
        scores = np.minimum(places, places[::-1]) + LENGTH_WEIGHT * size
        tokens = slice(window.start, window.stop)
        is_better = scores > best_scores[tokens]
        best[tokens][is_better] = index
        best_scores[tokens][is_better] = scores[is_better]
    return best


def make_records(
    questions: Iterable[WindowedQuestion],
    special: SpecialIds,
    *,
    is_training: bool,
) -> Iterator[Record]:
    """Yields a record for each window; to train, with one answer.

    It has int32 `input_ids`, `input_mask`, `segment_ids` and float32 `p_mask`
    (1 where no answer may be) `[s]`; int32 `start_positions`, `end_positions`
    and float32 `is_impossible` `[]`, all 0 unless they are to train on.

    Then, where the window holds the whole answer, the positions are its first
    and last token; elsewhere, `is_impossible` is 1. Questions whose answer is
    no tokens of the context are skipped, and listed in the log.
    """
    lost: list[str] = []
    num_questions = 0
    for question in questions:
        num_questions += 1
        tokens = find_answer(question) if is_training else None
        if is_training and not tokens and question.example.answers:
            text = question.example.answers[0].text
            # 60 characters say enough.
            lost.append(f"{question.example.guid} ({text!r:.60})")
            continue
        for window in question.windows:
            start, end, is_impossible = 0, 0, is_training
            if tokens and window.start <= tokens[0] <= tokens[1] < window.stop:
                shift = question.offset - window.start
                start, end = tokens[0] + shift, tokens[1] + shift
                is_impossible = False
            ids = question.paragraph.ids[window.start : window.stop]
            record = encoder_records.of_two(question.question_ids, ids, special)
            p_mask = 1 - record["segment_ids"].astype(np.float32)
            p_mask[[0, -1]] = 0, 1
            yield record | {
                "p_mask": p_mask,
                "start_positions": np.array(start, np.int32),
                "end_positions": np.array(end, np.int32),
                "is_impossible": np.array(is_impossible, np.float32),
            }
    if lost:
        _LOGGER.warning(
            "%d of %d questions are skipped: their answers are not in their "
            "place in the context, or are no tokens of it: %s.",
            len(lost),
            num_questions,
            checks.listed(lost, at_most=_MAX_LISTED),
        )


def find_answer(question: WindowedQuestion) -> tuple[int, int] | None:
    """Returns the first and the last token of an answer, None without any.

    It is the first that is of whole tokens for the metrics; else the first.
    """
    # Differs: the reference refuses to train on questions with several
    # answers, as files for evaluation have them.
    touched = None
    for answer in question.example.answers or ():
        tokens = question.paragraph.find_tokens(answer)
        if tokens is None:
            continue
        text = question.paragraph.span_text(*tokens)
        # Most texts are equal as they stand, which is quicker to check.
        if text == answer.text or metrics.exact_match(text, [answer.text]):
            return tokens
        touched = touched or tokens
    return touched
