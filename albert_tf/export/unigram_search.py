"""The best segmentation of text into the pieces of a unigram model.

A trie finds the pieces that start at each place; a dynamic program finds the
segmentation whose pieces have the best total score.

TensorFlow Text has an operation for this, but it contains an older copy of
the SentencePiece library than Python does, and the two round sums of scores
differently: of two equally good segmentations, such as `e ee` and `ee e`,
they may choose different ones. The search is therefore written out, with the
sums in the order and the precision of the copy that made the training data.

Data flow: `model_normalization` -> [this file] -> `sentencepiece_graph`.
Floor: export. Core TensorFlow operations only.

Source: google/sentencepiece, unigram_model.cc, Model::EncodeOptimized; the
score of user-defined pieces and the rounding as found in version 0.2.3.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.export import code_point_table, ragged
from albert_tf.export.code_point_table import PagedTable

NOTHING = -1
_ROOT = 0
# What a character without a piece scores, below the worst piece.
_UNKNOWN_PENALTY = np.float32(10)
# What a user-defined piece scores for each byte but one.
_USER_DEFINED_BONUS = 0.1


class Trie:
    """Finds the sequences that start at each place of a text.

    States are numbered breadth first, so that the edges, sorted by the state
    they leave and the character they take, are also sorted by the state they
    reach: the edge at index i reaches state i + 1. A step is then a binary
    search in an array of integer keys.

    Args:
        numbers: The number of each sequence, 0 or more. Sequences are not
            empty.

    Attributes:
        depth: Length of the longest sequence.
    """

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self.depth = max(map(len, numbers), default=0)
        alphabet = sorted(set().union(*numbers))
        class_of = {c: i + 1 for i, c in enumerate(alphabet)}
        self._num_classes = len(alphabet) + 1
        # Every prefix is a state. In this order they are breadth first.
        prefixes = {s[:n] for s in numbers for n in range(1, len(s) + 1)}
        states = ["", *sorted(prefixes, key=lambda p: (len(p), p))]
        self._state_of = {p: state for state, p in enumerate(states)}
        keys = [
            self._state_of[prefix[:-1]] * self._num_classes
            + class_of[prefix[-1]]
            for prefix in states[1:]
        ]
        is_small = len(states) * self._num_classes < 2**31
        self._key_type = tf.int32 if is_small else tf.int64
        # An empty trie has one key, which no state has.
        self._key_steps = _steps(keys or [-(2**30)])
        is_short = max(numbers.values(), default=0) < 2**16 - 1
        found = [numbers.get(prefix, NOTHING) + 1 for prefix in states]
        self._found = tf.constant(
            np.array(found), tf.uint16 if is_short else tf.int32
        )
        classes = np.zeros(code_point_table.NUM_CODE_POINTS, np.uint16)
        for character, number in class_of.items():
            classes[ord(character)] = number
        self._class_table = PagedTable(classes)

    def walk(
        self,
        code_points: tf.Tensor,
        row_ids: tf.Tensor,
        states: tf.Tensor | None = None,
    ) -> list[tf.Tensor]:
        """Finds the sequences that start at every place of ragged rows.

        Sequences lie within a row. `states`, int32 `[N]`, are where to begin,
        as returned by `state`; None for the root.

        Returns:
            `depth` int32 tensors `[N]`. Entry k holds the number of the
            sequence of k + 1 code points that starts at each place, or
            `NOTHING`.
        """
        length = ragged.size(code_points)
        padding = tf.zeros([self.depth], tf.int32)
        classes = self._class_table.lookup(code_points)
        classes = tf.concat([classes, padding], 0)
        rows = tf.concat([row_ids, padding - 1], 0)
        if states is None:
            states = tf.fill([length], _ROOT)
        # The keys of the edges, in increasing order.
        keys = tf.cumsum(tf.cast(self._key_steps, self._key_type))
        numbers = []
        for step in range(self.depth):
            is_inside = rows[step : step + length] == row_ids
            taken = tf.where(is_inside, classes[step : step + length], 0)
            states = self._advance(keys, states, taken)
            number = tf.gather(self._found, tf.maximum(states, 0))
            number = tf.where(states >= 0, tf.cast(number, tf.int32), 0)
            numbers.append(number - 1)
        return numbers

    def longest(
        self,
        code_points: tf.Tensor,
        row_ids: tf.Tensor,
        states: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Finds the longest sequence that starts at every place; see `walk`.

        Returns its size, 0 if there is none, and its number; int32 `[N]`.
        """
        sizes = tf.zeros_like(code_points)
        numbers = tf.fill(tf.shape(code_points), NOTHING)
        for size, found in enumerate(
            self.walk(code_points, row_ids, states), start=1
        ):
            sizes = tf.where(found == NOTHING, sizes, size)
            numbers = tf.where(found == NOTHING, numbers, found)
        return sizes, numbers

    def state(self, prefix: str) -> int:
        """Returns the state that a prefix leads to; -1 if there is none."""
        return self._state_of.get(prefix, NOTHING)

    def _advance(
        self, keys: tf.Tensor, states: tf.Tensor, classes: tf.Tensor
    ) -> tf.Tensor:
        """Follows one edge from each state; -1 where there is none."""
        wanted = tf.cast(states, self._key_type) * self._num_classes
        wanted += tf.cast(classes, self._key_type)
        edges = tf.searchsorted(keys, wanted)
        edges = tf.minimum(edges, ragged.size(keys) - 1)
        is_edge = tf.gather(keys, edges) == wanted
        return tf.where(is_edge, edges + 1, -1)


def _steps(keys: Sequence[int]) -> tf.Tensor:
    """Returns the differences of the keys, which need fewer bytes."""
    steps = np.diff(np.array(keys, np.int64), prepend=0)
    for dtype in (np.uint16, np.int32):
        if np.all(steps == steps.astype(dtype)):
            return tf.constant(steps.astype(dtype))
    return tf.constant(steps)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The pieces that text can be segmented into.

    Args:
        scores: Score of each normal piece.
        user_defined: Pieces that are used wherever they occur.
        ids: Id of each normal or user-defined piece.
        unknown_id: Id of a character without a piece.
    """

    scores: Mapping[str, float]
    user_defined: frozenset[str]
    ids: Mapping[str, int]
    unknown_id: int


class UnigramSearch:
    """Segments rows of code points into pieces."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._trie = Trie(vocabulary.ids)
        self._unknown_id = vocabulary.unknown_id
        self._unknown_score = (
            np.float32(min(vocabulary.scores.values())) - _UNKNOWN_PENALTY
        )
        scores = np.zeros(max(vocabulary.ids.values()) + 1, np.float32)
        for piece, token_id in vocabulary.ids.items():
            scores[token_id] = vocabulary.scores.get(piece, 0)
        for piece in vocabulary.user_defined:
            num_bytes = len(piece.encode())
            scores[vocabulary.ids[piece]] = np.float32(
                _USER_DEFINED_BONUS * num_bytes - _USER_DEFINED_BONUS
            )
        self._scores = tf.constant(scores)

    def __call__(
        self, code_points: tf.Tensor, row_ids: tf.Tensor, num_rows: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Finds the best segmentation of each row of a ragged batch.

        Returns two int32 arrays `[M]`: the index of each piece's first
        character and the id of the piece. Each character without a piece
        counts as a piece of its own.
        """
        ids, scores = self._candidates(code_points, row_ids)
        row_starts = ragged.row_splits(row_ids, num_rows)
        first = tf.gather(row_starts, row_ids)
        totals = self._totals(scores, row_starts, row_ids, first)
        sizes = self._sizes_of_last(scores, totals, first)
        # Follow the pieces back from the end of each row.
        places = tf.range(ragged.size(row_ids))
        before = places - sizes
        before = tf.where(before < first, ragged.size(row_ids), before)
        ends = ragged.indices(
            ragged.mark_reachable(before, ragged.is_last(row_ids))
        )
        sizes = tf.gather(sizes, ends)
        begins = ends - sizes + 1
        return begins, tf.gather_nd(ids, tf.stack([begins, sizes - 1], 1))

    def _candidates(
        self, code_points: tf.Tensor, row_ids: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns ids and scores `[N, K]` of the pieces that start at a place.

        Entry k is the piece of k + 1 characters; its score is -inf if there
        is none.
        """
        found = self._trie.walk(code_points, row_ids)
        is_unknown = found[0] == NOTHING
        ids = tf.stack(
            [tf.where(is_unknown, self._unknown_id, found[0]), *found[1:]], 1
        )
        scores = tf.gather(self._scores, tf.maximum(ids, 0))
        scores = tf.where(ids == NOTHING, -np.inf, scores)
        single = tf.where(is_unknown, self._unknown_score, scores[:, 0])
        return ids, tf.concat([single[:, None], scores[:, 1:]], 1)

    def _totals(
        self,
        scores: tf.Tensor,
        row_starts: tf.Tensor,
        row_ids: tf.Tensor,
        first: tf.Tensor,
    ) -> tf.Tensor:
        """Returns float32 `[N]`: best score of each row up to each character.

        Only this part proceeds character by character: all rows together, and
        K characters in each turn of the loop.
        """
        steps = _by_slot(scores, first)  # [N, K]
        steps = tf.concat([steps, tf.zeros([1, self._trie.depth])], 0)
        sizes = row_starts[1:] - row_starts[:-1]
        depth = self._trie.depth
        num_turns = (tf.reduce_max(tf.concat([sizes, [1]], 0)) - 1) // depth + 1
        turns = tf.TensorArray(
            tf.float32, size=num_turns, element_shape=[None, depth]
        )
        last = ragged.size(row_ids)

        def take_turn(
            turn: tf.Tensor, recent: tf.Tensor, turns: tf.TensorArray
        ) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray]:
            places = row_starts[:-1, None] + turn * depth + tf.range(depth)
            block = tf.gather(steps, tf.minimum(places, last))  # [R, K, K]
            recent, best = _turn(recent, tf.unstack(block, depth, 1))
            return turn + 1, recent, turns.write(turn, best)

        recent = tf.where(tf.range(depth) == 0, 0.0, -np.inf)
        recent = tf.repeat(recent[None], ragged.size(sizes), 0)
        _, _, turns = tf.while_loop(
            lambda turn, *_: turn < num_turns,
            take_turn,
            (tf.constant(0), recent, turns),
            parallel_iterations=1,
        )
        places = tf.range(last) - first
        return tf.gather_nd(
            turns.stack(),  # [turns, R, K]
            tf.stack([places // depth, row_ids, places % depth], 1),
        )

    def _sizes_of_last(
        self, scores: tf.Tensor, totals: tf.Tensor, first: tf.Tensor
    ) -> tf.Tensor:
        """Returns int32 `[N]`: size of the piece that ends at each character.

        The piece is the last one of the best segmentation up to there; of
        equally good ones, the longest.
        """
        sizes = tf.range(1, self._trie.depth + 1)
        ends = tf.range(ragged.size(first))[:, None]
        begins = ends - sizes + 1  # [N, K]
        is_inside = begins >= first[:, None]
        begins = tf.where(is_inside, begins, ends)
        before = tf.gather(
            tf.concat([[0.0], totals], 0),
            tf.where(begins == first[:, None], 0, begins),
        )
        places = tf.stack([begins, tf.zeros_like(begins) + sizes - 1], 2)
        sums = before + tf.gather_nd(scores, places)
        is_best = is_inside & (sums == totals[:, None])
        return tf.reduce_max(tf.where(is_best, sizes, 0), 1)


def _by_slot(scores: tf.Tensor, first: tf.Tensor) -> tf.Tensor:
    """Arranges the scores by the character that pieces end with, for `_turn`.

    The scores, float32 `[N, K]`, come by first character and size of the
    piece. In the result, slot j of character e holds the score of the piece
    that ends with e and starts at a place in the row that is j modulo K.
    `first`, int32 `[N]`, is the index of the first character of the row.
    """
    depth = scores.shape[1]
    slots = tf.range(depth)
    ends = (tf.range(ragged.size(first)) - first)[:, None]
    within = ends % depth
    begins = ends - within + slots
    begins -= tf.where(slots > within, depth, 0)
    is_inside = begins >= 0
    places = tf.stack([first[:, None] + begins, ends - begins], 2)
    found = tf.gather_nd(scores, tf.where(is_inside[:, :, None], places, 0))
    return tf.where(is_inside, found, -np.inf)


def _turn(
    recent: tf.Tensor, steps: list[tf.Tensor]
) -> tuple[tf.Tensor, tf.Tensor]:
    """Advances the dynamic program by K characters.

    `recent` `[R, K]` holds the best scores after each of the last K characters;
    slot n modulo K is after n characters of the row. `steps` are K rows of
    `_by_slot`, `[R, K]`. Returns `recent`, K characters later, and the K best
    scores in order.
    """
    depth = len(steps)
    best = []
    for place, step in enumerate(steps):
        total = tf.reduce_max(recent + step, 1, keepdims=True)
        slot = (place + 1) % depth
        recent = tf.where(np.arange(depth) == slot, total, recent)
        best.append(total)
    return recent, tf.concat(best, 1)
