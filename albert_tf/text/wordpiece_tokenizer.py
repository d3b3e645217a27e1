"""Tokenizes with WordPiece, as the Chinese ALBERT checkpoints do.

Data flow: text -> words (normalization) -> [this file] -> ids.

Source: google-research/albert, tokenization.WordpieceTokenizer, load_vocab.
"""

import dataclasses
import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from albert_tf import checks, files
from albert_tf.text import base, normalization, vocabulary_file, word_splitting
from albert_tf.text.base import Tokenizer
from albert_tf.text.normalization import TracedText

CONTINUATION = "##"
MAX_WORD_SIZE = 200

# `[PAD]`, `[unused7]`, `<S>`: no text is encoded to these, because text is
# first split at punctuation.
_RESERVED = re.compile(r"\[.+\]|<.+>")


class WordPieceTokenizer(Tokenizer):
    """A tokenizer that uses a WordPiece vocabulary.

    Args:
        vocab_file: Text file, one token a line.
        content: Content of the file, if it was read before.
        **settings: See `TokenizerSettings`.
    """

    kind = vocabulary_file.WORDPIECE

    def __init__(
        self,
        vocab_file: files.Path,
        content: bytes | None = None,
        **settings: Any,
    ) -> None:
        text = content.decode() if content else files.read_text(vocab_file)
        # A token is the first column of its line, `" "` of an empty line; a
        # repeated token gets no second id. There is a U+2028 in a line.
        lines = map(str.split, text.removesuffix("\n").split("\n"))
        tokens = [*dict.fromkeys(next(iter(line), " ") for line in lines)]
        options = vocabulary_file.TokenizerSettings(**settings)
        spaced = [n for n in options.added_tokens if n.split() != [n]]
        if spaced:
            raise ValueError(
                "The tokens of a WordPiece vocabulary have no spaces. "
                f"Received: {checks.listed(spaced)}."
            )
        lowers, keeps = options.do_lower_case, options.keep_accents
        if keeps != lowers:
            options = dataclasses.replace(options, keep_accents=None)
        super().__init__(
            tokens,
            base.WORDPIECE_NAMES,
            vocab_file,
            options,
            do_lower_case=lowers,
            keep_accents=not lowers if keeps is None else keeps,
            tokenize_chinese_chars=options.tokenize_chinese_chars,
        )
        words = tokens[: self.num_own]
        self._words = {token: i for i, token in enumerate(words)}
        is_reserved = [bool(_RESERVED.fullmatch(token)) for token in tokens]
        self.forbidden_ids = np.flatnonzero(is_reserved).astype(np.int32)
        self.word_starts = np.array(
            [not token.startswith(CONTINUATION) for token in tokens], bool
        )
        self.vocabulary = "\n".join(tokens).encode()
        self.fingerprint = self._fingerprint()

    def _encode_batch(
        self, texts: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray]:
        rows = (
            word_splitting.split_words(text, **self.normalization)
            for text in texts
        )
        return base.joined(
            [[i for word in row for i in self._cut(word)[0]] for row in rows]
        )

    def _encode_batch_with_offsets(
        self, texts: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        # No word contains a space, so the texts can be split as one.
        traced, words = word_splitting.split_words_traced(
            " ".join(texts), **self.normalization
        )
        ids: list[int] = []
        spans: list[tuple[int, int]] = []
        for start, end in words:
            word_ids, cuts = self._cut(traced.text[start:end])
            ids += word_ids
            spans += itertools.pairwise(start + cut for cut in cuts)
        offsets = traced.raw_spans(spans)
        text_starts = normalization.starts_of(texts)
        lengths = np.diff(offsets[0].searchsorted(text_starts), append=len(ids))
        offsets -= text_starts.repeat(lengths)
        return np.array(ids, np.int32), lengths, offsets.astype(np.int32)

    def _normalize(self, text: str) -> str:
        return word_splitting.normalize(text, **self.normalization)

    def _trace(self, text: str) -> TracedText:
        options = {**self.normalization, "space_marks": False}
        return word_splitting.split_words_traced(text, **options)[0]

    def decode(self, ids: Iterable[int]) -> str:
        """See `Tokenizer.decode`; words are joined by single spaces."""
        return " ".join(self._shown(ids)).replace(f" {CONTINUATION}", "")

    def _cut(self, word: str) -> tuple[list[int], list[int]]:
        """Splits a word into tokens, always taking the longest from the left.

        Returns:
            The ids; and where they begin in the word, followed by its end. A
            word that cannot be split, or is too long, is one unknown token.
        """
        if word in self._words:
            return [self._words[word]], [0, len(word)]
        unknown = [self.special_ids.unk], [0, len(word)]
        if len(word) > MAX_WORD_SIZE:
            return unknown
        ids: list[int] = []
        cuts = [0]
        while cuts[-1] < len(word):
            start = cuts[-1]
            mark = CONTINUATION if start else ""
            for end in range(len(word), start, -1):
                token_id = self._words.get(mark + word[start:end])
                if token_id is not None:
                    ids.append(token_id)
                    cuts.append(end)
                    break
            else:
                return unknown
        return ids, cuts
