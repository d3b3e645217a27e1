"""Tables over all Unicode code points, small enough to store in a graph.

Most of Unicode is uniform: a table is cut into pages of 256 code points, and
equal pages are stored once.

Data flow: Python's Unicode data -> [this file] -> constants of the graph.
Floor: export.
"""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from albert_tf.export import ragged

NUM_CODE_POINTS = 0x110000
_PAGE_BITS = 8
_PAGE_SIZE = 2**_PAGE_BITS
# An entry of a `ReplacementTable` is `offset * _MAX_LENGTH + length` of the
# replacement, or one of two common cases that need no stored characters: the
# code point itself, or the code point between two spaces.
_MAX_LENGTH = 32
_SAME = -1
_SPACED = -2
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


class ReplacementTable:
    """Replaces code points by sequences of code points.

    Args:
        replacements: The sequence for each code point that changes.

    Raises:
        ValueError: A sequence is too long for the table.
    """

    def __init__(self, replacements: Mapping[int, str]) -> None:
        entries = np.full(NUM_CODE_POINTS, _SAME, np.int32)
        offsets: dict[str, int] = {}
        num_characters = 0
        for code_point, text in replacements.items():
            if text == f" {chr(code_point)} ":
                entries[code_point] = _SPACED
                continue
            if len(text) >= _MAX_LENGTH:
                raise ValueError(
                    "A replacement must have fewer than "
                    f"{_MAX_LENGTH} characters. Received: {len(text)} "
                    f"characters for U+{code_point:04X}."
                )
            if text not in offsets:
                offsets[text] = num_characters
                num_characters += len(text)
            entries[code_point] = offsets[text] * _MAX_LENGTH + len(text)
        self._entries = PagedTable(entries)
        self._characters = tf.constant([*map(ord, "".join(offsets)), 0])

    def apply(self, code_points: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Replaces code points, int32 `[N]`.

        Returns two int32 arrays with an entry for each new code point: the
        code point, and the index of the old one that it comes from.
        """
        entries = self._entries.lookup(code_points)
        lengths = tf.where(
            entries >= 0,
            entries % _MAX_LENGTH,
            tf.where(entries == _SPACED, 3, 1),
        )
        sources, within = ragged.expand(lengths)
        entry = tf.gather(entries, sources)
        place = tf.maximum(entry, 0) // _MAX_LENGTH
        place += tf.where(entry >= 0, within, 0)
        is_space = (entry == _SPACED) & (within != 1)
        kept = tf.where(is_space, _SPACE, tf.gather(code_points, sources))
        replaced = tf.where(
            entry >= 0, tf.gather(self._characters, place), kept
        )
        return replaced, sources
