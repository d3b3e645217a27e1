"""Repeats the additions of the SentencePiece library where rounding decides.

The library adds scores in float32, from the start of a text. A word whose
segmentation is certain contributes the scores of its pieces, one after the
other; of other words, all segmentations are compared.

Data flow: pieces of each kind of word -> [this file] -> pieces of each word.

Source: google/sentencepiece, unigram_model.cc, Model::EncodeOptimized.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from albert_tf.export import ragged
from albert_tf.export.text_words import Words
from albert_tf.export.trie import Matches


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lattice:
    """All pieces that rows of N characters could be segmented into.

    Args:
        matches: Where the pieces are; at least one of one character at each
            place.
        row_ids: Int32 `[N]`.
        scores: Float32 `[V + 1]`, of each id; the last, of no piece, is -inf.
        width: K, length of the longest piece, or more.
    """

    matches: Matches
    row_ids: tf.Tensor
    scores: tf.Tensor
    width: int

    def by_end(self) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns last character, size and id of each piece, int32 `[M]`."""
        places, sizes, ids = self.matches
        return places + sizes - 1, sizes, ids

    def single_ids(self) -> tf.Tensor:
        """Returns int32 `[N]`: the piece of each character alone."""
        places, sizes, ids = self.matches
        return tf.math.unsorted_segment_sum(
            tf.where(sizes == 1, ids, 0), places, ragged.size(self.row_ids)
        )

    def table(
        self,
        ends: tf.Tensor,
        sizes: tf.Tensor,
        ids: tf.Tensor,
        length: tf.Tensor,
    ) -> tf.Tensor:
        """Returns int32 `[length, K]`: the pieces by their last character.

        Column K - k has the id of the piece of k characters, or V.
        """
        nothing = self.scores.shape[0] - 1
        table = ragged.scatter(
            ends * self.width + self.width - sizes,
            ids - nothing,
            length * self.width,
        )
        return tf.reshape(table + nothing, [-1, self.width])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pieces:
    """The pieces of R rows.

    Args:
        begins: Int32 `[M]`, index of the first character.
        ids: Int32 `[M]`.
        row_ids: Int32 `[M]`, never decreasing.
        sources: Int32 `[R]`, the row of the lattice that each row segments.
    """

    begins: tf.Tensor
    ids: tf.Tensor
    row_ids: tf.Tensor
    sources: tf.Tensor


def search(
    lattice: Lattice, pieces: Pieces, words: Words, is_certain: tf.Tensor
) -> tuple[Pieces, Words]:
    """Segments the words that are not certain, `[W]`, by the library's sums.

    Returns the pieces with a further row for each such word, and the words
    with their new rows.
    """
    is_open = ~is_certain
    num_rows = ragged.size(pieces.sources)
    number = tf.cumsum(tf.cast(is_open, tf.int32)) - 1
    begins, ids, row_ids = tf.cond(
        tf.reduce_any(is_open),
        lambda: _search(lattice, pieces, words, is_open),
        lambda: tuple(tf.zeros([0], tf.int32) for _ in range(3)),
    )
    sources = tf.gather(words.numbers, ragged.indices(is_open))
    return (
        Pieces(
            begins=tf.concat([pieces.begins, begins], 0),
            ids=tf.concat([pieces.ids, ids], 0),
            row_ids=tf.concat([pieces.row_ids, row_ids + num_rows], 0),
            sources=tf.concat([pieces.sources, sources], 0),
        ),
        dataclasses.replace(
            words, numbers=tf.where(is_open, num_rows + number, words.numbers)
        ),
    )


def _search(
    lattice: Lattice, pieces: Pieces, words: Words, is_open: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns begins, ids, and the number of the open word, int32 `[M]`."""
    has_open = tf.math.unsorted_segment_max(
        tf.cast(is_open, tf.int32), words.row_ids, words.num_rows
    )
    kept = ragged.indices(tf.gather(has_open, words.row_ids) > 0)
    is_open = tf.gather(is_open, kept)
    numbers = tf.gather(words.numbers, kept)
    num_kinds = ragged.size(words.strings)
    firsts, sizes = ragged.rows(lattice.row_ids, num_kinds)
    first_pieces, num_pieces = ragged.rows(pieces.row_ids, num_kinds)
    # A step is a character of an open word, or a piece of another one.
    num_steps = tf.where(
        is_open, tf.gather(sizes, numbers), tf.gather(num_pieces, numbers)
    )
    word, within = ragged.expand(num_steps)
    is_character = tf.gather(is_open, word)
    kind = tf.gather(numbers, word)
    character = tf.gather(firsts, kind) + within
    piece = tf.gather(first_pieces, kind) + within
    table = _steps(
        lattice,
        tf.where(is_character, character, 0),
        tf.gather(pieces.ids, tf.where(is_character, 0, piece)),
        is_character,
    )
    scores = tf.gather(lattice.scores, table)
    row_ids = tf.gather(tf.gather(words.row_ids, kept), word)
    last_sizes = _sizes_of_last(scores, row_ids)
    before = tf.range(ragged.size(word)) - last_sizes
    first = tf.gather(tf.cumsum(num_steps, exclusive=True), word)
    ends = ragged.indices(
        ragged.mark_reachable(
            tf.where(before < first, ragged.size(word), before),
            is_character & ragged.is_last(word),
        )
    )
    column = lattice.width - tf.gather(last_sizes, ends)
    open_number = tf.cumsum(tf.cast(is_open, tf.int32)) - 1
    return (
        tf.gather(character, tf.gather(before, ends) + 1),
        tf.gather_nd(table, tf.stack([ends, column], 1)),
        tf.gather(open_number, tf.gather(word, ends)),
    )


def _steps(
    lattice: Lattice,
    characters: tf.Tensor,
    ids: tf.Tensor,
    is_character: tf.Tensor,
) -> tf.Tensor:
    """Returns int32 `[Z, K]`, the pieces that could end with each step."""
    length = ragged.size(lattice.row_ids)
    is_needed = tf.math.unsorted_segment_max(
        tf.cast(is_character, tf.int32), characters, length
    )
    number = ragged.count_before(is_needed > 0)
    ends, sizes, piece_ids = lattice.by_end()
    kept = ragged.indices(tf.gather(is_needed, ends) > 0)
    table = lattice.table(
        tf.gather(number, tf.gather(ends, kept)),
        tf.gather(sizes, kept),
        tf.gather(piece_ids, kept),
        number[-1] + 1,
    )
    line = tf.where(is_character, tf.gather(number, characters), number[-1])
    table = tf.gather(table, line)
    single = tf.where(is_character, table[:, -1], ids)
    return tf.concat([table[:, :-1], single[:, None]], 1)


def _totals(scores: tf.Tensor, row_ids: tf.Tensor) -> tf.Tensor:
    """Returns float32 `[Z]`: best score of each row up to each step.

    Only this part proceeds step by step: all rows together, and K steps in
    each turn of the loop.
    """
    width = scores.shape[1]
    is_first = ragged.is_first(row_ids)
    starts = ragged.indices(is_first)
    row = tf.cumsum(tf.cast(is_first, tf.int32)) - 1
    place = tf.range(ragged.size(row_ids)) - tf.gather(starts, row)
    num_turns = (tf.reduce_max(tf.concat([place, [0]], 0))) // width + 1
    turns = tf.TensorArray(
        tf.float32, size=num_turns, element_shape=[None, width]
    )
    last = ragged.size(row_ids)
    padded = tf.concat([scores, tf.zeros([1, width])], 0)

    def take_turn(
        turn: tf.Tensor, recent: tf.Tensor, turns: tf.TensorArray
    ) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray]:
        places = starts[:, None] + turn * width + tf.range(width)
        block = tf.gather(padded, tf.minimum(places, last))  # [R, K, K]
        for step in tf.unstack(block, width, 1):
            total = tf.reduce_max(recent + step, 1, keepdims=True)
            recent = tf.concat([recent[:, 1:], total], 1)
        # These are now the totals after each of the K steps.
        return turn + 1, recent, turns.write(turn, recent)

    recent = tf.where(tf.range(width) == width - 1, 0.0, -np.inf)
    recent = tf.repeat(recent[None], ragged.size(starts), 0)
    _, _, turns = tf.while_loop(
        lambda turn, *_: turn < num_turns,
        take_turn,
        (tf.constant(0), recent, turns),
        parallel_iterations=1,
    )
    return tf.gather_nd(
        turns.stack(),  # [turns, R, K]
        tf.stack([place // width, row, place % width], 1),
    )


def _sizes_of_last(scores: tf.Tensor, row_ids: tf.Tensor) -> tf.Tensor:
    """Returns int32 `[Z]`: size of the piece that ends with each step.

    The piece is the last one of the best segmentation up to there; of equally
    good ones, the longest. `scores` are float32 `[Z, K]`.
    """
    totals = _totals(scores, row_ids)
    width = scores.shape[1]
    sizes = tf.range(width, 0, -1)
    before = tf.range(ragged.size(row_ids))[:, None] - sizes  # [Z, K]
    # Behind the last total: what comes before the first step of a row.
    nowhere = ragged.size(row_ids)
    before = tf.where(before < 0, nowhere, before)
    is_inside = ragged.gather_or(row_ids, before, -1) == row_ids[:, None]
    before = tf.where(is_inside, before, nowhere)
    sums = ragged.gather_or(totals, before, 0.0) + scores
    is_best = sums == totals[:, None]
    return tf.reduce_max(tf.where(is_best, sizes, 0), 1)
