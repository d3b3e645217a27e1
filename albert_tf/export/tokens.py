"""The tokens of a batch of texts, and the interface of tokenizers in a graph.

Floor: export.
"""

import dataclasses
from typing import Protocol

import tensorflow as tf

from albert_tf.export import ragged
from albert_tf.text.special_tokens import SpecialIds
from albert_tf.text.tokenizer import Tokenizer


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tokens:
    """The tokens of R texts as a ragged batch; see `ragged`.

    Args:
        ids: Int32 `[M]`, the tokens of all texts.
        row_ids: Int32 `[M]`, the text of each token.
        num_rows: Int32 scalar, R.
        starts: Int32 `[M]`, first code point of each token in the raw text,
            as in `Tokenizer.encode_with_offsets`; None if not requested.
        ends: Int32 `[M]`, one past the last code point; None likewise.
    """

    ids: tf.Tensor
    row_ids: tf.Tensor
    num_rows: tf.Tensor
    starts: tf.Tensor | None = None
    ends: tf.Tensor | None = None

    def rows(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the index of each text's first token and its length.

        Both are int32 `[R]`.
        """
        splits = ragged.row_splits(self.row_ids, self.num_rows)
        return splits[:-1], splits[1:] - splits[:-1]


class TextGraph(Protocol):
    """A tokenizer made of graph operations.

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
        """Tokenizes UTF-8 strings `[R]`.

        Bytes that are not UTF-8 count as U+FFFD, as in Python's
        `decode(errors="replace")`.
        """
        ...


def tokens_of(tokenizer: Tokenizer) -> tuple[str, ...]:
    """Returns the token of each id."""
    return tuple(map(tokenizer.id_to_token, range(tokenizer.vocab_size)))
