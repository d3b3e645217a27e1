"""A paragraph as pieces that know their characters.

Data flow: text -> [this file] -> windows, features; predictions -> text.
Floor: tasks. NumPy.

The tokenizer says which characters each piece stands for.
Differs: the reference looks for the longest common subsequence of the
characters of text and pieces, once for each question, in quadratic time; and
drops paragraphs of which less than four fifths fit (Korean ones, or those with
long runs of white space), even when it predicts. Its spans also begin with the
space before a word, and its answers are stripped of it.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from albert_tf.tasks.squad.examples import Answer
from albert_tf.text.tokenizer import Tokenizer

# Paragraphs that are encoded in one call; memory against overhead.
PARAGRAPHS_PER_CALL = 64


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Paragraph:
    """A text and its pieces, n.

    Args:
        text: The text as the file has it.
        ids: Int32 `[n]`, ids of the pieces.
        starts: Int32 `[n]`, first character of each piece; never falls.
        ends: Int32 `[n]`, one past its last character; never falls.
    """

    text: str
    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    def span_text(self, first: int, last: int) -> str:
        """Returns the text from the first to the last of some pieces."""
        return self.text[self.starts[first] : self.ends[last]].strip()

    def find_pieces(self, answer: Answer) -> tuple[int, int] | None:
        """Returns the first and the last piece that an answer touches.

        Returns:
            None if no piece stands for any of its characters, or if they are
            not those of the text at this place.
        """
        start, end = answer.start, answer.start + len(answer.text)
        # White space around an answer belongs to no piece.
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
    """Cuts texts into pieces, many at once.

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
