"""`SentencePieceTokenizer` as operations of a graph.

Data flow: words -> `text_normalization` -> `model_normalization`
-> `unigram_search` -> [this file] -> ids and their places in the raw text.

Source: google/sentencepiece, sentencepiece_processor.cc (a run of unknown
pieces becomes one); `text.sentencepiece_tokenizer` for the rest.
"""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from sentencepiece import sentencepiece_model_pb2

from albert_tf import files
from albert_tf.export import (
    model_normalization,
    ragged,
    text_cut,
    text_words,
)
from albert_tf.export.code_point_table import PagedTable
from albert_tf.export.exported_text import TextGraph, Tokens
from albert_tf.export.model_normalization import ModelNormalization, ModelText
from albert_tf.export.text_cut import TextCut
from albert_tf.export.text_normalization import (
    NormalizedText,
    SentencePieceNormalization,
)
from albert_tf.export.text_words import Words
from albert_tf.export.unigram_search import UnigramSearch, Vocabulary
from albert_tf.text import sentencepiece_tokenizer
from albert_tf.text.sentencepiece_tokenizer import SentencePieceTokenizer

# The class is created on import, so that a type checker does not see it.
_Model: Any = sentencepiece_model_pb2.ModelProto  # type: ignore[attr-defined]
_WORD_MARK = "▁"
_COMMA = ord(",")
_SPACE = ord(" ")


class SentencePieceGraph(TextGraph):
    """The graph of a SentencePiece model.

    Args:
        model_file: A SentencePiece `.model`, or a `tokenizer.json`.
        do_lower_case: Whether text is lower-cased.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is not a SentencePiece model, lacks a special piece, or
            is of a kind that no ALBERT uses (BPE, byte fallback).
    """

    def __init__(
        self, model_file: files.Path, *, do_lower_case: bool = True
    ) -> None:
        tokenizer = SentencePieceTokenizer(
            model_file, do_lower_case=do_lower_case
        )
        model = _Model.FromString(
            sentencepiece_tokenizer.read_model(model_file)
        )
        _check_kind(model, model_file)
        vocabulary = _vocabulary(model, tokenizer)
        self._normalization = SentencePieceNormalization(
            do_lower_case=do_lower_case
        )
        rules = model_normalization.read_rules(
            model.normalizer_spec.precompiled_charsmap,
            self._normalization.alphabet,
        )
        self._model_normalization = ModelNormalization(
            rules, vocabulary.user_defined
        )
        self._search = UnigramSearch(vocabulary)
        self._inseparable: PagedTable | None = None
        cut = None
        if _is_separable(rules, vocabulary):
            marks = _dropped_at_ends(rules)
            self._inseparable = PagedTable(self._normalization.becoming(marks))
            bits = self._normalization.becoming(_lasting(rules, vocabulary))
            bits *= text_cut.COUNTS
            bits[self._normalization.spaces] = text_cut.SEPARATES
            cut = TextCut(bits, max(map(len, vocabulary.ids)))
        super().__init__(tokenizer, cut)
        self._replacements = _Replacements(tokenizer)

    def _split(self, texts: tf.Tensor) -> Words:
        if self._inseparable is None:
            return text_words.whole(texts)
        return text_words.split(texts, self._inseparable)

    def _tokenize(
        self, words: Words, *, with_offsets: bool
    ) -> tuple[Tokens, Words, tf.Tensor]:
        text = self._normalization(words.strings)
        model_text = self._model_normalization(text)
        pieces, words = self._search(
            model_text.code_points, model_text.row_ids, words
        )
        ids, row_ids = pieces.ids, pieces.row_ids
        # Of a run of unknown pieces, the first one is kept.
        is_unknown = ids == self.special_ids.unk
        follows_unknown = ragged.shift_right(is_unknown, False)
        follows_unknown &= ~ragged.is_first(row_ids)
        kept = ragged.indices(~(follows_unknown & is_unknown))
        ids, row_ids = tf.gather(ids, kept), tf.gather(row_ids, kept)
        new_ids, sources, parts = self._replacements.apply(ids)
        new_rows = tf.gather(row_ids, sources)
        starts = ends = None
        if with_offsets:
            spans = _spans(
                model_text,
                tf.gather(pieces.begins, kept),
                row_ids,
                pieces.sources,
            )
            spans = self._replacements.divide(text, spans, sources, parts)
            starts, ends = text.raw_spans(*spans, new_rows, pieces.sources)
        tokens = Tokens(
            ids=new_ids,
            row_ids=new_rows,
            num_rows=ragged.size(pieces.sources),
            starts=starts,
            ends=ends,
        )
        return tokens, words, tf.gather(text.raw_lengths, pieces.sources)


def _is_separable(rules: Mapping[str, str], vocabulary: Vocabulary) -> bool:
    """Returns whether the words of a text are segmented one by one."""
    return (
        _WORD_MARK in vocabulary.ids
        and not any(_WORD_MARK in piece[1:] for piece in vocabulary.ids)
        and not any(
            chr(_SPACE) in sequence
            for sequence in (*rules, *vocabulary.user_defined)
        )
    )


def _dropped_at_ends(rules: Mapping[str, str]) -> frozenset[str]:
    """Returns the characters that may depend on what is behind a space.

    Marks at the end of a text are dropped; characters that become nothing or
    spaces belong to another piece there.
    """
    dropped = [
        sequence
        for sequence, text in rules.items()
        if not text or not {_WORD_MARK, chr(_SPACE)}.isdisjoint(text)
    ]
    return frozenset(_WORD_MARK).union(*dropped)


def _lasting(
    rules: Mapping[str, str], vocabulary: Vocabulary
) -> frozenset[str]:
    """Returns the characters that always become a part of a known piece."""
    pieces = frozenset(vocabulary.ids) - {_WORD_MARK}
    together = [sequence for sequence in rules if len(sequence) > 1]
    alone = frozenset(c for c in pieces if len(c) == 1)
    changed = frozenset(
        c for c, text in rules.items() if not (text and alone.issuperset(text))
    )
    return alone - changed.union(*together)


def _spans(
    model_text: ModelText,
    begins: tf.Tensor,
    row_ids: tf.Tensor,
    sources: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the span of each piece in the normalized text of all rows."""
    starts = tf.gather(model_text.origins, begins)
    ends = tf.where(
        ragged.is_last(row_ids),
        tf.gather(model_text.ends, tf.gather(sources, row_ids)),
        ragged.shift_left(starts, 0),
    )
    return starts, ends


class _Replacements:
    """Applies `SentencePieceTokenizer.replacements`, from ids to other ids."""

    def __init__(self, tokenizer: SentencePieceTokenizer) -> None:
        old_ids = sorted(tokenizer.replacements)
        new_ids = [tokenizer.replacements[i] for i in old_ids]
        # The last entry is for ids that stay.
        lengths = [*map(len, new_ids), 1]
        self._old_ids = tf.constant(old_ids, tf.int32)
        self._lengths = tf.constant(lengths)
        self._offsets = tf.constant(np.cumsum([0, *lengths])[:-1], tf.int32)
        self._new_ids = tf.constant([*itertools.chain(*new_ids), 0], tf.int32)
        # How many characters of its replacement precede each new id.
        sizes: list[int] = []
        for ids in new_ids:
            pieces = map(tokenizer.id_to_token, ids[:-1])
            own_sizes = [len(p.removeprefix(_WORD_MARK)) for p in pieces]
            sizes += itertools.accumulate([0, *own_sizes])
        self._sizes = tf.constant([*sizes, 0], tf.int32)

    def apply(self, ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Replaces ids.

        Returns three int32 arrays with an entry for each new id: the id, the
        index of the old id that it comes from, and its part, an index into the
        concatenation of all replacements.
        """
        number = tf.searchsorted(self._old_ids, ids)
        stays = ragged.gather_or(self._old_ids, number, -1) != ids
        number = tf.where(stays, ragged.size(self._old_ids), number)
        sources, within = ragged.expand(tf.gather(self._lengths, number))
        parts = tf.gather(tf.gather(self._offsets, number), sources) + within
        new_ids = tf.where(
            tf.gather(stays, sources),
            tf.gather(ids, sources),
            tf.gather(self._new_ids, parts),
        )
        return new_ids, sources, parts

    def divide(
        self,
        text: NormalizedText,
        spans: tuple[tf.Tensor, tf.Tensor],
        sources: tf.Tensor,
        parts: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Divides the span of a number and its comma among the new pieces.

        `spans` are int32 `[M]`, starts and ends of the old pieces in the
        normalized text; `sources` and `parts` come from `apply`. Returns the
        starts and ends of the new pieces.
        """
        starts, ends = (tf.gather(span, sources) for span in spans)
        same_before = sources == ragged.shift_right(sources, -1)
        same_after = sources == ragged.shift_left(sources, -1)
        is_divided = same_before | same_after
        solid = ragged.next_true(text.code_points != _SPACE, starts)
        first = tf.where(is_divided, tf.minimum(solid, ends), starts)
        comma = tf.maximum(
            ragged.previous_true(text.code_points == _COMMA, ends), first
        )
        cut = tf.minimum(first + tf.gather(self._sizes, parts), comma)
        starts = tf.where(same_before, cut, first)
        ends = tf.where(same_after, ragged.shift_left(starts, 0), ends)
        return starts, ends


def _vocabulary(model: Any, tokenizer: SentencePieceTokenizer) -> Vocabulary:
    kinds = _Model.SentencePiece
    ids, scores, user_defined = {}, {}, set()
    for token_id, piece in enumerate(model.pieces):
        if piece.type == kinds.NORMAL:
            scores[piece.piece] = piece.score
        elif piece.type == kinds.USER_DEFINED:
            user_defined.add(piece.piece)
        else:
            continue
        ids[piece.piece] = token_id
    return Vocabulary(
        scores=scores,
        user_defined=frozenset(user_defined),
        ids=ids,
        unknown_id=tokenizer.special_ids.unk,
    )


def _check_kind(model: Any, model_file: files.Path) -> None:
    normalizer, trainer = model.normalizer_spec, model.trainer_spec
    is_met = {
        "model_type must be UNIGRAM": trainer.model_type == trainer.UNIGRAM,
        "byte_fallback must be off": not trainer.byte_fallback,
        "treat_whitespace_as_suffix must be off": (
            not trainer.treat_whitespace_as_suffix
        ),
        "add_dummy_prefix must be on": normalizer.add_dummy_prefix,
        "remove_extra_whitespaces must be on": (
            normalizer.remove_extra_whitespaces
        ),
        "escape_whitespaces must be on": normalizer.escape_whitespaces,
    }
    unmet = [condition for condition, is_true in is_met.items() if not is_true]
    if unmet:
        raise ValueError(
            f"The SentencePiece model {model_file!r} cannot be exported: "
            f"{', '.join(unmet)}. Use a vocabulary like ALBERT's, for "
            "instance one made by build_vocab.py."
        )
