"""Tables over all Unicode code points, small enough to store in a graph.

Most of Unicode is uniform: a table is cut into pages of 256 code points, and
equal pages are stored once.

Data flow: Python's Unicode data -> [this file] -> constants of the graph.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.export import ragged

NUM_CODE_POINTS = 0x110000
_PAGE_BITS = 8
_PAGE_SIZE = 2**_PAGE_BITS
# An entry of a `ReplacementTable` is one of two common cases that need no
# stored characters, the code point itself or the code point between two
# spaces, or the number of a replacement, counted from `_FIRST` on.
_SAME, _SPACED, _FIRST = range(3)
# No text has these code points, so `Characters` uses them for rare ones.
_SURROGATES = range(0xD800, 0xE000)
_SPACE = ord(" ")


class PagedTable:
    """Maps every code point to a number; values are `[NUM_CODE_POINTS]`."""

    def __init__(self, values: np.ndarray) -> None:
        number_of: dict[bytes, int] = {}
        numbers = [
            number_of.setdefault(page.tobytes(), len(number_of))
            for page in values.reshape(-1, _PAGE_SIZE)
        ]
        pages = np.frombuffer(b"".join(number_of), values.dtype)
        self._pages = tf.constant(pages)
        self._numbers = tf.constant(np.array(numbers, np.uint16))

    def lookup(self, code_points: tf.Tensor) -> tf.Tensor:
        """Returns int32 `[N]`, the numbers of int32 code points `[N]`."""
        # Shifts are much faster than divisions.
        page = tf.bitwise.right_shift(code_points, _PAGE_BITS)
        page = tf.cast(tf.gather(self._numbers, page), tf.int32)
        place = page * _PAGE_SIZE + (code_points & (_PAGE_SIZE - 1))
        return tf.cast(tf.gather(self._pages, place), tf.int32)


def compact(values: Sequence[int] | np.ndarray) -> tf.Tensor:
    """Returns numbers of 0 or more as a constant of few bytes."""
    array = np.asarray(values, np.int64)
    largest = array.max(initial=0)
    fitting = (t for t in ("uint8", "uint16") if largest <= np.iinfo(t).max)
    return tf.constant(array.astype(next(fitting, "int32")))


class Characters:
    """The code points of a text, in two bytes each."""

    def __init__(self, text: str) -> None:
        large = sorted({c for c in text if ord(c) >= 2**16})
        if len(large) > len(_SURROGATES):
            self._low = tf.constant([*map(ord, text), 0])
        else:
            number_of = dict(zip(large, _SURROGATES, strict=False))
            self._low = compact([*(number_of.get(c, ord(c)) for c in text), 0])
        self._large = tf.constant([*map(ord, large), 0])

    def lookup(self, places: tf.Tensor) -> tf.Tensor:
        """Returns int32 `[N]`, the code points at int32 places `[N]`."""
        low = tf.cast(tf.gather(self._low, places), tf.int32)
        number = low - _SURROGATES.start
        is_large = (number >= 0) & (number < len(_SURROGATES))
        number = tf.minimum(tf.maximum(number, 0), ragged.size(self._large) - 1)
        return tf.where(is_large, tf.gather(self._large, number), low)


class ReplacementTable:
    """Replaces code points by sequences of code points.

    Args:
        replacements: The sequence for each code point that changes.
    """

    def __init__(self, replacements: Mapping[int, str]) -> None:
        texts = [t for c, t in replacements.items() if t != f" {chr(c)} "]
        number_of = {text: n for n, text in enumerate(dict.fromkeys(texts))}
        entries = np.full(
            NUM_CODE_POINTS,
            _SAME,
            np.min_scalar_type(len(number_of) + _FIRST),
        )
        for code_point, text in replacements.items():
            is_spaced = text == f" {chr(code_point)} "
            entries[code_point] = (
                _SPACED if is_spaced else number_of[text] + _FIRST
            )
        self._entries = PagedTable(entries)
        self._lengths = compact([*map(len, number_of), 0])
        self._characters = Characters("".join(number_of))

    def apply(self, code_points: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Replaces code points, int32 `[N]`.

        Returns two int32 arrays with an entry for each new code point: the
        code point, and the index of the old one that it comes from.
        """
        entries = self._entries.lookup(code_points)
        stored = tf.cast(self._lengths, tf.int32)
        numbers = tf.maximum(entries - _FIRST, 0)
        lengths = tf.where(
            entries >= _FIRST,
            tf.gather(stored, numbers),
            tf.where(entries == _SPACED, 3, 1),
        )
        sources, within = ragged.expand(lengths)
        entry = tf.gather(entries, sources)
        starts = tf.gather(tf.cumsum(stored, exclusive=True), numbers)
        place = tf.gather(starts, sources)
        place += tf.where(entry >= _FIRST, within, 0)
        is_space = (entry == _SPACED) & (within != 1)
        kept = tf.where(is_space, _SPACE, tf.gather(code_points, sources))
        replaced = tf.where(
            entry >= _FIRST, self._characters.lookup(place), kept
        )
        return replaced, sources
