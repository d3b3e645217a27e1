"""What a text becomes in a graph, and the interface of what makes it.

Floor: export.
"""

import dataclasses
from typing import Protocol

import tensorflow as tf

from albert_tf.text.special_tokens import SpecialIds
from albert_tf.text.tokenizer import Tokenizer


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tokens:
    """The tokens of a batch of R texts, row after row.

    Args:
        ids: Int32 `[M]`.
        row_ids: Int32 `[M]`, the text of each token.
        num_rows: Int32 scalar, R.
        starts: Int32 `[M]`, first code point of each token in the raw text,
            as `Tokenizer.encode_with_offsets` has it; None if not asked for.
        ends: Int32 `[M]`, one past the last.
    """

    ids: tf.Tensor
    row_ids: tf.Tensor
    num_rows: tf.Tensor
    starts: tf.Tensor | None = None
    ends: tf.Tensor | None = None


class TextGraph(Protocol):
    """A `Tokenizer` of operations.

    Attributes:
        special_ids: Ids of padding, unknown, `[CLS]`, `[SEP]`, `[MASK]`.
        vocab_size: Number of tokens, V.
        tokens: The token of each id.
    """

    special_ids: SpecialIds
    vocab_size: int
    tokens: tuple[str, ...]

    def __call__(
        self, texts: tf.Tensor, *, with_offsets: bool = False
    ) -> Tokens:
        """Returns the tokens of UTF-8 strings `[R]`.

        Bytes that are not UTF-8 count as U+FFFD, as many as Python's
        `decode(errors="replace")` gives.
        """
        ...


def tokens_of(tokenizer: Tokenizer) -> tuple[str, ...]:
    """Returns the token of each id."""
    return tuple(map(tokenizer.id_to_piece, range(tokenizer.vocab_size)))
