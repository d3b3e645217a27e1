"""The text half of an exported model: the interface of tokenizers in a graph.

Data flow: strings -> [this file] -> `Tokens` -> signatures.
Floor: export.
"""

import dataclasses
import functools
from typing import Any, Protocol

import tensorflow as tf

from albert_tf.export import ragged, signature
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
        ends: Int32 `[M]`, one past the last code point; None if not requested.
    """

    ids: tf.Tensor
    row_ids: tf.Tensor
    num_rows: tf.Tensor
    starts: tf.Tensor | None = None
    ends: tf.Tensor | None = None

    def rows(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns each text's first token and number of tokens, int32 `[R]`."""
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


class ExportedText:
    """A `TextGraph` that is traced once, however many signatures use it."""

    def __init__(self, text_graph: TextGraph) -> None:
        self.special_ids = text_graph.special_ids
        self.vocab_size = text_graph.vocab_size
        self.tokens = text_graph.tokens
        self._text_graph = text_graph
        self._functions: dict[bool, Any] = {}

    def __call__(
        self, texts: tf.Tensor, *, with_offsets: bool = False
    ) -> Tokens:
        """Tokenizes strings; see `TextGraph`."""
        if with_offsets not in self._functions:
            self._functions[with_offsets] = tf.function(
                functools.partial(self._run, with_offsets=with_offsets),
                autograph=False,
                input_signature=[signature.strings(None)],
            )
        ids, row_ids, *offsets = self._functions[with_offsets](texts)
        starts, ends = offsets or (None, None)
        return Tokens(
            ids=ids,
            row_ids=row_ids,
            num_rows=tf.shape(texts)[0],
            starts=starts,
            ends=ends,
        )

    def _run(
        self, texts: tf.Tensor, *, with_offsets: bool
    ) -> tuple[tf.Tensor, ...]:
        # These are many small operations, which a GPU would only slow down.
        with tf.device("/device:CPU:0"):
            tokens = self._text_graph(texts, with_offsets=with_offsets)
        offsets = (tokens.starts, tokens.ends) if with_offsets else ()
        return (tokens.ids, tokens.row_ids, *offsets)
