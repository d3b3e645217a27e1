"""Finds all sequences of a vocabulary that start at each place of a text.

The trie is a double array (Aoe 1989): a state is a slot; the child that a
character leads to lies in the slot that is the base of the state plus the
class of the character, if that slot has the class as its label. No two states
have the same base, so the label tells whose child it is. Bases are counted
from the first one of their level, so that 16 bits suffice.

All places of a text are walked together, one level of the trie at a time; a
walk that finds no child is dropped.

Data flow: vocabulary -> [this file] -> constants of the graph.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.export import code_point_table, ragged
from albert_tf.export.code_point_table import PagedTable

NOTHING = -1
# The slots of the state without characters, and of one without children.
_ROOT, _DEAD = 0, 1


class Matches(NamedTuple):
    """Occurrences of sequences, in no useful order; int32 `[M]` each."""

    places: tf.Tensor  # Index of the first code point.
    sizes: tf.Tensor  # Number of code points.
    numbers: tf.Tensor  # Number of the sequence.

    def longest_sizes(self, length: tf.Tensor) -> tf.Tensor:
        """Returns int32 `[length]`: size of the longest at each place, or 0."""
        longest = tf.math.unsorted_segment_max(self.sizes, self.places, length)
        return tf.maximum(longest, 0)


class Trie:
    """Finds the sequences that start at each place of a text.

    Args:
        numbers: The number of each sequence, 0 or more. Sequences are not
            empty.

    Attributes:
        depth: Length of the longest sequence.
    """

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self.depth = max(map(len, numbers), default=0)
        alphabet = sorted(set().union(*numbers))
        # A character of no sequence has a class that is no label.
        class_of = {c: i + 1 for i, c in enumerate(alphabet)}
        self._other = len(alphabet) + 1
        slots = _Slots(numbers, class_of)
        self._slot_of = slots.slot_of
        num_slots = slots.num_slots
        self._bases = _array(slots.bases, num_slots)
        self._labels = _array(slots.labels, num_slots)
        self._level_bases = slots.level_bases
        found = {slots.slot_of[s]: n + 1 for s, n in numbers.items()}
        self._found = _array(found, num_slots)
        classes = np.full(
            code_point_table.NUM_CODE_POINTS, self._other, np.uint16
        )
        for character, number in class_of.items():
            classes[ord(character)] = number
        self._class_table = PagedTable(classes)

    def matches(
        self,
        code_points: tf.Tensor,
        row_ids: tf.Tensor,
        states: tf.Tensor | None = None,
        *,
        num_taken: int = 0,
    ) -> Matches:
        """Finds the sequences that start at every place of ragged rows.

        Sequences lie within a row. `states`, int32 `[N]`, are where to begin,
        as returned by `state` for prefixes of `num_taken` characters, which
        do not count in the sizes; None for the root.
        """
        length = ragged.size(code_points)
        # Behind each row there is a place whose class is no label.
        lifted = tf.range(length) + row_ids
        num_places = tf.reduce_max(tf.concat([lifted, [-1]], 0)) + 2
        classes = self._class_table.lookup(code_points) - self._other
        classes = ragged.scatter(lifted, classes, num_places) + self._other
        if states is None:
            states = tf.zeros_like(code_points) + _ROOT
        none = tf.zeros([0], tf.int32)
        found, starts, sizes = [none], [none], [none]
        start = lifted
        for size in range(self.depth - num_taken):
            taken = tf.gather(classes, start + size)
            slots = tf.cast(tf.gather(self._bases, states), tf.int32)
            slots += taken + self._level_bases[num_taken + size]
            labels = tf.cast(tf.gather(self._labels, slots), tf.int32)
            alive = ragged.indices(labels == taken)
            start, states = tf.gather(start, alive), tf.gather(slots, alive)
            found.append(tf.cast(tf.gather(self._found, states), tf.int32))
            starts.append(start)
            sizes.append(tf.fill(tf.shape(start), size + 1))
        numbers = tf.concat(found, 0)
        hits = ragged.indices(numbers > 0)
        places = ragged.scatter(lifted, tf.range(length), num_places)
        places = tf.gather(places, tf.gather(tf.concat(starts, 0), hits))
        return Matches(
            places=places,
            sizes=tf.gather(tf.concat(sizes, 0), hits),
            numbers=tf.gather(numbers, hits) - 1,
        )

    def longest(
        self,
        code_points: tf.Tensor,
        row_ids: tf.Tensor,
        states: tf.Tensor | None = None,
        *,
        num_taken: int = 0,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Finds the longest sequence that starts at each place; see `matches`.

        Returns its size, 0 if there is none, and its number; int32 `[N]`.
        """
        matches = self.matches(
            code_points, row_ids, states, num_taken=num_taken
        )
        length = ragged.size(code_points)
        sizes = matches.longest_sizes(length)
        is_longest = matches.sizes == tf.gather(sizes, matches.places)
        kept = ragged.indices(is_longest)
        numbers = ragged.scatter(
            tf.gather(matches.places, kept),
            tf.gather(matches.numbers, kept) - NOTHING,
            length,
        )
        return sizes, numbers + NOTHING

    def state(self, prefix: str) -> int:
        """Returns the state that a prefix leads to."""
        return self._slot_of.get(prefix, _DEAD)


class _Slots:
    """Places the states of a trie in a double array.

    Args:
        sequences: What the trie holds.
        class_of: The class of each character, 1 or more.

    Attributes:
        slot_of: The slot of each prefix.
        labels: The label of each slot that has one.
        bases: The base of each slot that has children, less that of its level.
        level_bases: What to add to the bases of the states of each length.
        num_slots: Number of slots.
    """

    def __init__(
        self, sequences: Iterable[str], class_of: Mapping[str, int]
    ) -> None:
        prefixes = {s[:n] for s in sequences for n in range(1, len(s) + 1)}
        levels: list[dict[str, list[str]]] = [{"": []}]
        for prefix in sorted(prefixes, key=lambda p: (len(p), p)):
            if len(prefix) == len(levels):
                levels.append({})
            levels[len(prefix) - 1].setdefault(prefix[:-1], []).append(prefix)
        self.slot_of = {"": _ROOT}
        self.labels: dict[int, int] = {}
        self.bases: dict[int, int] = {}
        self.level_bases: list[int] = []
        # Bit n of these says whether slot n of the level is free, and whether
        # no state has base n. Numbers below 0 have infinitely many ones.
        free, level_base = -1, _DEAD
        for level in levels:
            # Base 0 is that of the states without children.
            free_bases, largest = -2, 0
            self.level_bases.append(level_base)
            # Those with most children first, while there is most room.
            for parent, children in sorted(
                level.items(), key=lambda item: -len(item[1])
            ):
                labels = [class_of[child[-1]] for child in children]
                fitting = free_bases
                for label in labels:
                    fitting &= free >> label
                base = (fitting & -fitting).bit_length() - 1
                free_bases ^= 1 << base
                largest = max(largest, base)
                self.bases[self.slot_of[parent]] = base
                for label, child in zip(labels, children, strict=True):
                    free ^= 1 << (base + label)
                    slot = level_base + base + label
                    self.labels[slot] = label
                    self.slot_of[child] = slot
            level_base += largest + 1
            free >>= largest + 1
        # Any class may be looked up from any base.
        self.num_slots = level_base + len(class_of) + 2


def _array(values: Mapping[int, int], size: int) -> tf.Tensor:
    """Returns values by index, 0 where there is none."""
    array = np.zeros(size, np.int64)
    array[list(values)] = list(values.values())
    return code_point_table.compact(array)
