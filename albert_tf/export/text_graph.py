"""The door through which the text half of a graph is made.

Floor: export.
"""

from albert_tf import files
from albert_tf.export.pieces import TextGraph
from albert_tf.export.sentencepiece_graph import SentencePieceGraph
from albert_tf.export.wordpiece_graph import WordPieceGraph


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
