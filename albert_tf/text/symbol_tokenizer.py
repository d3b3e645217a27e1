"""Tokenizes symbols that are no words: phonemes, amino acids, events.

Data flow: text -> characters, or what blanks separate -> [this file] -> ids.

Nothing is normalized. The vocabulary is a JSON file with all settings:
`symbols`, a list in the order of their ids, or a text of them; `special`, which
of them are `pad`, `unk` and `mask`, and, unless sequences are without, `cls`
and `sep`; `are_separated`, whether blanks separate the symbols of a text; and
`word_border`, the symbol that begins a word, unless each is a word.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from albert_tf import files
from albert_tf.text import base, vocabulary_file
from albert_tf.text.base import Tokenizer

FIELDS = {"symbols", "special", "word_border", "are_separated"}
SPECIAL = tuple(vocabulary_file.SpecialIds.__dataclass_fields__)


class SymbolTokenizer(Tokenizer):
    """A tokenizer that gives each symbol one id.

    A special symbol in a text is unknown. Of equal symbols, the last counts.

    Args:
        symbols_file: Path of the JSON file.
        content: Content of the file, if it was read before.
        **settings: Only `added_tokens` of `TokenizerSettings` has an effect.

    Attributes:
        symbols: The ids of the symbols that texts may have, by symbol.
        are_separated: Whether blanks separate the symbols of a text.
    """

    kind = vocabulary_file.SYMBOLS

    def __init__(
        self,
        symbols_file: files.Path,
        content: bytes | None = None,
        **settings: Any,
    ) -> None:
        self.vocabulary = content or files.read_bytes(symbols_file)
        try:
            fields = json.loads(self.vocabulary)
            tokens = [*map(str, fields["symbols"])]
            roles = {"cls": None, "sep": None, **fields["special"]}
            special = [roles[name] for name in SPECIAL]
            if (roles["cls"] is None) != (roles["sep"] is None):
                raise ValueError("cls without sep, or sep without cls")
            self.are_separated = bool(fields.get("are_separated"))
            border = fields.get("word_border")
            tokens.index(border or tokens[0])
            if others := fields.keys() - FIELDS:
                raise ValueError(f"unknown fields: {sorted(others)}")
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise ValueError(
                f"{str(symbols_file)!r} is no list of symbols, or is damaged "
                f"({error!r}). Make one by build_vocab.py."
            ) from error
        added = settings.get("added_tokens") or {}
        options = vocabulary_file.TokenizerSettings(
            do_lower_case=False, added_tokens=added
        )
        super().__init__(tokens, special, symbols_file, options)
        ids = {token: i for i, token in enumerate(tokens[: self.num_own])}
        self.symbols = {t: i for t, i in ids.items() if t not in special}
        others = {*range(self.num_own)}.difference(self.symbols.values())
        self.forbidden_ids = np.array(sorted(others), np.int32)
        # Where no symbol marks the borders of words, each is a word.
        self.word_starts = np.array([border in (None, t) for t in tokens])
        self.word_starts[[*self.added_patterns.values()]] = True
        if border is not None and not self.are_separated:
            self.sentence_border = str(border)
        self.fingerprint = self._fingerprint()
        self._pattern = re.compile(r"\S+" if self.are_separated else "(?s).")

    def _extended(self, names: Sequence[str]) -> bytes:
        fields = json.loads(self.vocabulary)
        fields["symbols"] = [*fields["symbols"], *names]
        text = json.dumps(fields, ensure_ascii=False, indent=1)
        return f"{text}\n".encode()

    def _encode_batch(
        self, texts: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray]:
        find, unk = self.symbols.get, self.special_ids.unk
        rows = map(self._pattern.findall, texts)
        return base.joined([[find(part, unk) for part in row] for row in rows])

    def _encode_batch_with_offsets(
        self, texts: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        spans = [m.span() for t in texts for m in self._pattern.finditer(t)]
        offsets = np.array(spans, np.int32).reshape(-1, 2).T
        return *self._encode_batch(texts), offsets

    def decode(self, ids: Iterable[int]) -> str:
        """See `Tokenizer.decode`; the unknown symbol is shown as it is."""
        return (" " if self.are_separated else "").join(self._shown(ids))
