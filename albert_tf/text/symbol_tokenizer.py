"""Tokenizes symbols that are no words: phonemes, amino acids, events.

Data flow: text -> characters, or what blanks separate -> [this file] -> ids.

Nothing is normalized. The vocabulary is a JSON file with all settings:
`symbols`, a list in the order of their ids, a text of them, or an object with
the id of each; `special`, which of them are `pad`, `unk` and `mask`, and,
unless sequences are without, `cls` and `sep`; `are_separated`, whether blanks
separate the symbols of a text; and `word_border`, the symbol that begins a
word, unless each is a word.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from albert_tf import files
from albert_tf.text import base, vocabulary_file
from albert_tf.text.base import Tokenizer
from albert_tf.text.normalization import TracedText

FIELDS = {"symbols", "special", "word_border", "are_separated"}
SPECIAL = tuple(vocabulary_file.SpecialIds.__dataclass_fields__)


class SymbolTokenizer(Tokenizer):
    """A tokenizer that gives each symbol one id.

    The longest symbol is found. A special symbol in a text is unknown. Of equal
    symbols, the last counts.

    Args:
        symbols_file: Path of the JSON file.
        content: Content of the file, if it was read before.
        added_tokens: See `TokenizerSettings`; its other fields have no effect.

    Attributes:
        symbols: The ids of the symbols that texts may have, by symbol.
        long_symbols: The symbols of several characters, the longest first.
        are_separated: Whether blanks separate the symbols of a text.
    """

    kind = vocabulary_file.SYMBOLS

    def __init__(
        self,
        symbols_file: files.Path,
        content: bytes | None = None,
        added_tokens: Mapping[str, bool | str] | None = None,
        **_: object,
    ) -> None:
        self.vocabulary = content or files.read_bytes(symbols_file)
        try:
            fields = json.loads(self.vocabulary)
            listed = _in_order(fields["symbols"])
            tokens = [t or f"[id{i}]" for i, t in enumerate(listed)]
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
        added = added_tokens or {}
        options = vocabulary_file.TokenizerSettings(
            do_lower_case=False, added_tokens=added
        )
        super().__init__(tokens, special, symbols_file, options)
        ids = {token: i for i, token in enumerate(listed[: self.num_own])}
        without_text = {"", *special}
        self.symbols = {t: i for t, i in ids.items() if t not in without_text}
        others = {*range(self.num_own)}.difference(self.symbols.values())
        self.forbidden_ids = np.array(sorted(others), np.int32)
        # Where no symbol marks the borders of words, each is a word.
        self.word_starts = np.array([border in (None, t) for t in tokens])
        self.word_starts[[self._ids[name] for name in added]] = True
        if border is not None and not self.are_separated:
            self.sentence_border = str(border)
        self.fingerprint = self._fingerprint()
        symbols = sorted(self.symbols, key=len, reverse=True)
        self.long_symbols = {t: self.symbols[t] for t in symbols if len(t) > 1}
        self._pattern = re.compile(
            r"\S+"
            if self.are_separated
            else "|".join([*map(re.escape, self.long_symbols), "(?s:.)"])
        )

    def as_added(self, name: str) -> tuple[str, bool | str] | None:
        """Returns a new symbol, or None; see `Tokenizer.as_added`."""
        return None if name in self._ids else (name, vocabulary_file.AS_WRITTEN)

    def with_added(self, added: Mapping[str, bool | str]) -> Tokenizer:
        """Returns a tokenizer with more symbols at the end of its list."""
        vocabulary = self._extended([*added])
        return SymbolTokenizer("", vocabulary, **vars(self.settings))

    def _normalize(self, text: str) -> str:
        return text

    def _trace(self, text: str) -> TracedText:
        starts = np.arange(len(text))
        return TracedText(
            text=text, starts=starts, ends=starts + 1, raw_size=len(text)
        )

    def _extended(self, names: Sequence[str]) -> bytes:
        fields = json.loads(self.vocabulary)
        fields["symbols"] = [*_in_order(fields["symbols"]), *names]
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


def _in_order(symbols: str | Sequence[str] | Mapping[str, int]) -> list[str]:
    """Returns the symbols by id, "" for an id without one."""
    if not isinstance(symbols, Mapping):
        return [*map(str, symbols)]
    by_id = {token_id: symbol for symbol, token_id in symbols.items()}
    are_ids = all(isinstance(i, int) and i >= 0 for i in by_id)
    if not are_ids or len(by_id) < len(symbols):
        raise ValueError("the ids of symbols are not different numbers from 0")
    vocabulary_file.check_gap(max(by_id) - len(by_id), "the list")
    return [by_id.get(i, "") for i in range(max(by_id) + 1)]
