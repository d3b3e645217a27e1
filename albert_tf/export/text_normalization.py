"""The two normalizations of `text.normalization`, as operations of a graph.

TensorFlow's own string operations use ICU, which follows another version of
Unicode than Python does. Everything that depends on Unicode is therefore a
table computed with Python's functions. Two rules depend on neighbouring
characters and are written out: the capital sigma at the end of a word, and
the canonical order of combining marks.

Data flow: UTF-8 strings -> [this file] -> SentencePiece or WordPiece.

Source: `text.normalization`; the results are equal.
"""

import dataclasses
import functools
import itertools
import unicodedata
from collections.abc import Mapping, Set

import numpy as np
import tensorflow as tf

from albert_tf.export import code_point_table, ragged, text_cut
from albert_tf.export.code_point_table import PagedTable, ReplacementTable
from albert_tf.text import normalization

_SPACE = ord(" ")
_SIGMA, _FINAL_SIGMA, _CAPITAL_SIGMA = "σςΣ"
# Unassigned and private code points and surrogates: nothing changes them.
_UNCHANGED_CATEGORIES = frozenset(("Cn", "Co", "Cs"))
# Blocks whose code points become words of their own, assigned or not.
_CHINESE = (
    range(0x3400, 0xA000),
    range(0xF900, 0xFB00),
    range(0x20000, 0x30000),
)
# Bits of the table of properties.
_IS_SPACE, _IS_CASED, _IS_IGNORABLE = 1, 2, 4
# Upper limit of the canonical combining classes.
_NUM_ORDERS = 256


@dataclasses.dataclass(frozen=True, kw_only=True)
class NormalizedText:
    """Normalized texts as a ragged batch, and the raw span of each character.

    Args:
        code_points: Int32 `[N]`.
        row_ids: Int32 `[N]`.
        raw_starts: Int32 `[N]`, as in `TracedText.starts`, counted from the
            start of the row.
        raw_ends: Int32 `[N]`, as in `TracedText.ends`.
        raw_lengths: Int32 `[R]`, number of code points of the raw texts.
    """

    code_points: tf.Tensor
    row_ids: tf.Tensor
    raw_starts: tf.Tensor
    raw_ends: tf.Tensor
    raw_lengths: tf.Tensor

    @property
    def num_rows(self) -> tf.Tensor:
        """R, an int32 scalar."""
        return ragged.size(self.raw_lengths)

    def raw_spans(
        self,
        starts: tf.Tensor,
        ends: tf.Tensor,
        row_ids: tf.Tensor,
        sources: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Maps spans to spans of the raw text; see `TracedText.raw_spans`.

        Starts and ends, int32 `[M]`, are indices into `code_points`; an end is
        one past the last character, and at most the end of the text. The spans
        are in rows; `sources` is the text of each row, None for the same one.
        Returns starts and ends, counted from the start of the raw text.
        """
        texts = row_ids if sources is None else tf.gather(sources, row_ids)
        is_solid = self.code_points != _SPACE
        solid = ragged.indices(is_solid)
        count = ragged.count_before(is_solid)
        first = tf.gather(count, starts)
        last = tf.maximum(tf.gather(count, ends) - 1, 0)
        is_empty = first > tf.gather(count, ends) - 1
        row_ends = tf.gather(
            ragged.row_splits(self.row_ids, self.num_rows), texts + 1
        )
        # A span of nothing but spaces lies where the next character starts.
        here = tf.where(
            ends == row_ends,
            tf.gather(self.raw_lengths, texts),
            ragged.gather_or(self.raw_starts, ends, 0),
        )
        raw_starts = ragged.gather_or(
            self.raw_starts, ragged.gather_or(solid, first, 0), 0
        )
        raw_ends = ragged.gather_or(
            self.raw_ends, ragged.gather_or(solid, last, 0), 0
        )
        return (
            ragged.running_max(tf.where(is_empty, here, raw_starts), row_ids),
            ragged.running_max(tf.where(is_empty, here, raw_ends), row_ids),
        )


class SentencePieceNormalization:
    """Computes `normalization.normalize` in a graph.

    Args:
        do_lower_case: Whether text is lower-cased.

    Attributes:
        alphabet: The characters that normalized text can contain.
    """

    def __init__(self, *, do_lower_case: bool) -> None:
        self._do_lower_case = do_lower_case
        properties, spaces = _properties()
        replacements = dict.fromkeys(spaces, " ")
        replacements |= _replacements_of_sentencepiece(do_lower_case)
        self._replacements = replacements
        self._table = ReplacementTable(replacements)
        self._properties = PagedTable(properties)
        unchanged = {chr(c) for c in _may_change() if c not in replacements}
        # A capital sigma can also become a final one.
        self.alphabet = unchanged.union(_FINAL_SIGMA, *replacements.values())

    def __call__(self, texts: tf.Tensor) -> NormalizedText:
        """Normalizes UTF-8 strings `[R]`."""
        raw, raw_rows, raw_lengths = ragged.decode(texts)
        kept = self._keep_single_spaces(raw, raw_rows)
        rows = tf.gather(raw_rows, kept)
        row_starts = tf.cumsum(raw_lengths, exclusive=True)
        origins = kept - tf.gather(row_starts, rows)
        code_points, sources = self._table.apply(tf.gather(raw, kept))
        row_ids = tf.gather(rows, sources)
        if self._do_lower_case:
            is_final = _is_final_sigma(code_points, row_ids, self._properties)
            lower = tf.where(is_final, ord(_FINAL_SIGMA), ord(_SIGMA))
            is_sigma = code_points == ord(_CAPITAL_SIGMA)
            code_points = tf.where(is_sigma, lower, code_points)
        return NormalizedText(
            code_points=code_points,
            row_ids=row_ids,
            raw_starts=tf.gather(origins, sources),
            raw_ends=_raw_ends(code_points, sources, origins, rows),
            raw_lengths=raw_lengths,
        )

    def becoming(self, characters: Set[str]) -> np.ndarray:
        """Finds the code points that can become any of some characters.

        Returns uint8 `[NUM_CODE_POINTS]`, 1 for these.
        """
        values = np.zeros(code_point_table.NUM_CODE_POINTS, np.uint8)
        values[[ord(c) for c in characters]] = 1
        for code_point, text in self._replacements.items():
            values[code_point] = not characters.isdisjoint(text)
        if self._do_lower_case:
            values[ord(_CAPITAL_SIGMA)] = not characters.isdisjoint(
                (_SIGMA, _FINAL_SIGMA)
            )
        return values

    @property
    def spaces(self) -> np.ndarray:
        """The code points that are white space, increasing."""
        return np.array(sorted(_properties()[1]))

    def _keep_single_spaces(
        self, raw: tf.Tensor, row_ids: tf.Tensor
    ) -> tf.Tensor:
        """Returns the indices of words and of one space between two words."""
        is_space = (self._properties.lookup(raw) & _IS_SPACE) > 0
        solid = ragged.count_before(~is_space)[:-1]
        number = tf.reduce_max(tf.concat([row_ids, [-1]], 0)) + 1
        starts, _ = ragged.rows(row_ids, number)
        # An empty row at the end would start behind the last character.
        before = tf.gather(solid, tf.gather(starts, row_ids))
        is_within = solid > before
        ends_space = ~ragged.shift_left(is_space, True)
        ends_space &= ~ragged.is_last(row_ids)
        return ragged.indices(~is_space | (is_within & ends_space))


class WordPieceNormalization:
    """Computes `normalization.split_words` in a graph.

    Words are separated by spaces.

    Args:
        do_lower_case: Whether text is lower-cased and loses its accents.
    """

    def __init__(self, *, do_lower_case: bool) -> None:
        self._do_lower_case = do_lower_case
        replacements = _replacements_of_wordpiece(do_lower_case)
        self._replacements = replacements
        self._table = ReplacementTable(replacements)
        properties, _ = _properties()
        properties = properties.copy()
        vanishing = [c for c, text in replacements.items() if not text]
        properties[vanishing] = _IS_IGNORABLE
        self._properties = PagedTable(properties)
        self._orders = PagedTable(_mark_orders(replacements))

    def __call__(self, texts: tf.Tensor) -> NormalizedText:
        """Normalizes UTF-8 strings `[R]`."""
        raw, raw_rows, raw_lengths = ragged.decode(texts)
        row_starts = tf.cumsum(raw_lengths, exclusive=True)
        origins = tf.range(ragged.size(raw)) - tf.gather(row_starts, raw_rows)
        if self._do_lower_case:
            is_final = _is_final_sigma(raw, raw_rows, self._properties)
            raw = tf.where(is_final, ord(_FINAL_SIGMA), raw)
        code_points, sources = self._table.apply(raw)
        row_ids = tf.gather(raw_rows, sources)
        if self._do_lower_case:
            code_points = self._reorder_marks(code_points, row_ids)
        return NormalizedText(
            code_points=code_points,
            row_ids=row_ids,
            raw_starts=tf.gather(origins, sources),
            raw_ends=_raw_ends(code_points, sources, origins, raw_rows),
            raw_lengths=raw_lengths,
        )

    @property
    def cut_bits(self) -> np.ndarray:
        """What `TextCut` must know of each code point."""
        bits = np.full(code_point_table.NUM_CODE_POINTS, text_cut.COUNTS)
        for code_point, text in self._replacements.items():
            if not text.strip():
                bits[code_point] = text_cut.SEPARATES if text else 0
            elif text == f" {text.strip()} ":
                bits[code_point] |= text_cut.IS_WORD
        bits[_SPACE] = text_cut.SEPARATES
        # Behind these, a later character may decide what a capital sigma is.
        properties, _ = _properties()
        bits[properties == _IS_IGNORABLE] &= ~text_cut.COUNTS
        return bits.astype(np.uint8)

    def _reorder_marks(
        self, code_points: tf.Tensor, row_ids: tf.Tensor
    ) -> tf.Tensor:
        """Sorts each run of combining marks by class, in a stable way.

        Most marks have been dropped; this concerns the spacing ones.
        """
        orders = self._orders.lookup(code_points)

        def reorder() -> tf.Tensor:
            run = tf.cumsum(tf.cast(orders == 0, tf.int64))
            run += tf.cast(row_ids, tf.int64)
            key = run * _NUM_ORDERS + tf.cast(orders, tf.int64)
            length = ragged.size(code_points)
            place = tf.cast(tf.range(length), tf.int64)
            key = key * tf.cast(length, tf.int64) + place
            key = tf.sort(key) % tf.cast(length, tf.int64)
            return tf.gather(code_points, key)

        return tf.cond(tf.reduce_any(orders > 0), reorder, lambda: code_points)


def _is_final_sigma(
    code_points: tf.Tensor, row_ids: tf.Tensor, properties: PagedTable
) -> tf.Tensor:
    """Returns bool `[N]`: whether each is a capital sigma that ends a word.

    It ends a word if a cased letter precedes it and none follows, ignoring
    the characters in between that Unicode calls case-ignorable.
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
        found = tf.scatter_nd(
            visible[:, None], ends_word, tf.shape(code_points)
        )
        return is_sigma & (found > 0)

    return tf.cond(tf.reduce_any(is_sigma), find, lambda: is_sigma)


def _raw_ends(
    code_points: tf.Tensor,
    sources: tf.Tensor,
    origins: tf.Tensor,
    origin_rows: tf.Tensor,
) -> tf.Tensor:
    """Returns int32 `[N]`, as in `TracedText.ends`.

    A raw character that vanishes belongs to the character before it.
    `sources` `[N]` are indices into `origins` `[O]`, the places in the raw
    text of the characters that the replacement table was applied to.
    """
    ends = tf.gather(origins, sources) + 1
    # How many came from each origin and those before it.
    _, num_here = ragged.rows(sources, ragged.size(origins))
    so_far = tf.cumsum(num_here)
    is_here = num_here > 0
    before = so_far - 1
    last_rows = ragged.gather_or(
        tf.gather(origin_rows, sources),
        tf.where(before < 0, ragged.size(sources), before),
        -1,
    )
    is_kept = ragged.gather_or(code_points, tf.maximum(before, 0), 0) != _SPACE
    vanished = ragged.indices(~is_here & is_kept & (last_rows == origin_rows))
    return tf.tensor_scatter_nd_max(
        ends,
        tf.gather(before, vanished)[:, None],
        tf.gather(origins, vanished) + 1,
    )


@functools.cache
def _may_change() -> tuple[int, ...]:
    """Returns the code points that may change or have a property."""
    chinese = frozenset(itertools.chain(*_CHINESE))
    return tuple(
        code_point
        for code_point in range(code_point_table.NUM_CODE_POINTS)
        if unicodedata.category(chr(code_point)) not in _UNCHANGED_CATEGORIES
        or code_point in chinese
    )


@functools.cache
def _properties() -> tuple[np.ndarray, frozenset[int]]:
    """Returns the table of properties, and the white-space code points.

    Whether a character is cased or case-ignorable is found by asking Python
    how it lower-cases a capital sigma behind it.
    """
    values = np.zeros(code_point_table.NUM_CODE_POINTS, np.uint8)
    spaces = set()
    for code_point in _may_change():
        character = chr(code_point)
        if character.isspace():
            values[code_point] = _IS_SPACE
            spaces.add(code_point)
        elif (character + _CAPITAL_SIGMA).lower().endswith(_FINAL_SIGMA):
            values[code_point] = _IS_CASED
        elif f"a{character}{_CAPITAL_SIGMA}".lower().endswith(_FINAL_SIGMA):
            values[code_point] = _IS_IGNORABLE
    return values, frozenset(spaces)


@functools.cache
def _replacements_of_sentencepiece(do_lower_case: bool) -> Mapping[int, str]:
    """Returns what each code point becomes; capital sigmas are left alone."""
    _, spaces = _properties()
    replacements = {}
    for code_point in _may_change():
        character = chr(code_point)
        if code_point in spaces:
            continue
        text = normalization.normalize(character, do_lower_case=False)
        if do_lower_case:
            text = "".join(
                c if c == _CAPITAL_SIGMA else c.lower() for c in text
            )
        if text != character:
            replacements[code_point] = text
    return replacements


@functools.cache
def _replacements_of_wordpiece(do_lower_case: bool) -> Mapping[int, str]:
    """Returns what each code point becomes."""
    replacements = {}
    for code_point in _may_change():
        # Between letters, so that the spaces around it show.
        words = normalization.split_words(
            f"a{chr(code_point)}a", do_lower_case=do_lower_case
        )
        text = " ".join(words)[1:-1]
        if text != chr(code_point):
            replacements[code_point] = text
    return replacements


def _mark_orders(replacements: Mapping[int, str]) -> np.ndarray:
    """Returns the combining class of every mark that is not dropped."""
    orders = np.zeros(code_point_table.NUM_CODE_POINTS, np.uint8)
    unchanged = {chr(c) for c in _may_change() if c not in replacements}
    for character in unchanged.union(*replacements.values()):
        orders[ord(character)] = unicodedata.combining(character)
    return orders
