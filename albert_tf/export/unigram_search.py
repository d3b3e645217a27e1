"""The best segmentation of words into the pieces of a unigram model.

A trie finds the pieces that start at each place; a dynamic program finds the
segmentation whose pieces have the best total score. Where no piece lies across
a boundary, every segmentation has a cut there; the parts between such
boundaries are segmented independently of each other, each kind of word once.

But the SentencePiece library adds scores in float32 from the start of a text,
so that of two almost equally good segmentations, such as `e ee` and `ee e`, the
rounding of all the words before decides. For each word we know how large the
total before it may be for its segmentation to be certain. Where it is larger,
`rounded_search` repeats the library's additions.

TensorFlow Text has an operation for all this, but it contains an older copy of
the library than Python does, which rounds differently. Ours rounds as the copy
that made the training data.

Data flow: `model_normalization` -> [this file] -> `sentencepiece_graph`.

Source: google/sentencepiece, unigram_model.cc, Model::EncodeOptimized; the
score of user-defined pieces and the rounding as found in version 0.2.3.
"""

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.export import ragged, rounded_search
from albert_tf.export.rounded_search import Lattice, Pieces
from albert_tf.export.text_words import Words
from albert_tf.export.trie import Matches, Trie

# What a character without a piece scores, below the worst piece.
_UNKNOWN_PENALTY = np.float32(10)
# What a user-defined piece scores for each byte but one.
_USER_DEFINED_BONUS = 0.1
# Longer parts are left to `rounded_search`.
_LONGEST_PART = 128
# Relative error of a float32 addition, and a tenth more for the second order.
_ROUNDING = 1.1 * 2.0**-24


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


class _Parts(NamedTuple):
    """The S parts between the boundaries that no piece lies across."""

    starts: tf.Tensor  # Int32 [S], the first character.
    sizes: tf.Tensor  # Int32 [S].
    numbers: tf.Tensor  # Int32 [N], the part of each character.


class _LastPieces(NamedTuple):
    """The last piece of the best segmentation up to some of N characters.

    Those of parts of one character, and of very long ones, are left out: their
    last piece is the character.
    """

    rows: tf.Tensor  # Int32 [N], the row of each character; L if left out.
    columns: tf.Tensor  # Int32 [L + 1], K - k for a piece of k characters.
    margins: tf.Tensor  # Float32 [L + 1], what it is ahead of the second best.
    table: tf.Tensor  # Int32 [L + 1, K], the ids of the pieces; see `Lattice`.


class UnigramSearch:
    """Segments words of code points into pieces."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._trie = Trie(vocabulary.ids)
        self._unknown_id = vocabulary.unknown_id
        self._nothing = max(vocabulary.unknown_id, *vocabulary.ids.values()) + 1
        # The last entry is for no piece.
        scores = np.full(self._nothing + 1, -np.inf, np.float32)
        for piece, token_id in vocabulary.ids.items():
            scores[token_id] = vocabulary.scores.get(piece, 0)
        for piece in vocabulary.user_defined:
            num_bytes = len(piece.encode())
            scores[vocabulary.ids[piece]] = np.float32(
                _USER_DEFINED_BONUS * num_bytes - _USER_DEFINED_BONUS
            )
        scores[self._unknown_id] = (
            np.float32(min(vocabulary.scores.values())) - _UNKNOWN_PENALTY
        )
        self._largest = float(np.abs(scores[np.isfinite(scores)]).max())
        self._scores = tf.constant(scores)
        self._width = max(self._trie.depth, 2)

    def __call__(
        self, code_points: tf.Tensor, row_ids: tf.Tensor, words: Words
    ) -> tuple[Pieces, Words]:
        """Finds the best segmentation of each kind of word, a row each.

        Returns the pieces, and the words with the row of each among them: those
        whose segmentation depends on the words before have one of their own.
        """
        lattice = Lattice(
            matches=self._matches(code_points, row_ids),
            row_ids=row_ids,
            scores=self._scores,
            width=self._width,
        )
        parts = _divide(lattice)
        last = self._last_pieces(lattice, parts)
        sizes = self._width - tf.gather(last.columns, last.rows)
        before = tf.range(ragged.size(row_ids)) - sizes
        is_before = before >= tf.gather(parts.starts, parts.numbers)
        is_end = ragged.mark_reachable(
            tf.where(is_before, before, ragged.size(row_ids)),
            ragged.is_last(parts.numbers),
        )
        ends = ragged.indices(is_end)
        row = tf.gather(last.rows, ends)
        place = row * self._width + tf.gather(last.columns, row)
        ids = tf.where(
            row < ragged.size(last.columns) - 1,
            tf.gather(tf.reshape(last.table, [-1]), place),
            tf.gather(lattice.single_ids(), ends),
        )
        pieces = Pieces(
            begins=tf.gather(before, ends) + 1,
            ids=ids,
            row_ids=tf.gather(row_ids, ends),
            sources=tf.range(ragged.size(words.strings)),
        )
        margins = tf.gather(last.margins, row)
        is_certain = self._are_certain(pieces, parts, margins, row_ids, words)
        return rounded_search.search(lattice, pieces, words, is_certain)

    def _matches(self, code_points: tf.Tensor, row_ids: tf.Tensor) -> Matches:
        """Finds all pieces; characters without one count as unknown pieces."""
        found = self._trie.matches(code_points, row_ids)
        is_single = tf.cast(found.sizes == 1, tf.int32)
        is_known = ragged.scatter(
            found.places, is_single, ragged.size(code_points)
        )
        unknown = ragged.indices(is_known == 0)
        ones = tf.ones_like(unknown)
        return Matches(
            places=tf.concat([found.places, unknown], 0),
            sizes=tf.concat([found.sizes, ones], 0),
            numbers=tf.concat([found.numbers, ones * self._unknown_id], 0),
        )

    def _last_pieces(self, lattice: Lattice, parts: _Parts) -> _LastPieces:
        """Runs the dynamic program over all parts together.

        The longest parts come first, so that those that have a character at
        some distance from their start are neighbours. The characters are
        arranged by this distance.
        """
        is_searched = (parts.sizes > 1) & (parts.sizes <= _LONGEST_PART)
        searched = ragged.indices(is_searched)
        number = ragged.size(searched)
        sizes, order = tf.math.top_k(tf.gather(parts.sizes, searched), number)
        counts = tf.math.unsorted_segment_sum(
            tf.ones_like(sizes), sizes, _LONGEST_PART + 1
        )
        # How many parts have a character at each distance.
        counts = number - tf.cumsum(counts)
        offsets = tf.cumsum(counts, exclusive=True)
        ranks = ragged.scatter(
            tf.gather(searched, order),
            tf.range(number),
            ragged.size(parts.sizes),
        )

        num_left = tf.reduce_sum(counts)
        is_searched = tf.gather(is_searched, parts.numbers)  # [N]
        length = ragged.size(is_searched)
        distance = tf.range(length) - tf.gather(parts.starts, parts.numbers)
        rows = tf.where(
            is_searched,
            tf.gather(offsets, tf.minimum(distance, _LONGEST_PART))
            + tf.gather(ranks, parts.numbers),
            num_left,
        )
        ends, piece_sizes, ids = lattice.by_end()
        # The last row collects what is left out.
        table = lattice.table(
            tf.gather(rows, ends), piece_sizes, ids, num_left + 1
        )
        scores = tf.gather(self._scores, table[:-1])
        columns, margins = _best_two(self._sums(scores, counts, offsets))
        return _LastPieces(
            rows=rows,
            columns=tf.concat([columns, [self._width - 1]], 0),
            margins=tf.concat([margins, [np.inf]], 0),
            table=table,
        )

    def _sums(
        self, scores: tf.Tensor, counts: tf.Tensor, offsets: tf.Tensor
    ) -> tf.Tensor:
        """Returns float32 `[N, K]`: best totals that end with each piece.

        `scores` `[N, K]` are those of the pieces that end at each character;
        of the first `counts[0]` characters of parts, then of the second ones.
        """
        num_steps = tf.reduce_sum(tf.cast(counts > 0, tf.int32))
        sums = tf.TensorArray(
            tf.float32,
            size=num_steps,
            infer_shape=False,
            element_shape=[None, self._width],
        )
        is_last = tf.range(self._width) == self._width - 1
        recent = tf.where(is_last, 0.0, -np.inf)
        recent = tf.repeat(recent[None], counts[0], 0)

        def step(
            number: tf.Tensor, recent: tf.Tensor, sums: tf.TensorArray
        ) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray]:
            offset, count = offsets[number], counts[number]
            found = recent[:count] + scores[offset : offset + count]
            best = tf.reduce_max(found, 1, keepdims=True)
            recent = tf.concat([recent[:count][:, 1:], best], 1)
            return number + 1, recent, sums.write(number, found)

        _, _, sums = tf.while_loop(
            lambda number, *_: number < num_steps,
            step,
            (tf.constant(0), recent, sums),
            shape_invariants=(
                tf.TensorShape([]),
                tf.TensorShape([None, self._width]),
                tf.TensorShape(None),
            ),
            parallel_iterations=1,
        )
        return sums.concat()

    def _are_certain(
        self,
        pieces: Pieces,
        parts: _Parts,
        margins: tf.Tensor,
        row_ids: tf.Tensor,
        words: Words,
    ) -> tf.Tensor:
        """Returns bool `[W]`: whether no rounding can change a segmentation.

        `margins` `[M]` say what each piece is ahead of the second best.

        A sum of at most n scores and a total t before, each at most q, has an
        error of at most n u (|t| + n q), with the rounding u of an addition.
        Two sums are compared, both in the library and here, where t is 0.
        """
        number = ragged.size(parts.sizes)
        sizes = tf.cast(parts.sizes, tf.float32)
        part = tf.gather(parts.numbers, pieces.begins)
        margin = tf.math.unsorted_segment_min(margins, part, number)
        limit = margin / (2 * _ROUNDING * sizes) - 2 * self._largest * sizes
        limit = tf.where(parts.sizes > _LONGEST_PART, -1.0, limit)
        rows = tf.gather(row_ids, parts.starts)
        total = tf.math.unsorted_segment_sum(
            tf.abs(tf.gather(self._scores, pieces.ids)),
            part,
            number,
        )
        num_rows = ragged.size(words.strings)
        limit -= ragged.sum_before(total, rows)
        limit = tf.math.unsorted_segment_min(limit, rows, num_rows)
        total = tf.math.unsorted_segment_sum(total, rows, num_rows)
        before = ragged.sum_before(
            tf.gather(total, words.numbers), words.row_ids
        )
        return before <= tf.gather(limit, words.numbers)


def _best_two(sums: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the column of the best of each row, and what it is ahead."""
    # Much faster than `top_k`.
    columns = tf.range(tf.shape(sums)[1])
    best = tf.reduce_max(sums, 1, keepdims=True)
    column = tf.reduce_max(tf.where(sums == best, columns, 0), 1)
    others = tf.where(columns == column[:, None], -np.inf, sums)
    return column, best[:, 0] - tf.reduce_max(others, 1)


def _divide(lattice: Lattice) -> _Parts:
    """Divides rows at all boundaries that no piece lies across."""
    length = ragged.size(lattice.row_ids)
    places, sizes, _ = lattice.matches
    # How many pieces lie across the boundary before each place.
    is_long = tf.cast(sizes > 1, tf.int32)
    opened = tf.math.unsorted_segment_sum(is_long, places + 1, length + 1)
    closed = tf.math.unsorted_segment_sum(is_long, places + sizes, length + 1)
    num_across = tf.cumsum(opened - closed)[:-1]
    is_start = num_across == 0
    starts = ragged.indices(is_start)
    return _Parts(
        starts=starts,
        sizes=ragged.shift_left(starts, length) - starts,
        numbers=tf.cumsum(tf.cast(is_start, tf.int32)) - 1,
    )
