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
import itertools

import numpy as np

from albert_tf.tasks.squad.examples import Answer
from albert_tf.text.tokenizer import Tokenizer


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
        first = int(np.searchsorted(self.ends, start, side="right"))
        last = int(np.searchsorted(self.starts, end, side="left")) - 1
        return (first, last) if first <= last else None


def encode_paragraph(text: str, tokenizer: Tokenizer) -> Paragraph:
    """Cuts a text into pieces.

    Args:
        text: The text; may be empty.
        tokenizer: Makes ids of text.
    """
    ids, spans = tokenizer.encode_with_offsets(text)
    flat = itertools.chain.from_iterable(spans)
    table = np.fromiter(flat, np.int32, 2 * len(spans)).reshape(-1, 2)
    starts, ends = np.ascontiguousarray(table.T)
    return Paragraph(
        text=text, ids=np.array(ids, np.int32), starts=starts, ends=ends
    )
