"""Loads the tokenizer of a vocabulary: SentencePiece, WordPiece, symbols.

Data flow: vocabulary file -> [this file] -> tokenizer of a checkpoint.
"""

import dataclasses
from typing import TYPE_CHECKING

from albert_tf import files, registry
from albert_tf.settings import Settings, setting
from albert_tf.text.vocabulary_file import (
    SENTENCEPIECE,
    SYMBOLS,
    WORDPIECE,
    TokenizerSettings,
    kind_of,
)

if TYPE_CHECKING:
    from albert_tf.text.base import Tokenizer


def make(
    vocabulary: files.Path, *, kind: str | None = None, **settings: object
) -> "Tokenizer":
    """Makes the tokenizer of a vocabulary file.

    Args:
        vocabulary: Path of the file.
        kind: Kind of the file; None for `kind_of`.
        **settings: Fields of `TokenizerSettings`; and `content`, the content
            of the file, if it was read before.
    """
    make_kind = registry.load(registry.TOKENIZERS[kind or kind_of(vocabulary)])
    tokenizer: Tokenizer = make_kind(vocabulary, **settings)
    return tokenizer


def load_tokenizer(
    *,
    spm_model_file: files.Path | None = None,
    vocab_file: files.Path | None = None,
    **settings: object,
) -> "Tokenizer":
    """Loads the tokenizer of a vocabulary.

    Args:
        spm_model_file: SentencePiece model, as in the English checkpoints. If
            it is given, `vocab_file` is not read.
        vocab_file: WordPiece vocabulary, as in the Chinese checkpoints; a name
            that ends in `symbols.json`, of either, is a list of symbols.
        **settings: See `make`.
    """
    # TF1: there, `vocab_file` is a required flag, ignored if a model is given.
    path = spm_model_file or vocab_file
    if not path:
        raise ValueError(
            "No vocabulary is given. Pass `spm_model_file` (SentencePiece) or "
            "`vocab_file` (WordPiece)."
        )
    kind = kind_of(path)
    if kind != SYMBOLS:
        kind = SENTENCEPIECE if spm_model_file else WORDPIECE
    return make(path, kind=kind, **settings)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NewTokens(Settings):
    """Setting that adds tokens to a vocabulary."""

    new_tokens: str | None = setting(
        None,
        "Tokens to add, separated by commas. Words, such as desk, are found as "
        "whole words of normalized text and start as the mean of their pieces; "
        "marks, such as [E1], as they are written, as the mean of all tokens.",
    )

    @property
    def new_token_names(self) -> list[str]:
        """The tokens, each once."""
        names = map(str.strip, (self.new_tokens or "").split(","))
        return [*dict.fromkeys(filter(None, names))]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Vocabulary(NewTokens):
    """Settings that name a tokenizer, as a part of other configs."""

    spm_model_file: str | None = setting(
        None, "SentencePiece model, as in the English checkpoints."
    )
    vocab_file: str | None = setting(
        None,
        "WordPiece vocabulary, as in the Chinese checkpoints, or the symbols "
        "of build_vocab.py; ignored if --spm_model_file is given.",
    )
    do_lower_case: bool = setting(True, "Whether text is lower-cased.")
    keep_accents: bool | None = setting(
        None,
        "Whether letters keep their accents. Default: no, but for WordPiece of "
        "cased text.",
    )

    @property
    def settings(self) -> TokenizerSettings:
        """Steps before the vocabulary splits a text, without new tokens."""
        return TokenizerSettings(
            do_lower_case=self.do_lower_case,
            keep_accents=self.keep_accents,
        )

    def load_tokenizer(self) -> "Tokenizer":
        """Loads the tokenizer; see `load_tokenizer`."""
        tokenizer = load_tokenizer(
            spm_model_file=self.spm_model_file,
            vocab_file=self.vocab_file,
            **vars(self.settings),
        )
        return tokenizer.with_tokens(self.new_token_names)


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularyBeside(Settings):
    """Settings that replace the tokenizer of a checkpoint."""

    spm_model_file: str | None = setting(
        None,
        "SentencePiece model. Default: the vocabulary beside the checkpoint.",
    )
    vocab_file: str | None = setting(
        None,
        "WordPiece vocabulary; ignored if --spm_model_file is given. Default: "
        "the vocabulary beside the checkpoint.",
    )
    do_lower_case: bool | None = setting(
        None,
        "Whether text is lower-cased. Default: as the checkpoint says, or "
        "true.",
    )
    keep_accents: bool | None = setting(
        None,
        "Whether letters keep their accents. Default: as the checkpoint says.",
    )
