"""The base class of tokenizers.

Source: google-research/albert, `classifier_utils.convert_single_example` and
`_truncate_seq_pair`.
"""

import abc
import functools
import hashlib
import itertools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from albert_tf import checks, files
from albert_tf.text.added_tokens import WITHOUT_BORDERS, AddedTokens, is_word
from albert_tf.text.vocabulary_file import (
    AS_WRITTEN,
    NORMALIZED,
    WHOLE_WORD,
    SpecialIds,
    TokenizerSettings,
)

if TYPE_CHECKING:
    from albert_tf.text.normalization import TracedText

_LOGGER = logging.getLogger(__name__)
SENTENCEPIECE_NAMES = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
# SentencePiece's mark of the start of a word.
WORD_MARK = "▁"
WORDPIECE_NAMES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


class Tokenizer(abc.ABC):
    """Converts text to ids and back; normalization is included.

    Args:
        tokens: All tokens in the order of their ids.
        special_names: Names of the special tokens, in the order of
            `SpecialIds`.
        vocabulary: The file, which errors name.
        settings: Steps before the vocabulary splits a text.
        **normalization: Arguments of the functions of `normalization`.

    Attributes:
        kind: Kind of the vocabulary.
        added: The added tokens, which are cut out of a text first.
        vocab_size: Number of tokens, V.
        num_own: Number of tokens without the added tokens at the end.
        special_ids: Ids of padding, unknown, `[CLS]`, `[SEP]`, `[MASK]`.
        forbidden_ids: Int32, sorted: ids that a random replacement of a
            masked token must not have, because no text is encoded to them.
        word_starts: Bool `[V]`, whether a token starts a word, for whole-word
            masks.
        sentence_border: Text between two sentences that were lines.
        fingerprint: SHA-256, hexadecimal, of the vocabulary and the settings.
        vocabulary: Content of a file that gives the same tokenizer.
    """

    kind: str
    forbidden_ids: np.ndarray
    word_starts: np.ndarray
    sentence_border = ""  # A mark of the next word takes its place.
    fingerprint: str
    vocabulary: bytes

    def __init__(
        self,
        tokens: Sequence[str],
        special_names: Sequence[str | None],
        vocabulary: files.Path,
        settings: TokenizerSettings,
        **normalization: bool,
    ) -> None:
        self.settings = settings
        self.normalization = normalization
        self.vocab_size = len(tokens)
        self._tokens = tokens
        self._ids = {token: i for i, token in enumerate(tokens)}
        added = settings.added_tokens
        names = *filter(None, special_names), *added
        missing = [name for name in names if name not in self._ids]
        if missing:
            raise ValueError(
                f"{vocabulary}: it has no token {', '.join(missing)}. Use the "
                "vocabulary of an ALBERT (where there is a .vocab, the .model "
                "beside it), or train one with build_vocab.py."
            )
        ids: list[Any] = [self._ids.get(name or "") for name in special_names]
        self.special_ids = SpecialIds(*ids)
        self.num_own = len(tokens)
        while tokens[self.num_own - 1] in added:
            self.num_own -= 1
        self.added = AddedTokens(
            {name: self._ids[name] for name in added},
            added,
            self._normalize,
        )

    def encode(self, text: str) -> list[int]:
        """Encodes a text; `[CLS]` and `[SEP]` are not added."""
        ids: list[int] = self.encode_batch([text])[0].tolist()
        return ids

    def encode_batch(
        self, texts: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Encodes many texts at once.

        Returns:
            The ids of all texts, int32, one text after the other; and the
            number of ids of each text, int64 `[len(texts)]`.
        """
        if not self.added:
            return self._encode_batch(texts)
        return self.encode_batch_with_offsets(texts)[:2]

    def encode_batch_with_offsets(
        self, texts: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Encodes many texts at once and locates each token in its text.

        Returns ids and numbers of ids, as `encode_batch` does; and starts and
        ends, int32 `[2, n]`, as `encode_with_offsets` does.
        """
        if not self.added:
            return self._encode_batch_with_offsets(texts)
        cut = [
            [*self.added.cut(text, self._normalize, self._trace)]
            for text in texts
        ]
        others = [
            text[start:end]
            for text, parts in zip(texts, cut, strict=True)
            for start, end, token_id in parts
            if token_id is None
        ]
        ids, sizes, offsets = self._encode_batch_with_offsets(others)
        ends = iter(sizes.cumsum().tolist())
        rows, spans, done = [], [np.zeros((2, 0), np.int32)], 0
        for parts in cut:
            row: list[int] = []
            for start, end, token_id in parts:
                if token_id is None:
                    part = slice(done, done := next(ends))
                    row += ids[part].tolist()
                    spans.append(offsets[:, part] + np.int32(start))
                else:
                    row.append(token_id)
                    spans.append(np.array([[start], [end]], np.int32))
            rows.append(row)
        return *joined(rows), np.concatenate(spans, axis=1)

    def with_tokens(self, names: Sequence[str]) -> "Tokenizer":
        """Returns a tokenizer that also finds new tokens; see `as_added`.

        Tokens of the vocabulary keep their ids; new tokens get the next ids.
        """
        if not names:
            return self
        added = {name: self.as_added(name) for name in names}
        result = self.with_added(dict(filter(None, added.values())))
        new = map(result.id_to_token, range(self.vocab_size, result.vocab_size))
        num_new = result.vocab_size - self.vocab_size
        text = f"{num_new} new tokens: {checks.listed(new)}"
        if known := [name for name, found in added.items() if not found]:
            text += f". Left out, tokens already: {checks.listed(known)}"
        _LOGGER.info(text)
        return result

    def as_added(self, name: str) -> tuple[str, bool | str] | None:
        """Returns a new token as it is found, and how; see `AddedTokens`.

        Words, such as `desk`, are normalized and found as whole words, or in
        scripts without blanks, inside words; None if a word is a token already.
        Marks, such as `[E1]`, are found as written; None if they are special.
        """
        if self._ids.get(name, -1) in vars(self.special_ids).values():
            return None
        if not is_word(name):
            return name, AS_WRITTEN
        word = "".join(self._normalize(name).split())
        if name.split() != [name] or not word:
            raise ValueError(f"A new word has no spaces: {name!r}.")
        ids = self.encode(word)
        is_piece = len(ids) == 1 and ids[0] != self.special_ids.unk
        is_token = is_piece or word in self._ids
        kind = NORMALIZED if WITHOUT_BORDERS.match(word) else WHOLE_WORD
        return None if is_token else (word, kind)

    def with_added(self, added: Mapping[str, bool | str]) -> "Tokenizer":
        """Returns a tokenizer with more `TokenizerSettings.added_tokens`."""
        if not added:
            return self
        new = [name for name in added if name not in self._ids]
        all_added = {**added, **self.settings.added_tokens}
        settings = vars(self.settings) | {"added_tokens": all_added}
        make: Callable[..., Tokenizer] = type(self)
        return make("", self._extended(new), **settings)

    def _extended(self, names: Sequence[str]) -> bytes:
        """Returns the vocabulary with more tokens."""
        return "\n".join([self.vocabulary.decode(), *names]).encode()

    def identity(self) -> files.JsonObject:
        """Returns how runs identify it; see `TokenizerSettings.identity`."""
        return self.settings.identity(self.fingerprint)

    def _fingerprint(self) -> str:
        stated = self.settings.stated()
        if added := stated.get("added_tokens"):
            stated["added_tokens"] = sorted(added.items())
        settings = ", ".join(f"{n}={value}" for n, value in stated.items())
        content = f"{self.kind}, {settings}\n".encode() + self.vocabulary
        return hashlib.sha256(content).hexdigest()

    @abc.abstractmethod
    def _encode_batch(
        self, texts: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `encode_batch`, but no added token is looked for."""

    @abc.abstractmethod
    def _encode_batch_with_offsets(
        self, texts: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As `encode_batch_with_offsets`, but no added token is looked for."""

    @abc.abstractmethod
    def _normalize(self, text: str) -> str:
        """Returns the normalized text in which added tokens are found."""

    @abc.abstractmethod
    def _trace(self, text: str) -> "TracedText":
        """Returns the normalized text with the origin of each character."""

    @abc.abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """Decodes ids to normalized text; special tokens are skipped.

        The unknown token is shown as ` ⁇ ` (SentencePiece) or `[UNK]`.
        """

    def _shown(self, ids: Iterable[int]) -> list[str]:
        """Returns the tokens of texts, with the unknown token."""
        left_out = {*self.forbidden_ids.tolist()} - {self.special_ids.unk}
        return [self.id_to_token(int(i)) for i in ids if i not in left_out]

    def batch(
        self,
        texts: Sequence[str],
        text_pairs: Sequence[str] | None = None,
        *,
        max_seq_length: int,
    ) -> dict[str, np.ndarray]:
        """Encodes texts as the input of a model.

        Args:
            texts: B texts.
            text_pairs: A second text for each, which may be empty.
            max_seq_length: Length S of every row. Longer texts are truncated
                (always the longer of a pair), shorter rows are padded.

        Returns:
            Dict of int32 arrays `[B, S]`: `input_ids`, with `[CLS]` and
            `[SEP]`; `input_mask`, 1 for a token and 0 for padding;
            `segment_ids`, 1 for the second text, else 0.
        """
        if isinstance(texts, str) or isinstance(text_pairs, str):
            raise ValueError("Pass lists of texts: [text] for a batch of one.")
        if text_pairs is None:
            text_pairs = [""] * len(texts)
        shape = len(texts), max_seq_length
        input_ids = np.full(shape, self.special_ids.pad, np.int32)
        input_mask, segment_ids = np.zeros((2, *shape), np.int32)
        pairs = zip(texts, text_pairs, strict=True)
        for row, (text, text_pair) in enumerate(pairs):
            ids, segments = encode_pair(
                self.encode(text),
                self.encode(text_pair),
                max_seq_length=max_seq_length,
                special=self.special_ids,
            )
            input_ids[row, : len(ids)] = ids
            input_mask[row, : len(ids)] = 1
            segment_ids[row, : len(ids)] = segments
        return {
            "input_ids": input_ids,
            "input_mask": input_mask,
            "segment_ids": segment_ids,
        }

    __call__ = batch

    def encode_with_offsets(
        self, text: str
    ) -> tuple[list[int], list[tuple[int, int]]]:
        """Encodes a text and locates each token in it.

        Returns:
            The ids; and for each id the start and end of its token, in code
            points of `text`, without surrounding white space. Neither starts
            nor ends decrease. The span of white space is empty; tokens made
            from one character (`½` gives three) share its span.
        """
        ids, _, offsets = self.encode_batch_with_offsets([text])
        return ids.tolist(), list(zip(*offsets.tolist(), strict=True))

    def id_to_token(self, token_id: int) -> str:
        """Returns the token of an id."""
        checks.check_integer(
            "token_id", int(token_id), at_most=self.vocab_size - 1
        )
        return self._tokens[token_id]

    @functools.cached_property
    def ids_within_words(self) -> np.ndarray:
        """Int32 `[V]`: the id of each token without SentencePiece's word mark.

        It is -1 for the mark alone, and the same id if there is no such token.
        """
        ids = {
            token: self._ids.get(token.removeprefix(WORD_MARK), i)
            for token, i in self._ids.items()
        } | {WORD_MARK: -1}
        return np.array([ids[token] for token in self._tokens], np.int32)

    def encode_with_masks(self, text: str, mask: str) -> list[int]:
        """Encodes a text in which `mask` stands for the token `[MASK]`.

        Text that follows a mask without a space continues its word, as in
        training.
        """
        first, *others = text.split(mask)
        ids = self.encode(first)
        for part in others:
            part_ids = self.encode(part)
            if part_ids and not part[0].isspace():
                within = int(self.ids_within_words[part_ids[0]])
                part_ids[:1] = [within] if within >= 0 else []
            ids += [self.special_ids.mask, *part_ids]
        return ids

    def token_to_id(self, token: str) -> int:
        """Returns the id of a token, or of `unk` if it is unknown.

        Special tokens are found too, although `encode` never returns them.
        """
        return self._ids.get(token, self.special_ids.unk)


def joined(rows: Sequence[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Joins the ids of each text; returns the result of `encode_batch`."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    flat = itertools.chain.from_iterable(rows)
    return np.fromiter(flat, np.int32, int(lengths.sum())), lengths


def encode_pair(
    ids_a: Sequence[int],
    ids_b: Sequence[int],
    *,
    max_seq_length: int,
    special: SpecialIds,
) -> tuple[list[int], list[int]]:
    """Returns `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, without padding.

    Texts that are too long lose tokens at their ends: always the longer text,
    and the second if both are equally long. If `ids_b` is empty, there is no
    second `[SEP]` either. Without `[CLS]` and `[SEP]`, an empty text becomes
    one padding token. Returns the ids and their segments:

    >>> special = SpecialIds(pad=0, unk=1, cls=2, sep=3, mask=4)
    >>> encode_pair([7, 8, 9], [5], max_seq_length=6, special=special)
    ([2, 7, 8, 3, 5, 3], [0, 0, 0, 0, 1, 1])
    """
    num_texts = 2 if ids_b else 1
    room = max_seq_length - special.num_around(num_texts)
    if room < num_texts:
        raise ValueError(
            "`max_seq_length` must leave room for a token of each text. "
            f"Received: max_seq_length={max_seq_length}."
        )
    half = room // 2
    length_a = min(len(ids_a), max(room - len(ids_b), room - half))
    length_b = min(len(ids_b), max(room - len(ids_a), half))
    if special.cls is None or special.sep is None:
        alone = [*ids_a[:length_a]] or [special.pad]
        return alone, [0] * len(alone)
    first = [special.cls, *ids_a[:length_a], special.sep]
    second = [*ids_b[:length_b], special.sep] if length_b else []
    return first + second, [0] * len(first) + [1] * len(second)
