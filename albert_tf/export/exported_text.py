"""A text graph that is traced once, however many signatures use it.

Floor: export.

The door through which the text half of a graph is made.

Floor: export.
"""

import functools
from typing import Any

import tensorflow as tf

from albert_tf import files
from albert_tf.export import signature
from albert_tf.export.sentencepiece_graph import SentencePieceGraph
from albert_tf.export.tokens import TextGraph, Tokens
from albert_tf.export.wordpiece_graph import WordPieceGraph


class ServedText:
    """A `TextGraph` that calls another one as a function of the graph.

    Args:
        text_graph: Makes the tokens.
    """

    def __init__(self, text_graph: TextGraph) -> None:
        self.special_ids = text_graph.special_ids
        self.vocab_size = text_graph.vocab_size
        self.tokens = text_graph.tokens
        self._text_graph = text_graph
        self._functions: dict[bool, Any] = {}

    def __call__(
        self, texts: tf.Tensor, *, with_offsets: bool = False
    ) -> Tokens:
        """See `TextGraph`."""
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
        # Many small steps, of which a GPU would only make slow ones.
        with tf.device("/device:CPU:0"):
            tokens = self._text_graph(texts, with_offsets=with_offsets)
        found = (tokens.ids, tokens.row_ids)
        if tokens.starts is None or tokens.ends is None:
            return found
        return (*found, tokens.starts, tokens.ends)


def load_text_graph(
    *,
    spm_model_file: files.Path | None = None,
    vocab_file: files.Path | None = None,
    do_lower_case: bool = True,
) -> TextGraph:
    """Makes the operations that equal `text.tokenizer.load_tokenizer`.

    Args:
        spm_model_file: SentencePiece model. If it is given, `vocab_file` is
            not read.
        vocab_file: WordPiece vocabulary.
        do_lower_case: Whether letters are made lower case.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: Neither file is given, the file is damaged, or the
            vocabulary is of a kind that cannot be exported.
    """
    if spm_model_file:
        return SentencePieceGraph(spm_model_file, do_lower_case=do_lower_case)
    if vocab_file:
        return WordPieceGraph(vocab_file, do_lower_case=do_lower_case)
    raise ValueError(
        "No vocabulary is given. Pass `spm_model_file` (SentencePiece) or "
        "`vocab_file` (WordPiece)."
    )
