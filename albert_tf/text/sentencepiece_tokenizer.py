"""Tokenizes with SentencePiece, as the English ALBERT checkpoints do.

Data flow: text -> normalization -> [this file] -> ids.
Plain Python, NumPy and the SentencePiece library.

Source: google-research/albert, tokenization.encode_pieces and FullTokenizer.
"""

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import sentencepiece

from albert_tf import files
from albert_tf.text import base, normalization, vocabulary_file
from albert_tf.text.base import WORD_MARK, Tokenizer
from albert_tf.text.normalization import TracedText
from albert_tf.text.vocabulary_file import TokenizerSettings

_PUNCTUATION = frozenset('!"#$%&()*+,-./:;?@[\\]^_`{|}~')
# With as many texts, one call for all is faster than a call for each.
_FEW_TEXTS = 16
_ENGLISH = frozenset("abcdefghijklmnopqrstuvwxyz") | _PUNCTUATION


class SentencePieceTokenizer(Tokenizer):
    """A tokenizer that uses a SentencePiece model.

    A piece that ends in a digit and a comma (`▁25,`) is always split into the
    number and the comma, by id, because that follows from the vocabulary.

    Args:
        model_file: A `.model`, or the `tokenizer.json` of an ALBERT.
        content: Content of the file, if it was read before.
        **settings: See `TokenizerSettings`.

    Attributes:
        replacements: Ids that replace ids of the model that ALBERT does not
            use.
    """

    kind = vocabulary_file.SENTENCEPIECE

    def __init__(
        self,
        model_file: files.Path,
        content: bytes | None = None,
        **settings: Any,
    ) -> None:
        model = content or vocabulary_file.read(model_file)
        processor = _make_processor(model, model_file)
        # Without it, accents are removed from cased text, too.
        settings["keep_accents"] = settings.get("keep_accents") or None
        options = TokenizerSettings(**settings)
        super().__init__(
            [processor.id_to_piece(i) for i in range(len(processor))],
            base.SENTENCEPIECE_NAMES,
            model_file,
            options,
            do_lower_case=options.do_lower_case,
            keep_accents=bool(options.keep_accents),
        )
        self._processor = processor
        self._piece_sizes = np.array([len(piece) for piece in self._tokens])
        special = dataclasses.astuple(self.special_ids)
        reserved = {*special}
        kinds = processor.is_control, processor.is_unknown, processor.is_unused
        for is_kind in kinds:
            reserved.update(filter(is_kind, range(len(processor))))
        self.forbidden_ids = np.array(sorted(reserved), np.int32)
        self.word_starts = np.array([*map(_starts_word, self._tokens)])
        self.word_starts[[self._ids[n] for n in options.added_tokens]] = True
        self.vocabulary = model
        self.fingerprint = self._fingerprint()
        unk = self.special_ids.unk
        # A foreign model may find special pieces in text.
        self.replacements: Mapping[int, tuple[int, ...]] = {
            **{i: (unk,) for i in special if i != unk},
            **self._commas_after_digits(),
        }
        self._is_replaced = np.zeros(self.vocab_size, bool)
        self._num_ids = np.ones(self.vocab_size, np.int64)
        for token_id, ids in self.replacements.items():
            self._is_replaced[token_id] = True
            self._num_ids[token_id] = len(ids)

    def _encode_batch(
        self, texts: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray]:
        encode = self._processor.encode
        rows = [self._normalize(text) for text in texts]
        if len(rows) < _FEW_TEXTS:
            ids_of_rows = [encode(row, return_type="numpy") for row in rows]
        else:
            # Faster, but the C++ library starts a thread for each call.
            ids_of_rows = encode(rows, return_type="numpy", num_threads=1)
        lengths = np.fromiter(map(len, ids_of_rows), np.int64, len(texts))
        ids = np.concatenate([np.zeros(0, np.int32), *ids_of_rows])
        return self._replace(ids, lengths)

    def _encode_batch_with_offsets(
        self, texts: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if not texts:
            return *self._encode_batch([]), np.zeros((2, 0), np.int32)
        rows = [self._normalize(text) for text in texts]
        encode = self._processor.encode
        ids_of_rows = [encode(row, return_type="numpy") for row in rows]
        ids = np.concatenate(ids_of_rows)
        lengths = np.fromiter(map(len, ids_of_rows), np.int64, len(texts))
        spans = np.concatenate([*map(self._find_spans, rows, ids_of_rows)])
        spans += normalization.starts_of(rows).repeat(lengths)[:, None]
        traced = normalization.trace_all(texts, rows, **self.normalization)
        offsets = traced.raw_spans(self._divide_spans(traced.text, ids, spans))
        ids, lengths = self._replace(ids, lengths)
        offsets -= normalization.starts_of(texts).repeat(lengths)
        return ids, lengths, offsets.astype(np.int32)

    def decode(self, ids: Iterable[int]) -> str:
        """See `Tokenizer.decode`."""
        numbers = [int(i) for i in ids]
        for token_id in numbers:
            self.id_to_token(token_id)  # Raises if there is no such id.
        return str(self._processor.decode(numbers))

    def _extended(self, names: Sequence[str]) -> bytes:
        return extended(self.vocabulary, names)

    def _normalize(self, text: str) -> str:
        return normalization.normalize(text, **self.normalization)

    def _trace(self, text: str) -> TracedText:
        row = self._normalize(text)
        return normalization.trace_all([text], [row], **self.normalization)

    def _commas_after_digits(self) -> dict[int, tuple[int, ...]]:
        """Maps pieces that end in a digit and a comma to their parts.

        TF1: the number is encoded again without its word mark, so that even
        `25,` in the middle of a word begins with `▁`; the code that should
        remove the mark compares text with bytes and never runs.
        Differs: a run of unknown characters that ends in a digit and a comma
        is not split. It exists only if the vocabulary has no comma.
        """
        comma = (self.token_to_id(","),)
        return {
            token_id: (
                *self._processor.encode(piece[:-1].replace(WORD_MARK, "")),
                *comma,
            )
            for token_id, piece in enumerate(self._tokens)
            if is_number_comma(piece)
        }

    def _replace(
        self, ids: np.ndarray, lengths: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Applies `replacements` to the ids of all texts of a batch."""
        is_replaced = self._is_replaced[ids]
        if not is_replaced.any():
            return ids, lengths
        num_ids = self._num_ids[ids]
        replaced = np.repeat(ids, num_ids)
        replaced[np.repeat(is_replaced, num_ids)] = np.concatenate(
            [self.replacements[i] for i in ids[is_replaced].tolist()]
        )
        ends = np.cumsum(lengths)
        sizes_so_far = np.append(0, np.cumsum(num_ids))
        return replaced, sizes_so_far[ends] - sizes_so_far[ends - lengths]

    def _find_spans(self, row: str, ids: np.ndarray) -> np.ndarray:
        """Returns starts and ends of the pieces in a normalized text, `[n, 2]`.

        Usually the pieces spell the text, with word marks for spaces and one
        more in front, so that their sizes give the spans. Otherwise, the model
        computes them, which takes twice as long.
        """
        pieces = "".join([self._tokens[i] for i in ids.tolist()])
        is_spelled = pieces == WORD_MARK + row.replace(" ", WORD_MARK)
        if not is_spelled or self.special_ids.unk in ids:
            mapping = self._processor.encode(row, return_type="offset_mapping")
            return np.array(mapping["offsets"], np.int64).reshape(-1, 2)
        spans = np.zeros((len(ids), 2), np.int64)
        spans[:, 1] = self._piece_sizes[ids].cumsum() - 1
        spans[1:, 0] = spans[:-1, 1]
        return spans

    def _divide_spans(
        self, text: str, ids: np.ndarray, spans: np.ndarray
    ) -> np.ndarray:
        """Divides the spans of ids, `[n, 2]`, among their replacements."""
        num_ids = self._num_ids[ids]
        divided = np.repeat(spans, num_ids, axis=0)
        ends = np.cumsum(num_ids)
        for index in np.flatnonzero(num_ids > 1):
            parts = self.replacements[ids[index]]
            new = slice(ends[index] - len(parts), ends[index])
            start, end = spans[index].tolist()
            divided[new] = self._divide_span(text, start, end, parts)
        return divided

    def _divide_span(
        self, text: str, start: int, end: int, parts: Sequence[int]
    ) -> list[tuple[int, int]]:
        """Divides the span of a number and a comma among its pieces."""
        start += len(text[start:end]) - len(text[start:end].lstrip())
        comma = max(text.rfind(",", start, end), start)
        tokens = [self._tokens[part] for part in parts[:-1]]
        sizes = [len(token.removeprefix(WORD_MARK)) for token in tokens]
        # A character that the model takes for space may precede the number.
        cuts = [max(start, comma - sum(sizes))]
        for size in sizes:
            cuts.append(min(cuts[-1] + size, comma))
        return list(itertools.pairwise([*cuts, end]))


def _starts_word(token: str) -> bool:
    """Returns whether a token starts a word, the unit of masking.

    Digits, the apostrophe and foreign characters are words of their own.
    """
    return (
        token.startswith((WORD_MARK, "<"))
        or token in _PUNCTUATION
        or not _ENGLISH.issuperset(token.lower())
    )


def _make_processor(
    model: bytes, model_file: files.Path
) -> sentencepiece.SentencePieceProcessor:
    with contextlib.suppress(RuntimeError):
        # SentencePiece would load an empty file, and then log errors.
        if model:
            processor = sentencepiece.SentencePieceProcessor(model_proto=model)
            if processor.encode("a", out_type=str)[-1].endswith(WORD_MARK):
                raise ValueError(
                    f"{model_file!r} has treat_whitespace_as_suffix, but the "
                    "words of an ALBERT begin with ▁. Train another model."
                )
            return processor
    raise ValueError(
        f"{model_file!r} is not a SentencePiece model (.model), or is damaged. "
        "The name of a WordPiece vocabulary ends in .txt."
    )


def model_class() -> Any:
    """Returns SentencePiece's message of a model."""
    # Apache Beam wants an older protobuf than these messages.
    from sentencepiece import sentencepiece_model_pb2

    # Created on import, so that a type checker does not see it.
    return sentencepiece_model_pb2.ModelProto  # type: ignore[attr-defined]


def extended(model: bytes, tokens: Sequence[str]) -> bytes:
    """Returns a SentencePiece model with more tokens, unused by itself."""
    if not tokens:
        return model
    result = model_class().FromString(model)
    for token in tokens:
        result.pieces.add(piece=token, type=result.SentencePiece.UNUSED)
    return bytes(result.SerializeToString(deterministic=True))


def is_number_comma(piece: str) -> bool:
    """Returns whether a piece ends in a digit and a comma."""
    return piece.endswith(",") and piece[-2:-1].isdigit()
