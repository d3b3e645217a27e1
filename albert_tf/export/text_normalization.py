"""The two normalisations of `text.normalization`, as operations of a graph.

Data flow: UTF-8 strings -> [this file] -> SentencePiece or WordPiece.
Floor: export. Core TensorFlow operations only.

The library that TensorFlow's own string operations use (ICU) knows another
version of Unicode than Python does, so everything that depends on Unicode is
a table made by asking Python. Two rules look at neighbours, and are spelled
out: a capital sigma at the end of a word, and the canonical order of marks.

Source: `text.normalization`, whose results these equal.
"""

import dataclasses
import functools
import itertools
import unicodedata
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from albert_tf.export import code_point_table, flat_rows
from albert_tf.export.code_point_table import PagedTable, ReplacementTable
from albert_tf.text import normalization

_SPACE = ord(" ")
_SIGMA, _FINAL_SIGMA, _CAPITAL_SIGMA = "σςΣ"
# Categories of what is unassigned, private, or half of a surrogate pair.
_DULL = frozenset(("Cn", "Co", "Cs"))
# Blocks whose code points become words of their own, assigned or not.
_CHINESE = (
    range(0x3400, 0xA000),
    range(0xF900, 0xFB00),
    range(0x20000, 0x30000),
)
# Bits of the table of properties.
_IS_SPACE, _IS_CASED, _IS_IGNORABLE = 1, 2, 4
_NUM_ORDERS = 256


@dataclasses.dataclass(frozen=True, kw_only=True)
class NormalizedText:
    """Normalised rows, and the raw span of each character.

    Args:
        code_points: Int32 `[N]`.
        row_ids: Int32 `[N]`.
        raw_starts: Int32 `[N]`, as `TracedText.starts`, from the row's start.
        raw_ends: Int32 `[N]`, as `TracedText.ends`.
        raw_sizes: Int32 `[R]`, code points of the raw rows.
    """

    code_points: tf.Tensor
    row_ids: tf.Tensor
    raw_starts: tf.Tensor
    raw_ends: tf.Tensor
    raw_sizes: tf.Tensor

    @property
    def num_rows(self) -> tf.Tensor:
        """R, an int32 scalar."""
        return flat_rows.size(self.raw_sizes)

    def raw_spans(
        self, begins: tf.Tensor, ends: tf.Tensor, row_ids: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Maps spans to spans of the raw text; see `TracedText.raw_spans`.

        Args:
            begins: Int32 `[M]`, indices into `code_points`.
            ends: Int32 `[M]`, one past the last; within the row or its end.
            row_ids: Int32 `[M]`, the rows of the spans.

        Returns:
            Int32 `[M]`, starts and ends, from the start of the raw row.
        """
        is_solid = self.code_points != _SPACE
        solid = tf.concat([flat_rows.indices(is_solid), [0]], 0)
        count = flat_rows.count_before(is_solid)
        first = tf.gather(count, begins)
        last = tf.maximum(tf.gather(count, ends) - 1, 0)
        is_empty = first > tf.gather(count, ends) - 1
        row_ends = tf.gather(
            flat_rows.starts(self.row_ids, self.num_rows), row_ids + 1
        )
        here = tf.where(
            ends == row_ends,
            tf.gather(self.raw_sizes, row_ids),
            _at(self.raw_starts, ends),
        )
        starts = _at(self.raw_starts, tf.gather(solid, first))
        stops = _at(self.raw_ends, tf.gather(solid, last))
        return (
            flat_rows.running_max(tf.where(is_empty, here, starts), row_ids),
            flat_rows.running_max(tf.where(is_empty, here, stops), row_ids),
        )


class SentencePieceNormalization:
    """`normalization.normalize` in a graph.

    Args:
        do_lower_case: Whether letters are made lower case.

    Attributes:
        alphabet: The code points that can come out.
    """

    def __init__(self, *, do_lower_case: bool) -> None:
        self._do_lower_case = do_lower_case
        properties, spaces = _properties()
        replacements = dict.fromkeys(spaces, " ")
        replacements |= _replacements_of_sentencepiece(do_lower_case)
        self._table = ReplacementTable(replacements)
        self._properties = PagedTable(properties)
        unchanged = {chr(c) for c in _interesting() if c not in replacements}
        # A final sigma is what a capital one becomes, too.
        self.alphabet = unchanged.union(_FINAL_SIGMA, *replacements.values())

    def __call__(self, texts: tf.Tensor) -> NormalizedText:
        """Normalises UTF-8 strings `[R]`."""
        raw, raw_rows, sizes = flat_rows.decode(texts)
        kept = self._keep_single_spaces(raw, raw_rows)
        rows = tf.gather(raw_rows, kept)
        origins = kept - tf.gather(_row_starts(sizes), rows)
        code_points, sources = self._table.apply(tf.gather(raw, kept))
        row_ids = tf.gather(rows, sources)
        if self._do_lower_case:
            is_final = self._final_sigmas(code_points, row_ids)
            code_points = _lower_sigmas(code_points, is_final)
        return NormalizedText(
            code_points=code_points,
            row_ids=row_ids,
            raw_starts=tf.gather(origins, sources),
            raw_ends=_raw_ends(code_points, sources, origins, rows),
            raw_sizes=sizes,
        )

    def _keep_single_spaces(
        self, raw: tf.Tensor, row_ids: tf.Tensor
    ) -> tf.Tensor:
        """Returns the indices of words and of one space between two."""
        is_space = (self._properties.lookup(raw) & _IS_SPACE) > 0
        solid = flat_rows.count_before(~is_space)[:-1]
        first = tf.searchsorted(row_ids, row_ids)
        is_within = solid > tf.gather(solid, first)
        ends_space = ~flat_rows.shift_left(is_space, True)
        ends_space &= ~flat_rows.is_last(row_ids)
        return flat_rows.indices(~is_space | (is_within & ends_space))

    def _final_sigmas(
        self, code_points: tf.Tensor, row_ids: tf.Tensor
    ) -> tf.Tensor:
        return final_sigmas(code_points, row_ids, self._properties)


class WordPieceNormalization:
    """`normalization.split_words` in a graph: words are parted by spaces.

    Args:
        do_lower_case: Whether letters are made lower case and lose accents.
    """

    def __init__(self, *, do_lower_case: bool) -> None:
        self._do_lower_case = do_lower_case
        replacements = _replacements_of_wordpiece(do_lower_case)
        self._table = ReplacementTable(replacements)
        properties, _ = _properties()
        properties = properties.copy()
        vanishing = [c for c, text in replacements.items() if not text]
        properties[vanishing] = _IS_IGNORABLE
        self._properties = PagedTable(properties)
        self._orders = PagedTable(_mark_orders(replacements))

    def __call__(self, texts: tf.Tensor) -> NormalizedText:
        """Normalises UTF-8 strings `[R]`."""
        raw, raw_rows, sizes = flat_rows.decode(texts)
        origins = tf.range(flat_rows.size(raw))
        origins -= tf.gather(_row_starts(sizes), raw_rows)
        if self._do_lower_case:
            is_final = final_sigmas(raw, raw_rows, self._properties)
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
            raw_sizes=sizes,
        )

    def _reorder_marks(
        self, code_points: tf.Tensor, row_ids: tf.Tensor
    ) -> tf.Tensor:
        """Sorts runs of marks by their class; marks of a class stay in order.

        Most marks are dropped; here it is about those that take up space.
        """
        orders = self._orders.lookup(code_points)

        def reorder() -> tf.Tensor:
            run = tf.cumsum(tf.cast(orders == 0, tf.int64))
            run += tf.cast(row_ids, tf.int64)
            key = run * _NUM_ORDERS + tf.cast(orders, tf.int64)
            length = flat_rows.size(code_points)
            place = tf.cast(tf.range(length), tf.int64)
            key = key * tf.cast(length, tf.int64) + place
            key = tf.sort(key) % tf.cast(length, tf.int64)
            return tf.gather(code_points, key)

        return tf.cond(tf.reduce_any(orders > 0), reorder, lambda: code_points)


def final_sigmas(
    code_points: tf.Tensor, row_ids: tf.Tensor, properties: PagedTable
) -> tf.Tensor:
    """Returns bool `[N]`: is it a capital sigma that ends a word?

    It does if a cased letter comes before it, and none after it, where
    characters that ignore case are looked through.
    """
    is_sigma = code_points == ord(_CAPITAL_SIGMA)

    def find() -> tf.Tensor:
        bits = properties.lookup(code_points)
        counts = tf.where(
            is_sigma, _IS_CASED, bits & (_IS_CASED | _IS_IGNORABLE)
        )
        visible = flat_rows.indices(counts < _IS_IGNORABLE)
        rows = tf.gather(row_ids, visible)
        is_cased = tf.gather(counts, visible) == _IS_CASED
        before = flat_rows.shift_right(is_cased, False)
        before &= ~flat_rows.is_first(rows)
        after = flat_rows.shift_left(is_cased, False)
        after &= ~flat_rows.is_last(rows)
        ends_word = tf.cast(before & ~after, tf.int32)
        found = tf.scatter_nd(
            visible[:, None], ends_word, tf.shape(code_points)
        )
        return is_sigma & (found > 0)

    return tf.cond(tf.reduce_any(is_sigma), find, lambda: is_sigma)


def _lower_sigmas(code_points: tf.Tensor, is_final: tf.Tensor) -> tf.Tensor:
    lower = tf.where(is_final, ord(_FINAL_SIGMA), ord(_SIGMA))
    return tf.where(code_points == ord(_CAPITAL_SIGMA), lower, code_points)


def _row_starts(sizes: tf.Tensor) -> tf.Tensor:
    return tf.cumsum(sizes, exclusive=True)


def _at(values: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
    """Gathers; an index past the end gives 0."""
    return tf.gather(tf.concat([values, [0]], 0), indices)


def _raw_ends(
    code_points: tf.Tensor,
    sources: tf.Tensor,
    origins: tf.Tensor,
    origin_rows: tf.Tensor,
) -> tf.Tensor:
    """Returns int32 `[N]`, as `TracedText.ends`.

    Args:
        code_points: Int32 `[N]`, the normalised ones.
        sources: Int32 `[N]`, what each comes from, as an index into the next.
        origins: Int32 `[O]`, places in the raw row, of what did not vanish
            before the table was asked.
        origin_rows: Int32 `[O]`.
    """
    ends = tf.gather(origins, sources) + 1
    # How many came from each origin and those before it.
    so_far = tf.searchsorted(
        sources, tf.range(flat_rows.size(origins)), side="right"
    )
    is_here = flat_rows.shift_right(so_far, 0) < so_far
    before = so_far - 1
    last_rows = tf.gather(
        tf.concat([tf.gather(origin_rows, sources), [-1]], 0),
        tf.where(before < 0, flat_rows.size(sources), before),
    )
    is_kept = _at(code_points, tf.maximum(before, 0)) != _SPACE
    vanished = flat_rows.indices(
        ~is_here & is_kept & (last_rows == origin_rows)
    )
    return tf.tensor_scatter_nd_max(
        ends,
        tf.gather(before, vanished)[:, None],
        tf.gather(origins, vanished) + 1,
    )


@functools.cache
def _interesting() -> tuple[int, ...]:
    """Returns the code points that may change, or have a property."""
    chinese = frozenset(itertools.chain(*_CHINESE))
    return tuple(
        code_point
        for code_point in range(code_point_table.NUM_CODE_POINTS)
        if unicodedata.category(chr(code_point)) not in _DULL
        or code_point in chinese
    )


@functools.cache
def _properties() -> tuple[np.ndarray, frozenset[int]]:
    """Returns the table of properties, and the code points of white space."""
    values = np.zeros(code_point_table.NUM_CODE_POINTS, np.uint8)
    spaces = set()
    for code_point in _interesting():
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
    """Returns what changes; a capital sigma is left as it is."""
    _, spaces = _properties()
    replacements = {}
    for code_point in _interesting():
        character = chr(code_point)
        if code_point in spaces:
            continue
        text = normalization.normalize(character, do_lower_case=False)
        # `normalize` has nothing to say on spaces inside a word.
        if do_lower_case:
            text = "".join(
                c if c == _CAPITAL_SIGMA else c.lower() for c in text
            )
        if text != character:
            replacements[code_point] = text
    return replacements


@functools.cache
def _replacements_of_wordpiece(do_lower_case: bool) -> Mapping[int, str]:
    replacements = {}
    for code_point in _interesting():
        # Between letters, so that the spaces around it show.
        words = normalization.split_words(
            f"a{chr(code_point)}a", do_lower_case=do_lower_case
        )
        text = " ".join(words)[1:-1]
        if text != chr(code_point):
            replacements[code_point] = text
    return replacements


def _mark_orders(replacements: Mapping[int, str]) -> np.ndarray:
    """Returns the canonical class of every mark that is not dropped."""
    orders = np.zeros(code_point_table.NUM_CODE_POINTS, np.uint8)
    unchanged = {chr(c) for c in _interesting() if c not in replacements}
    for character in unchanged.union(*replacements.values()):
        orders[ord(character)] = unicodedata.combining(character)
    return orders
