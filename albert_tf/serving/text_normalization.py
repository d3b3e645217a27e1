"""The normalizations of both vocabularies, as operations of a graph.

TensorFlow's own string operations use ICU, which follows another version of
Unicode than Python does. Everything that depends on Unicode is therefore a
table computed with Python's functions. Two rules depend on neighbouring
characters and are written out: the capital sigma at the end of a word, and
the canonical order of combining marks.

Data flow: UTF-8 strings -> [this file] -> SentencePiece or WordPiece.

Source: `text.normalization`, `text.word_splitting`; the results are equal.
"""

import dataclasses
import functools
import re
import unicodedata
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from albert_tf.serving import ragged
from albert_tf.serving.ragged import PagedTable, ReplacementTable
from albert_tf.text import normalization, word_splitting

SPACE = ord(" ")
_SIGMA, _FINAL_SIGMA, _CAPITAL_SIGMA = "σςΣ"
# Normalization never changes unassigned and private code points, surrogates.
_UNCHANGED_CATEGORIES = frozenset(("Cn", "Co", "Cs"))
# Bits of the table of properties.
_IS_SPACE, _IS_CASED, _IS_IGNORABLE = 1, 2, 4
# Upper limit of the canonical combining classes.
_NUM_ORDERS = 256


@dataclasses.dataclass(frozen=True, kw_only=True)
class NormalizedText:
    """Normalized texts as a ragged batch, and the raw span of each character.

    As in `TracedText`, a span is a range of code points of the row's raw text.
    """

    code_points: tf.Tensor  # int32 [N]
    row_ids: tf.Tensor  # int32 [N]
    raw_starts: tf.Tensor  # int32 [N]
    raw_ends: tf.Tensor  # int32 [N]
    raw_lengths: tf.Tensor  # int32 [R], in code points

    @property
    def row_splits(self) -> tf.Tensor:
        """The row splits of the code points, int32 `[R + 1]`."""
        return ragged.row_splits(self.row_ids, ragged.size(self.raw_lengths))

    def raw_spans(
        self, starts: tf.Tensor, ends: tf.Tensor, row_ids: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Maps spans to spans of the raw text; see `TracedText.raw_spans`.

        Starts and ends, int32 `[M]`, are indices into `code_points`, and never
        decrease; `row_ids` are the rows of the spans.
        """
        is_solid = self.code_points != SPACE
        first = ragged.next_true(is_solid, starts)
        last = ragged.previous_true(is_solid, ends)
        row_splits = self.row_splits
        # A span of spaces alone becomes empty, before the next character.
        is_empty = first > last
        here = tf.where(
            ends == tf.gather(row_splits, row_ids + 1),
            tf.gather(self.raw_lengths, row_ids),
            ragged.gather_or(self.raw_starts, ends, 0),
        )
        raw_starts = ragged.gather_or(self.raw_starts, first, 0)
        # One raw character may become several words. A span of the space
        # between them reaches to the end of that character.
        follows_word = last >= tf.gather(row_splits, row_ids)
        raw_ends = ragged.gather_or(self.raw_ends, tf.maximum(last, 0), 0)
        raw_ends = tf.where(follows_word, raw_ends, 0)
        return (
            tf.where(is_empty, here, raw_starts),
            tf.where(is_empty, tf.maximum(here, raw_ends), raw_ends),
        )


class SentencePieceNormalization:
    """Computes `normalization.normalize` in a graph."""

    def __init__(self, **options: bool) -> None:
        self._do_lower_case = options["do_lower_case"]
        self._table = ReplacementTable(_replacements(_normalize, **options))
        self._properties = PagedTable(_properties())

    def __call__(self, texts: tf.Tensor) -> NormalizedText:
        """Normalizes UTF-8 strings `[R]`."""
        raw, splits = ragged.decode(texts)
        raw_rows = ragged.row_ids(splits)
        row_starts = tf.gather(splits, raw_rows)
        # Keep words, and one space between two words.
        is_solid = (self._properties.lookup(raw) & _IS_SPACE) == 0
        here = tf.range(ragged.size(raw))
        follows_word = ragged.previous_true(is_solid, here) >= row_starts
        precedes_word = ragged.shift_left(is_solid, False)
        precedes_word &= ~ragged.is_last(raw_rows)
        indices = ragged.indices(is_solid | (follows_word & precedes_word))
        rows = tf.gather(raw_rows, indices)
        origins = indices - tf.gather(row_starts, indices)
        code_points, sources = self._table.apply(tf.gather(raw, indices))
        row_ids = tf.gather(rows, sources)
        if self._do_lower_case:
            is_final = _is_final_sigma(code_points, row_ids, self._properties)
            lower = tf.where(is_final, ord(_FINAL_SIGMA), ord(_SIGMA))
            is_sigma = code_points == ord(_CAPITAL_SIGMA)
            code_points = tf.where(is_sigma, lower, code_points)
        return _normalized(code_points, sources, origins, rows, splits)


class WordPieceNormalization:
    """Computes `word_splitting.split_words`, joined by spaces, in a graph."""

    def __init__(self, **options: bool) -> None:
        self._do_lower_case = options["do_lower_case"]
        replacements = _replacements(_split, **options)
        self._keeps_accents = options["keep_accents"]
        self._table = ReplacementTable(replacements)
        properties = _properties().copy()
        vanishing = [c for c, text in replacements.items() if not text]
        properties[vanishing] = _IS_IGNORABLE
        self._properties = PagedTable(properties)
        self._orders = PagedTable(_mark_orders(replacements))

    def __call__(self, texts: tf.Tensor) -> NormalizedText:
        """Normalizes UTF-8 strings `[R]`."""
        raw, splits = ragged.decode(texts)
        raw_rows = ragged.row_ids(splits)
        origins = tf.range(ragged.size(raw)) - tf.gather(splits, raw_rows)
        if self._do_lower_case:
            is_final = _is_final_sigma(raw, raw_rows, self._properties)
            raw = tf.where(is_final, ord(_FINAL_SIGMA), raw)
        code_points, sources = self._table.apply(raw)
        row_ids = tf.gather(raw_rows, sources)
        if not self._keeps_accents:
            code_points = self._reorder_marks(code_points, row_ids)
        return _normalized(code_points, sources, origins, raw_rows, splits)

    def _reorder_marks(
        self, code_points: tf.Tensor, row_ids: tf.Tensor
    ) -> tf.Tensor:
        """Sorts each run of combining marks by class, in a stable way.

        Only spacing marks are left here; the others have been dropped.
        """
        orders = self._orders.lookup(code_points)

        def reorder() -> tf.Tensor:
            run = tf.cumsum(tf.cast(orders == 0, tf.int64))
            run += tf.cast(row_ids, tf.int64)
            key = run * _NUM_ORDERS + tf.cast(orders, tf.int64)
            return tf.gather(code_points, tf.argsort(key, stable=True))

        return tf.cond(tf.reduce_any(orders > 0), reorder, lambda: code_points)


def _is_final_sigma(
    code_points: tf.Tensor, row_ids: tf.Tensor, properties: PagedTable
) -> tf.Tensor:
    """Finds capital sigmas that end a word, bool `[N]`.

    A cased letter precedes such a sigma, and no cased letter follows it.
    Case-ignorable characters between them do not count.
    """
    is_sigma = code_points == ord(_CAPITAL_SIGMA)

    def find() -> tf.Tensor:
        bits = properties.lookup(code_points)
        kinds = tf.where(
            is_sigma, _IS_CASED, bits & (_IS_CASED | _IS_IGNORABLE)
        )
        visible = ragged.indices(kinds < _IS_IGNORABLE)
        rows = tf.gather(row_ids, visible)
        is_cased = tf.gather(kinds, visible) == _IS_CASED
        before = ragged.shift_right(is_cased, False)
        before &= ~ragged.is_first(rows)
        after = ragged.shift_left(is_cased, False)
        after &= ~ragged.is_last(rows)
        ends_word = tf.cast(before & ~after, tf.int32)
        is_final = tf.scatter_nd(
            visible[:, None], ends_word, tf.shape(code_points)
        )
        return is_sigma & (is_final > 0)

    return tf.cond(tf.reduce_any(is_sigma), find, lambda: is_sigma)


def _normalized(
    code_points: tf.Tensor,
    sources: tf.Tensor,
    origins: tf.Tensor,
    origin_rows: tf.Tensor,
    raw_splits: tf.Tensor,
) -> NormalizedText:
    """Returns new code points, `[N]`, with the raw spans that they come from.

    A raw character that vanishes belongs to the character before it, unless the
    latter is a space. `sources` `[N]` are indices into `origins`, which are
    positions in the raw text.
    """
    row_ids = tf.gather(origin_rows, sources)
    ends = tf.gather(origins, sources) + 1
    splits = ragged.row_splits(sources, ragged.size(origins))
    vanished = ragged.indices(splits[1:] == splits[:-1])
    before = tf.gather(splits, vanished) - 1
    vanished = tf.boolean_mask(vanished, before >= 0)
    before = tf.boolean_mask(before, before >= 0)
    belongs = tf.gather(origin_rows, vanished) == tf.gather(row_ids, before)
    belongs &= tf.gather(code_points, before) != SPACE
    vanished = tf.boolean_mask(vanished, belongs)
    before = tf.boolean_mask(before, belongs)
    return NormalizedText(
        code_points=code_points,
        row_ids=row_ids,
        raw_starts=tf.gather(origins, sources),
        raw_ends=tf.tensor_scatter_nd_max(
            ends, before[:, None], tf.gather(origins, vanished) + 1
        ),
        raw_lengths=raw_splits[1:] - raw_splits[:-1],
    )


@functools.cache
def may_change() -> tuple[int, ...]:
    """Returns the code points that may change or have a property."""
    # Even an unassigned Chinese code point becomes a word of its own.
    is_chinese = re.compile(f"[{word_splitting.CHINESE}]").match
    return tuple(
        code_point
        for code_point in range(ragged.NUM_CODE_POINTS)
        if unicodedata.category(chr(code_point)) not in _UNCHANGED_CATEGORIES
        or is_chinese(chr(code_point))
    )


@functools.cache
def _properties() -> np.ndarray:
    """Returns the table of properties.

    How Python lower-cases a capital sigma after a character shows whether the
    character is cased or case-ignorable.
    """
    properties = np.zeros(ragged.NUM_CODE_POINTS, np.uint8)
    for code_point in may_change():
        character = chr(code_point)
        if character.isspace():
            properties[code_point] = _IS_SPACE
        elif (character + _CAPITAL_SIGMA).lower().endswith(_FINAL_SIGMA):
            properties[code_point] = _IS_CASED
        elif f"a{character}{_CAPITAL_SIGMA}".lower().endswith(_FINAL_SIGMA):
            properties[code_point] = _IS_IGNORABLE
    return properties


def is_space(code_points: tf.Tensor) -> tf.Tensor:
    """Returns whether each code point is white space to Python, bool `[N]`."""
    return PagedTable(_properties()).lookup(code_points) & _IS_SPACE > 0


@functools.cache
def _replacements(
    rule: Callable[..., str], **options: bool
) -> Mapping[int, str]:
    """Applies a rule to each character; returns the results that differ."""
    texts = {c: rule(chr(c), **options) for c in may_change()}
    return {c: text for c, text in texts.items() if text != chr(c)}


def _normalize(character: str, *, do_lower_case: bool, **options: bool) -> str:
    if character.isspace():
        return " "
    text = normalization.normalize(character, do_lower_case=False, **options)
    if do_lower_case:
        # `_is_final_sigma` looks at capital sigmas in their context.
        text = "".join(c if c == _CAPITAL_SIGMA else c.lower() for c in text)
    return text


def _split(character: str, **options: bool) -> str:
    # Letters on both sides make the spaces around it visible.
    words = word_splitting.split_words(f"a{character}a", **options)
    return " ".join(words)[1:-1]


def _mark_orders(replacements: Mapping[int, str]) -> np.ndarray:
    """Returns the combining class of every mark that is not dropped."""
    orders = np.zeros(ragged.NUM_CODE_POINTS, np.uint8)
    unchanged = {chr(c) for c in may_change() if c not in replacements}
    for character in unchanged.union(*replacements.values()):
        orders[ord(character)] = unicodedata.combining(character)
    return orders
