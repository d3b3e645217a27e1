"""A paragraph as tokens that know their characters.

Data flow: text -> [this file] -> windows, features; predictions -> text.
Floor: tasks. NumPy.

The tokenizer says which characters each token stands for.
Differs: the reference looks for the longest common subsequence of the
characters of text and tokens, once for each question, in quadratic time; and
drops paragraphs of which less than four fifths fit (Korean ones, or those with
long runs of white space), even when it predicts. Its spans also begin with the
space before a word, and its answers are stripped of it.

Windows over a paragraph that is longer than the model's input.

Data flow: tokens of question and paragraph -> [this file] -> features; and
again, for the predictions.
Floor: tasks. NumPy.

Source: Devlin et al. 2019, `run_squad.py` of google-research/bert;
google-research/albert, `squad_utils.convert_examples_to_features`.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from albert_tf.tasks.squad.examples import Answer, SquadExample
from albert_tf.text.tokenizer import Tokenizer

# Paragraphs that are encoded in one call; memory against overhead.
PARAGRAPHS_PER_CALL = 64


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Paragraph:
    """A text and its tokens, n.

    Args:
        text: The text as the file has it.
        ids: Int32 `[n]`, ids of the tokens.
        starts: Int32 `[n]`, first character of each token; never falls.
        ends: Int32 `[n]`, one past its last character; never falls.
    """

    text: str
    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    def span_text(self, first: int, last: int) -> str:
        """Returns the text from the first to the last of some tokens."""
        return self.text[self.starts[first] : self.ends[last]].strip()

    def find_tokens(self, answer: Answer) -> tuple[int, int] | None:
        """Returns the first and the last token that an answer touches.

        Returns:
            None if no token stands for any of its characters, or if they are
            not those of the text at this place.
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


def encode_paragraphs(
    texts: Sequence[str], tokenizer: Tokenizer
) -> Iterator[Paragraph]:
    """Cuts texts into tokens, many at once.

    Args:
        texts: The texts; may be empty.
        tokenizer: Makes ids of text.

    Yields:
        The paragraphs, in order.
    """
    for first in range(0, len(texts), PARAGRAPHS_PER_CALL):
        chunk = texts[first : first + PARAGRAPHS_PER_CALL]
        ids, lengths, (starts, ends) = tokenizer.encode_batch_with_offsets(
            chunk
        )
        last = np.cumsum(lengths)
        for text, own in zip(
            chunk, map(slice, last - lengths, last), strict=True
        ):
            yield Paragraph(
                text=text, ids=ids[own], starts=starts[own], ends=ends[own]
            )


# [CLS] and two [SEP].
NUM_SPECIAL_PIECES = 3
# Questions that are encoded in one call; memory against overhead.
QUESTIONS_PER_CALL = 1024
# TF1: weight of a window's length beside a token's distance from its edge.
_LENGTH_WEIGHT = 0.01


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowLengths:
    """How long a window may be, in tokens.

    Args:
        max_seq_length: S, with question and special tokens.
        doc_stride: From the start of a window to that of the next.
        max_query_length: Of the question; what is longer loses its end.

    Raises:
        ValueError: No token of a paragraph would fit beside the longest
            question, or a number is below 1.
    """

    max_seq_length: int = 384
    doc_stride: int = 128
    max_query_length: int = 64

    def __post_init__(self) -> None:
        for name in ("doc_stride", "max_query_length"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"`{name}` must be at least 1. Received: "
                    f"{name}={getattr(self, name)}."
                )
        if self.max_seq_length <= self.max_query_length + NUM_SPECIAL_PIECES:
            raise ValueError(
                "`max_seq_length` must be greater than `max_query_length` + "
                f"{NUM_SPECIAL_PIECES}, to leave room for the paragraph. "
                f"Received: max_seq_length={self.max_seq_length}, "
                f"max_query_length={self.max_query_length}. Raise the first or "
                "lower the second."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Window:
    """Some neighbouring tokens of a paragraph.

    Args:
        start: The first of them.
        size: How many they are; 0 if the paragraph has none.
    """

    start: int
    size: int

    @property
    def end(self) -> int:
        """One past the last of them."""
        return self.start + self.size


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class WindowedQuestion:
    """A question, its paragraph, and the windows in which it is asked.

    Args:
        example: The question.
        question_ids: Int32 `[q]`, ids of its tokens, cut to length.
        paragraph: The paragraph, shared with its other questions.
        windows: Over the paragraph, at least one.
    """

    example: SquadExample
    question_ids: np.ndarray
    paragraph: Paragraph
    windows: tuple[Window, ...]

    @property
    def offset(self) -> int:
        """Place of a window's first token in the model's input."""
        return len(self.question_ids) + 2


def split_windows(
    num_tokens: int, *, size: int, stride: int
) -> tuple[Window, ...]:
    """Lays windows over a paragraph, so that all tokens are in one.

    >>> split_windows(5, size=3, stride=1)[1:]
    (Window(start=1, size=3), Window(start=2, size=3))

    Args:
        num_tokens: Of the paragraph.
        size: Of a window at most.
        stride: From the start of a window to that of the next; a larger one
            than `size` counts as that.

    Returns:
        The windows. Of a paragraph without tokens, one without tokens.
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
    """Tells which window has most context around each token.

    Args:
        num_tokens: Of the paragraph, n.
        windows: Over it.

    Returns:
        Int32 `[n]`, number of the window in which the shorter side of a token
        is longest; of windows that are as good, the first.
    """
    best = np.zeros(num_tokens, np.int32)
    best_scores = np.full(num_tokens, -1.0)
    for number, window in enumerate(windows):
        places = np.arange(window.size)
        scores = np.minimum(places, places[::-1]) + _LENGTH_WEIGHT * window.size
        own = slice(window.start, window.end)
        is_better = scores > best_scores[own]
        best[own][is_better] = number
        best_scores[own][is_better] = scores[is_better]
    return best


def split_questions(
    examples: Sequence[SquadExample],
    tokenizer: Tokenizer,
    lengths: WindowLengths,
) -> Iterator[WindowedQuestion]:
    """Yields the examples with their windows, in order.

    The paragraph of neighbouring examples is encoded once.

    Args:
        examples: The questions; those of a paragraph should be neighbours.
        tokenizer: Makes ids of text.
        lengths: How long question and windows may be.
    """
    known: dict[str, Paragraph] = {}
    for first in range(0, len(examples), QUESTIONS_PER_CALL):
        chunk = examples[first : first + QUESTIONS_PER_CALL]
        known = _find_paragraphs(chunk, tokenizer, known)
        ids, sizes = tokenizer.encode_batch([e.question for e in chunk])
        starts = np.cumsum(sizes) - sizes
        kept = np.minimum(sizes, lengths.max_query_length)
        for example, start, size in zip(
            chunk, starts.tolist(), kept.tolist(), strict=True
        ):
            paragraph = known[example.context]
            yield WindowedQuestion(
                example=example,
                question_ids=ids[start : start + size],
                paragraph=paragraph,
                windows=split_windows(
                    len(paragraph.ids),
                    size=lengths.max_seq_length - size - NUM_SPECIAL_PIECES,
                    stride=lengths.doc_stride,
                ),
            )


def _find_paragraphs(
    examples: Sequence[SquadExample],
    tokenizer: Tokenizer,
    known: Mapping[str, Paragraph],
) -> dict[str, Paragraph]:
    """Returns the paragraphs of examples by text; encodes those not known."""
    texts = dict.fromkeys(example.context for example in examples)
    new = [text for text in texts if text not in known]
    encoded = encode_paragraphs(new, tokenizer)
    found = {**known, **{one.text: one for one in encoded}}
    return {text: found[text] for text in texts}
