"""Which of many sequences begin at each place of a text: a trie as arrays.

States are numbered breadth first, so that the edges, sorted by the state that
they leave and the character that they take, are sorted by the state that they
reach too: the edge at index i reaches state i + 1. A step is then a binary
search.

Floor: export.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.export import code_point_table, flat_rows
from albert_tf.export.code_point_table import PagedTable

NOTHING = -1
_ROOT = 0


class Trie:
    """Finds sequences of code points and the numbers that go with them.

    Args:
        numbers: The number of each sequence, 0 or more. A sequence is not
            empty.

    Attributes:
        depth: Length of the longest sequence.
    """

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self.depth = max(map(len, numbers), default=0)
        alphabet = sorted(set().union(*numbers))
        self._classes = {c: i + 1 for i, c in enumerate(alphabet)}
        self._num_classes = len(alphabet) + 1
        keys, found = _flatten(_children(numbers), self._classes, numbers)
        is_small = (len(keys) + 1) * self._num_classes < 2**31
        self._key_type = tf.int32 if is_small else tf.int64
        # A key that no state has, so that an empty trie is one too.
        self._key_steps = _steps([*keys, -(2**30)][: max(len(keys), 1)])
        is_short = max(numbers.values(), default=0) < 2**16 - 1
        self._found = tf.constant(
            np.array(found) + 1, tf.uint16 if is_short else tf.int32
        )
        classes = np.zeros(code_point_table.NUM_CODE_POINTS, np.uint16)
        for character, number in self._classes.items():
            classes[ord(character)] = number
        self._class_table = PagedTable(classes)

    def walk(
        self,
        code_points: tf.Tensor,
        row_ids: tf.Tensor,
        states: tf.Tensor | None = None,
    ) -> list[tf.Tensor]:
        """Looks for sequences at every place.

        Args:
            code_points: Int32 `[N]`.
            row_ids: Int32 `[N]`. A sequence lies within a row.
            states: Int32 `[N]`, from `state`; None to begin at the root.

        Returns:
            `depth` tensors, int32 `[N]`: the k-th has the number of the
            sequence of k + 1 code points that begins at each place, or
            `NOTHING`.
        """
        length = flat_rows.size(code_points)
        padding = tf.zeros([self.depth], tf.int32)
        classes = self._class_table.lookup(code_points)
        classes = tf.concat([classes, padding], 0)
        rows = tf.concat([row_ids, padding - 1], 0)
        if states is None:
            states = tf.fill([length], _ROOT)
        keys = self._keys()
        numbers = []
        for step in range(self.depth):
            is_inside = rows[step : step + length] == row_ids
            taken = tf.where(is_inside, classes[step : step + length], 0)
            states = self._advance(keys, states, taken)
            number = tf.gather(self._found, tf.maximum(states, 0))
            number = tf.where(states >= 0, tf.cast(number, tf.int32), 0)
            numbers.append(number - 1)
        return numbers

    def state(self, prefix: str) -> int:
        """Returns the state after a prefix, for `walk`; -1 if there is none."""
        state = tf.constant([_ROOT])
        for character in prefix:
            taken = self._classes.get(character, 0)
            state = self._advance(self._keys(), state, tf.constant([taken]))
        return int(state[0])

    def _keys(self) -> tf.Tensor:
        """Returns the keys of the edges, which rise."""
        return tf.cumsum(tf.cast(self._key_steps, self._key_type))

    def _advance(
        self, keys: tf.Tensor, states: tf.Tensor, classes: tf.Tensor
    ) -> tf.Tensor:
        wanted = tf.cast(states, self._key_type) * self._num_classes
        wanted += tf.cast(classes, self._key_type)
        edges = tf.searchsorted(keys, wanted)
        edges = tf.minimum(edges, flat_rows.size(keys) - 1)
        is_edge = tf.gather(keys, edges) == wanted
        return tf.where(is_edge, edges + 1, -1)


def _steps(keys: Sequence[int]) -> tf.Tensor:
    """Returns how far each key is from the one before, in few bytes."""
    steps = np.diff(np.array(keys, np.int64), prepend=0)
    for dtype in (np.uint16, np.int32):
        if np.all(steps == steps.astype(dtype)):
            return tf.constant(steps.astype(dtype))
    return tf.constant(steps)


_Children = list[dict[str, int]]


def _children(numbers: Mapping[str, int]) -> _Children:
    """Returns the edges of each state, in the order they were met."""
    children: _Children = [{}]
    for sequence in numbers:
        state = _ROOT
        for character in sequence:
            following = children[state].get(character)
            if following is None:
                following = children[state][character] = len(children)
                children.append({})
            state = following
    return children


def _flatten(
    children: _Children,
    classes: Mapping[str, int],
    numbers: Mapping[str, int],
) -> tuple[list[int], list[int]]:
    """Numbers the states anew; returns keys of edges and numbers of states."""
    order = [(_ROOT, "")]
    keys: list[int] = []
    for new_state, (state, prefix) in enumerate(order):
        base = new_state * (len(classes) + 1)
        for character in sorted(children[state]):
            keys.append(base + classes[character])
            order.append((children[state][character], prefix + character))
    return keys, [numbers.get(prefix, NOTHING) for _, prefix in order]
