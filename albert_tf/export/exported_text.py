"""The text half of an exported model: strings to tokens.

Data flow: strings -> [this file] -> `Tokens` -> signatures.
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


class ExportedText:
    """A `TextGraph` that all signatures call as the same graph function.

    It is traced once, however many signatures use it.

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


def load_text_graph(
    *,
    spm_model_file: files.Path | None = None,
    vocab_file: files.Path | None = None,
    do_lower_case: bool = True,
) -> ExportedText:
    """Makes the graph whose tokens equal `text.tokenizer.load_tokenizer`'s.

    Args:
        spm_model_file: SentencePiece model. If it is given, `vocab_file` is
            ignored.
        vocab_file: WordPiece vocabulary.
        do_lower_case: Whether text is lower-cased.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: Neither file is given, the file is damaged, or the
            vocabulary is of a kind that cannot be exported.
    """
    if spm_model_file:
        return ExportedText(
            SentencePieceGraph(spm_model_file, do_lower_case=do_lower_case)
        )
    if vocab_file:
        return ExportedText(
            WordPieceGraph(vocab_file, do_lower_case=do_lower_case)
        )
    raise ValueError(
        "No vocabulary is given. Pass `spm_model_file` (SentencePiece) or "
        "`vocab_file` (WordPiece)."
    )
