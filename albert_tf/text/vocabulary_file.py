"""A vocabulary file: its kind and content, and facts that records keep of it.

Plain Python. Whoever reads records of ids needs no tokenizer: see `base.py`.
"""

import dataclasses
import os
from collections.abc import Mapping

from albert_tf import files, registry

SETTINGS = "tokenizer_settings"
# Kinds of vocabularies.
SENTENCEPIECE, WORDPIECE, SYMBOLS = "sentencepiece", "wordpiece", "symbols"
# How an added token is found: as it is written, even inside words; in
# normalized text, even inside words; or in normalized text, as a whole word.
AS_WRITTEN, NORMALIZED, WHOLE_WORD = False, True, "word"
# Released vocabularies have no gap; other vocabularies, some hundred ids.
_LARGEST_GAP = 100_000
# The name of a file with a list of symbols ends with this.
SYMBOLS_FILE = "symbols.json"


def kind_of(vocabulary: files.Path) -> str:
    """Returns the kind of a vocabulary file, by its name."""
    name = os.fspath(vocabulary)
    if name.endswith(SYMBOLS_FILE):
        return SYMBOLS
    return WORDPIECE if name.endswith(".txt") else SENTENCEPIECE


def read(vocabulary: files.Path) -> bytes:
    """Returns the content of a vocabulary file.

    For a `tokenizer.json`, it is the SentencePiece model it was made from.
    """
    ending = os.path.splitext(vocabulary)[1]
    is_model = kind_of(vocabulary) == SENTENCEPIECE
    if is_model and ending in registry.SENTENCEPIECE_FILES:
        make = registry.load(registry.SENTENCEPIECE_FILES[ending])
        return bytes(make(vocabulary))
    return files.read_bytes(vocabulary)


def check_gap(num_ids: int, name: str) -> None:
    """Checks that not too many ids have no token: each becomes one."""
    if num_ids > _LARGEST_GAP:
        raise ValueError(f"{name} has an id after {num_ids} without a token")


@dataclasses.dataclass(frozen=True)
class SpecialIds:
    """Ids of the special tokens.

    `cls` and `sep` are None if a sequence is one text without them.
    """

    pad: int
    unk: int
    cls: int | None
    sep: int | None
    mask: int

    @property
    def num_before(self) -> int:
        """The number of `[CLS]` before, and of `[SEP]` after a text: 1 or 0."""
        return 0 if self.cls is None else 1

    def num_around(self, num_texts: int) -> int:
        """Returns the number of `[CLS]` and `[SEP]` in a sequence of texts."""
        if num_texts > 1 and not self.num_before:
            raise ValueError(
                "Sequences of this vocabulary have no [SEP] between two texts. "
                "Pass one text; for records, pair_objective='none'."
            )
        return (num_texts + 1) * self.num_before


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    """Steps of a tokenizer before its vocabulary splits a text.

    Args:
        do_lower_case: Whether text is lower-cased.
        keep_accents: Whether letters keep their accents; for SentencePiece,
            also whether they are not decomposed (NFKD). None for the rule of
            the original: no, except for WordPiece of cased text.
        tokenize_chinese_chars: WordPiece: each Chinese character is a word.
        added_tokens: Tokens that are cut out of a text first, each with how
            it is found: `AS_WRITTEN`, `NORMALIZED` or `WHOLE_WORD`.
    """

    do_lower_case: bool = True
    keep_accents: bool | None = None
    tokenize_chinese_chars: bool = True
    added_tokens: Mapping[str, bool | str] = dataclasses.field(
        default_factory=dict
    )

    def stated(self) -> files.JsonObject:
        """Returns `do_lower_case`, and the fields that are not the default."""
        defaults = vars(TokenizerSettings())
        changed = {n: v for n, v in vars(self).items() if v != defaults[n]}
        return {"do_lower_case": self.do_lower_case, **changed}

    def identity(self, fingerprint: str | None) -> files.JsonObject:
        """Returns how runs identify such a tokenizer, as JSON values.

        `do_lower_case` follows from the fingerprint, and is left out if it is
        the only setting.
        """
        stated = self.stated()
        settings = {SETTINGS: stated} if len(stated) > 1 else {}
        return {"tokenizer": fingerprint, **settings}
