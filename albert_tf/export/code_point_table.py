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
# In a replacement: the code point that is replaced.
_ITSELF = -1


class PagedTable:
    """Maps every code point to a number of 0 or more.

    Args:
        values: Integers `[NUM_CODE_POINTS]`.
    """

    def __init__(self, values: np.ndarray) -> None:
        values = values.astype(np.min_scalar_type(values.max()))
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


class Sequences:
    """Replaces numbers by sequences of integers.

    Args:
        sequences: The sequence for each number, from 0.
    """

    def __init__(self, sequences: Sequence[Sequence[int]]) -> None:
        lengths = [*map(len, sequences)]
        self._lengths = tf.constant(lengths)
        self._starts = tf.constant(np.cumsum([0, *lengths])[:-1], tf.int32)
        self._values = tf.constant([*(n for s in sequences for n in s), 0])

    def apply(
        self, numbers: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Replaces int32 numbers `[N]`.

        Returns three int32 arrays with an entry for each integer of their
        sequences: the integer, the index of the number that it comes from,
        and its place in the concatenation of all sequences.
        """
        sources, within = ragged.expand(tf.gather(self._lengths, numbers))
        starts = tf.gather(self._starts, numbers)
        places = tf.gather(starts, sources) + within
        return tf.gather(self._values, places), sources, places


class ReplacementTable:
    """Replaces code points by sequences of code points.

    Args:
        replacements: The sequence for each code point that changes.
    """

    def __init__(self, replacements: Mapping[int, str]) -> None:
        number_of: dict[tuple[int, ...], int] = {(_ITSELF,): 0}
        entries = np.zeros(NUM_CODE_POINTS, np.int64)
        for code_point, text in replacements.items():
            # Most replacements put a character between spaces.
            sequence = tuple(
                _ITSELF if c == code_point else c for c in map(ord, text)
            )
            entries[code_point] = number_of.setdefault(sequence, len(number_of))
        self._entries = PagedTable(entries)
        self._sequences = Sequences([*number_of])

    def apply(self, code_points: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Replaces code points, int32 `[N]`.

        Returns two int32 arrays with an entry for each new code point: the
        code point, and the index of the old one that it comes from.
        """
        replaced, sources, _ = self._sequences.apply(
            self._entries.lookup(code_points)
        )
        kept = tf.gather(code_points, sources)
        return tf.where(replaced == _ITSELF, kept, replaced), sources
