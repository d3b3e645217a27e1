"""Words of a batch of rows: which pieces are hidden together.

Data flow: rows of pieces -> [this file] -> words -> spans -> masks.
Floor: data. Pure NumPy, a whole batch at a time.

Source: Lan et al. 2020, section 3.1; google-research/albert,
`create_pretraining_data.create_masked_lm_predictions`.
"""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True, kw_only=True)
class Words:
    """The words of a batch of rows; W is the most that a row has.

    Args:
        of_piece: Int64 `[B, S]`, the word that a piece belongs to; W for a
            piece that is never masked.
        bounds: Int64 `[B, W + 1]`, pieces in words before word w, so that the
            words from v to below w have `bounds[:, w] - bounds[:, v]` pieces.
        num_left: Int64 `[B, W]`, words from w to the end of its segment,
            itself counted; 0 where the row has no word w.
    """

    of_piece: np.ndarray
    bounds: np.ndarray
    num_left: np.ndarray


def find_words(is_maskable: np.ndarray, is_word_start: np.ndarray) -> Words:
    """Groups the maskable pieces of each row into words.

    Args:
        is_maskable: Bool `[B, S]`.
        is_word_start: Bool `[B, S]`; all True makes each piece a word.

    Returns:
        The words. Neighbouring maskable pieces make a segment; a word ends
        where its segment ends.
    """
    # Differs: in the reference the first word of B, if cut by truncation,
    # joins the last word of A, and spans reach over the [SEP] between.
    begins_segment = is_maskable.copy()
    begins_segment[:, 1:] &= ~is_maskable[:, :-1]
    begins_word = is_maskable & (is_word_start | begins_segment)
    word = np.cumsum(begins_word, axis=1) - 1
    num_words = int(word.max(initial=-1)) + 1
    of_piece = np.where(is_maskable, word, num_words)
    rows = np.arange(len(of_piece))[:, None]
    sizes = np.bincount(
        (of_piece + rows * (num_words + 1)).ravel(),
        minlength=len(of_piece) * (num_words + 1),
    ).reshape(-1, num_words + 1)[:, :num_words]
    bounds = np.zeros_like(sizes, shape=(len(sizes), num_words + 1))
    np.cumsum(sizes, axis=1, out=bounds[:, 1:])
    return Words(
        of_piece=of_piece,
        bounds=bounds,
        num_left=_words_left(of_piece, begins_segment, num_words),
    )


def words_to_pieces(words: Words, marked: np.ndarray) -> np.ndarray:
    """Returns which pieces belong to marked words, bool `[B, S]`."""
    padded = np.zeros((len(marked), marked.shape[1] + 1), bool)
    padded[:, :-1] = marked
    return np.take_along_axis(padded, words.of_piece, axis=1)


def _words_left(
    of_piece: np.ndarray, begins_segment: np.ndarray, num_words: int
) -> np.ndarray:
    """Returns `Words.num_left`."""
    count = np.where(of_piece < num_words, of_piece + 1, 0).max(axis=1)
    # Where a segment begins, or the row ends: the borders of the segments.
    borders = np.full((len(of_piece), num_words + 1), num_words)
    rows, columns = np.nonzero(begins_segment)
    first_words = of_piece[rows, columns]
    borders[rows, first_words] = first_words
    borders[np.arange(len(borders)), count] = count
    next_border = np.minimum.accumulate(borders[:, :0:-1], axis=1)[:, ::-1]
    word = np.arange(num_words)
    return np.where(word < count[:, None], next_border - word, 0)
