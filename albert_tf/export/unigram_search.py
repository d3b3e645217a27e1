"""The best way to cut text into the pieces of a unigram model, in a graph.

Data flow: normalised code points -> [this file] -> pieces.

TensorFlow Text has an operation for this, but it carries an older copy of the
SentencePiece library than Python has, and the two round sums of scores in
another way: of two cuts that are equally good, such as `e ee` and `ee e`,
they may take different ones. So the search is spelled out, with the sums in
the order and the precision of the copy that made the training data.

Floor: export. Core TensorFlow operations only.

Source: google/sentencepiece, unigram_model.cc, Model::EncodeOptimized; the
score of user-defined pieces and the rounding as found in version 0.2.3.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from albert_tf.export import flat_rows
from albert_tf.export.trie import NOTHING, Trie

# How much worse than the worst piece a character without a piece is.
_UNKNOWN_PENALTY = np.float32(10)
# What a user-defined piece scores for each byte, less one.
_USER_DEFINED_BONUS = 0.1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """Pieces that text can become.

    Args:
        scores: Score of every piece of text.
        user_defined: Pieces that are taken wherever they occur.
        ids: Id of each piece in either.
        unknown_id: Id of a character without a piece.
    """

    scores: Mapping[str, float]
    user_defined: frozenset[str]
    ids: Mapping[str, int]
    unknown_id: int


class UnigramSearch:
    """Cuts rows of code points into pieces.

    Args:
        vocabulary: The pieces.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._trie = Trie(vocabulary.ids)
        self._unknown_id = vocabulary.unknown_id
        self._unknown_score = (
            np.float32(min(vocabulary.scores.values())) - _UNKNOWN_PENALTY
        )
        scores = np.zeros(max(vocabulary.ids.values()) + 1, np.float32)
        for piece, piece_id in vocabulary.ids.items():
            scores[piece_id] = vocabulary.scores.get(piece, 0)
        for piece in vocabulary.user_defined:
            num_bytes = len(piece.encode())
            scores[vocabulary.ids[piece]] = np.float32(
                _USER_DEFINED_BONUS * num_bytes - _USER_DEFINED_BONUS
            )
        self._scores = tf.constant(scores)

    def __call__(
        self, code_points: tf.Tensor, row_ids: tf.Tensor, num_rows: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Finds the pieces.

        Args:
            code_points: Int32 `[N]`.
            row_ids: Int32 `[N]`.
            num_rows: Int32 scalar.

        Returns:
            Int32 `[M]`: the first character of each piece, as an index into
            `code_points`, and the id. Each character without a piece is a
            piece of its own here.
        """
        ids, scores = self._candidates(code_points, row_ids)
        row_starts = flat_rows.starts(row_ids, num_rows)
        first = tf.gather(row_starts, row_ids)
        totals = self._totals(scores, row_starts, row_ids, first)
        sizes = self._sizes_of_last(scores, totals, first)
        # From the end of each row, back piece by piece.
        places = tf.range(flat_rows.size(row_ids))
        before = places - sizes
        before = tf.where(before < first, flat_rows.size(row_ids), before)
        ends = flat_rows.indices(
            flat_rows.mark_chains(before, flat_rows.is_last(row_ids))
        )
        sizes = tf.gather(sizes, ends)
        begins = ends - sizes + 1
        return begins, tf.gather_nd(ids, tf.stack([begins, sizes - 1], 1))

    def _candidates(
        self, code_points: tf.Tensor, row_ids: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns ids and scores `[N, K]` of what begins at each place.

        Entry k is of the piece of k + 1 characters; no piece has -inf.
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
        """Returns float32 `[N]`: the best score of the row up to there.

        The only part that goes character by character. All rows go together,
        K characters in a turn.
        """
        steps = _by_slot(scores, first)  # [N, K]
        steps = tf.concat([steps, tf.zeros([1, self._trie.depth])], 0)
        sizes = row_starts[1:] - row_starts[:-1]
        depth = self._trie.depth
        num_turns = (tf.reduce_max(tf.concat([sizes, [1]], 0)) - 1) // depth + 1
        turns = tf.TensorArray(
            tf.float32, size=num_turns, element_shape=[None, depth]
        )
        last = flat_rows.size(row_ids)

        def take_turn(
            turn: tf.Tensor, recent: tf.Tensor, turns: tf.TensorArray
        ) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray]:
            places = row_starts[:-1, None] + turn * depth + tf.range(depth)
            block = tf.gather(steps, tf.minimum(places, last))  # [R, K, K]
            recent, best = _turn(recent, tf.unstack(block, depth, 1))
            return turn + 1, recent, turns.write(turn, best)

        recent = tf.where(tf.range(depth) == 0, 0.0, -np.inf)
        recent = tf.repeat(recent[None], flat_rows.size(sizes), 0)
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
        """Returns int32 `[N]`: size of the last piece of the best cut there.

        Of equally good ones it is the longest.
        """
        sizes = tf.range(1, self._trie.depth + 1)
        ends = tf.range(flat_rows.size(first))[:, None]
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
    """Sorts the scores by where pieces end, for `_turn`.

    Slot j of place e has the score of the piece that begins j characters, or
    j more than a multiple of K, into the row, and ends with e.

    Args:
        scores: Float32 `[N, K]`, by where pieces begin and their sizes.
        first: Int32 `[N]`, index of the first character of the row.

    Returns:
        Float32 `[N, K]`.
    """
    depth = scores.shape[1]
    slots = tf.range(depth)
    ends = (tf.range(flat_rows.size(first)) - first)[:, None]
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
    """Goes K characters further.

    Args:
        recent: Float32 `[R, K]`, best score at each of the last K borders;
            that after n characters is in slot n modulo K.
        steps: K of float32 `[R, K]`, a row of `_by_slot` for each row.

    Returns:
        `recent`, K characters later; and the best scores in order.
    """
    depth = len(steps)
    best = []
    for place, step in enumerate(steps):
        total = tf.reduce_max(recent + step, 1, keepdims=True)
        slot = (place + 1) % depth
        recent = tf.where(np.arange(depth) == slot, total, recent)
        best.append(total)
    return recent, tf.concat(best, 1)
