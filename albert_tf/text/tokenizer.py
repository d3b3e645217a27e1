"""What every tokenizer offers, and the door through which one is loaded.

Floor: text. Plain Python and NumPy.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from albert_tf import files
from albert_tf.text.sentencepiece_tokenizer import SentencePieceTokenizer
from albert_tf.text.special_tokens import SpecialIds
from albert_tf.text.wordpiece_tokenizer import WordPieceTokenizer


class Tokenizer(Protocol):
    """Text to ids and back, normalisation included.

    Attributes:
        do_lower_case: Whether letters are made lower case.
        vocab_size: Number of tokens, V.
        special_ids: Ids of padding, unknown, `[CLS]`, `[SEP]`, `[MASK]`.
        forbidden_ids: Int32, sorted: ids that a random replacement of a
            masked token must not be, because text never becomes them.
        word_starts: Bool `[V]`, whether a token starts a unit of masking.
        hash: SHA-256, hexadecimal, of the vocabulary and the normalisation
            settings; the same wherever the file lies.
    """

    do_lower_case: bool
    vocab_size: int
    special_ids: SpecialIds
    forbidden_ids: np.ndarray
    word_starts: np.ndarray
    hash: str

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a text; `[CLS]` and `[SEP]` are not added."""
        ...

    def encode_batch(
        self, texts: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Encodes many texts at once.

        Returns:
            The ids of all texts, int32, one text after the other; and the
            number of ids of each text, int64 `[len(texts)]`.
        """
        ...

    def batch(
        self,
        texts: Sequence[str],
        text_pairs: Sequence[str] | None = None,
        *,
        max_seq_length: int,
    ) -> dict[str, np.ndarray]:
        """Encodes texts as the batch that a model is called on.

        Args:
            texts: B texts.
            text_pairs: A second text for each; None for none. Where it is
                empty, the first text stands alone.
            max_seq_length: Length S of every row. Longer texts are truncated
                (always the longer of a pair), shorter rows are padded.

        Returns:
            Dict of int32 arrays `[B, S]`: `input_ids`, with `[CLS]` and
            `[SEP]`; `input_mask`, 1 for a token and 0 for padding;
            `segment_ids`, 1 for the second text, else 0.

        Raises:
            ValueError: `texts` is a single text, the numbers of texts differ,
                or `max_seq_length` has no room for the special tokens.
        """
        ...

    def encode_with_offsets(
        self, text: str
    ) -> tuple[list[int], list[tuple[int, int]]]:
        """Returns `encode(text)` and where each token lies.

        Returns:
            The ids; and for each the start and end, in code points of `text`
            as given, without the white space around it. Neither starts nor
            ends decrease. A token that stands for white space only is empty;
            tokens of one character (`½` has three) share its span.
        """
        ...

    def encode_batch_with_offsets(
        self, texts: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns `encode_batch(texts)` and where each token lies.

        Returns:
            Ids and numbers of ids, as `encode_batch`; and for each id the
            start and the end in its text, as `encode_with_offsets`: int32
            `[2, n]`.
        """
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """Returns normalised text.

        Special tokens are left out, but for the unknown token, which shows as
        ` ⁇ ` (SentencePiece) or `[UNK]` (WordPiece).
        """
        ...

    def id_to_piece(self, token_id: int) -> str:
        """Returns the token of an id; `ValueError` if there is none."""
        ...

    def piece_to_id(self, token: str) -> int:
        """Returns the id of a token, of `unk` if it is not in the vocabulary.

        Special tokens have ids here, though text never becomes them.
        """
        ...


def load_tokenizer(
    *,
    spm_model_file: files.Path | None = None,
    vocab_file: files.Path | None = None,
    do_lower_case: bool = True,
) -> Tokenizer:
    """Loads the tokenizer of a checkpoint.

    Args:
        spm_model_file: SentencePiece model, as of the English checkpoints. If
            it is given, `vocab_file` is not read.
        vocab_file: WordPiece vocabulary, as of the Chinese checkpoints.
        do_lower_case: Whether letters are made lower case. The released
            English vocabulary has no capitals.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: Neither file is given, or the file is damaged or has no
            `[CLS]`, `[SEP]`, `[MASK]`, padding or unknown token.
    """
    # TF1: `vocab_file` is a required flag there, and ignored beside a model.
    if spm_model_file:
        return SentencePieceTokenizer(
            spm_model_file, do_lower_case=do_lower_case
        )
    if vocab_file:
        return WordPieceTokenizer(vocab_file, do_lower_case=do_lower_case)
    raise ValueError(
        "No vocabulary is given. Pass `spm_model_file` (SentencePiece) or "
        "`vocab_file` (WordPiece)."
    )
