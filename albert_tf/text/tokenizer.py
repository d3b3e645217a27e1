"""The interface of every tokenizer, and how to load one.

Data flow: vocabulary file -> [this file] -> tokenizer of a checkpoint.
Floor: text. Plain Python and NumPy.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from albert_tf import files
from albert_tf.settings import setting
from albert_tf.text.sentencepiece_tokenizer import SentencePieceTokenizer
from albert_tf.text.special_tokens import SpecialIds
from albert_tf.text.wordpiece_tokenizer import WordPieceTokenizer


class Tokenizer(Protocol):
    """Converts text to ids and back; normalization is included.

    Attributes:
        do_lower_case: Whether text is lower-cased.
        vocab_size: Number of tokens, V.
        special_ids: Ids of padding, unknown, `[CLS]`, `[SEP]`, `[MASK]`.
        forbidden_ids: Int32, sorted: ids that a random replacement of a
            masked token must not be, because no text is encoded to them.
        word_starts: Bool `[V]`, whether a token starts a word, the unit of
            masking.
        hash: SHA-256, hexadecimal, of the vocabulary and the normalization
            settings; it does not depend on the file's path.
    """

    do_lower_case: bool
    vocab_size: int
    special_ids: SpecialIds
    forbidden_ids: np.ndarray
    word_starts: np.ndarray
    hash: str

    def encode(self, text: str) -> list[int]:
        """Encodes a text; `[CLS]` and `[SEP]` are not added."""
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
        """Encodes a text and locates each token in it.

        Returns:
            The ids; and for each id the start and end of its token, in code
            points of `text` as given, without surrounding white space.
            Neither starts nor ends decrease. A token that stands for white
            space only has an empty span; tokens made from one character (`½`
            gives three) share its span.
        """
        ...

    def encode_batch_with_offsets(
        self, texts: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Encodes many texts at once and locates each token in its text.

        Returns:
            Ids and numbers of ids, as `encode_batch` returns them; and for
            each id the start and the end in its text, as
            `encode_with_offsets` returns them: int32 `[2, n]`.
        """
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """Decodes ids to normalized text.

        Special tokens are skipped, except for the unknown token, which is
        shown as ` ⁇ ` (SentencePiece) or `[UNK]` (WordPiece).
        """
        ...

    def id_to_token(self, token_id: int) -> str:
        """Returns the token of an id.

        Raises:
            ValueError: The vocabulary has no such id.
        """
        ...

    def token_to_id(self, token: str) -> int:
        """Returns the id of a token, or of `unk` if it is unknown.

        Special tokens are found too, although `encode` never returns them.
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
        spm_model_file: SentencePiece model, as in the English checkpoints. If
            it is given, `vocab_file` is not read.
        vocab_file: WordPiece vocabulary, as in the Chinese checkpoints.
        do_lower_case: Whether text is lower-cased. The released English
            vocabulary has no capitals.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: Neither file is given, or the file is damaged or lacks
            `[CLS]`, `[SEP]`, `[MASK]`, the padding or the unknown token.
    """
    # TF1: there, `vocab_file` is a required flag, ignored if a model is given.
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """Settings that name a tokenizer: a part of every config that needs one."""

    spm_model_file: str | None = setting(
        None, "SentencePiece model, as in the English checkpoints."
    )
    vocab_file: str | None = setting(
        None,
        "WordPiece vocabulary, as in the Chinese checkpoints; ignored if "
        "--spm_model_file is given.",
    )
    do_lower_case: bool = setting(True, "Whether text is lower-cased.")

    def load_tokenizer(self) -> Tokenizer:
        """Loads the tokenizer; raises the errors of `load_tokenizer`."""
        return load_tokenizer(
            spm_model_file=self.spm_model_file,
            vocab_file=self.vocab_file,
            do_lower_case=self.do_lower_case,
        )
