"""Words of a batch of rows: which tokens are hidden together.

Data flow: rows of tokens -> [this file] -> words -> spans -> masks.
Floor: data. Pure NumPy, a whole batch at a time.

Source: Lan et al. 2020, section 3.1; google-research/albert,
`create_pretraining_data.create_masked_lm_predictions`.

Masked tokens: which words of a row to hide, and with what.

Data flow: rows of tokens -> [this file] -> masked rows and their targets.
Floor: data. Pure NumPy, a whole batch at a time.

The steps, which `dynamic_masking.py` repeats in the graph:

1. Tokens are grouped into words; a word never crosses [SEP].
2. Every word proposes a span: itself and the n - 1 words after it, n drawn
   from p(n) proportional to 1/n, cut at the end of its segment.
3. Spans are chosen greedily in a random order until the budget is spent; the
   last ones lose words to fit (`greedy_spans.py`).
4. Each chosen token becomes [MASK] (80%), itself (10%) or a random token
   (10%).

Source: Lan et al. 2020, section 3.1 and equation 1 (n-gram lengths);
google-research/albert, `create_pretraining_data.create_masked_lm_predictions`.
"""

import dataclasses

import numpy as np

from albert_tf.data import spans as spans_lib


@dataclasses.dataclass(frozen=True, kw_only=True)
class Words:
    """The words of a batch of rows; W is the most that a row has.

    Args:
        of_token: Int64 `[B, S]`, the word that a token belongs to; W for a
            token that is never masked.
        bounds: Int64 `[B, W + 1]`, tokens in words before word w, so that the
            words from v to below w have `bounds[:, w] - bounds[:, v]` tokens.
        num_left: Int64 `[B, W]`, words from w to the end of its segment,
            itself counted; 0 where the row has no word w.
    """

    of_token: np.ndarray
    bounds: np.ndarray
    num_left: np.ndarray


def find_words(is_maskable: np.ndarray, is_word_start: np.ndarray) -> Words:
    """Groups the maskable tokens of each row into words.

    Args:
        is_maskable: Bool `[B, S]`.
        is_word_start: Bool `[B, S]`; all True makes each token a word.

    Returns:
        The words. Neighbouring maskable tokens make a segment; a word ends
        where its segment ends.
    """
    # Differs: in the reference the first word of B, if cut by truncation,
    # joins the last word of A, and spans reach over the [SEP] between.
    begins_segment = is_maskable.copy()
    begins_segment[:, 1:] &= ~is_maskable[:, :-1]
    begins_word = is_maskable & (is_word_start | begins_segment)
    word = np.cumsum(begins_word, axis=1) - 1
    num_words = int(word.max(initial=-1)) + 1
    of_token = np.where(is_maskable, word, num_words)
    rows = np.arange(len(of_token))[:, None]
    sizes = np.bincount(
        (of_token + rows * (num_words + 1)).ravel(),
        minlength=len(of_token) * (num_words + 1),
    ).reshape(-1, num_words + 1)[:, :num_words]
    bounds = np.zeros_like(sizes, shape=(len(sizes), num_words + 1))
    np.cumsum(sizes, axis=1, out=bounds[:, 1:])
    return Words(
        of_token=of_token,
        bounds=bounds,
        num_left=_words_left(of_token, begins_segment, num_words),
    )


def words_to_tokens(words: Words, marked: np.ndarray) -> np.ndarray:
    """Returns which tokens belong to marked words, bool `[B, S]`."""
    padded = np.zeros((len(marked), marked.shape[1] + 1), bool)
    padded[:, :-1] = marked
    return np.take_along_axis(padded, words.of_token, axis=1)


def _words_left(
    of_token: np.ndarray, begins_segment: np.ndarray, num_words: int
) -> np.ndarray:
    """Returns `Words.num_left`."""
    count = np.where(of_token < num_words, of_token + 1, 0).max(axis=1)
    # Where a segment begins, or the row ends: the borders of the segments.
    borders = np.full((len(of_token), num_words + 1), num_words)
    rows, columns = np.nonzero(begins_segment)
    first_words = of_token[rows, columns]
    borders[rows, first_words] = first_words
    borders[np.arange(len(borders)), count] = count
    next_border = np.minimum.accumulate(borders[:, :0:-1], axis=1)[:, ::-1]
    word = np.arange(num_words)
    return np.where(word < count[:, None], next_border - word, 0)


MASK_PROBABILITY = 0.8
KEEP_PROBABILITY = 0.1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Masking:
    """How to mask.

    Args:
        masked_lm_prob: Share of a row's tokens, [CLS] and [SEP] counted too.
        max_predictions: Most tokens to hide in a row.
        ngram: Longest span, in words.
        favor_shorter_ngram: Whether p(n) is proportional to 1/n; if not, the
            same probabilities in reverse.
        permute: Whether to shuffle as many further tokens among themselves.
        mask_id: What hides a token.
        replacement_ids: Int32; what a random token is drawn from.
    """

    masked_lm_prob: float
    max_predictions: int
    ngram: int
    favor_shorter_ngram: bool
    permute: bool
    mask_id: int
    replacement_ids: np.ndarray

    @property
    def num_slots(self) -> int:
        """P, the prediction slots of a row."""
        return self.max_predictions * (2 if self.permute else 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskedRows:
    """Rows with hidden tokens, and what was hidden.

    Args:
        input_ids: Int32 `[B, S]`, masked.
        positions: Int32 `[B, P]`, ascending; 0 in unused slots.
        ids: Int32 `[B, P]`, the original tokens; 0 in unused slots.
        weights: Float32 `[B, P]`, 1 in used slots.
    """

    input_ids: np.ndarray
    positions: np.ndarray
    ids: np.ndarray
    weights: np.ndarray


def ngram_length_probabilities(
    *, ngram: int, favor_shorter_ngram: bool = True
) -> np.ndarray:
    """Returns p(1), ..., p(ngram), proportional to 1/n or the reverse.

    >>> ngram_length_probabilities(ngram=2).round(3).tolist()
    [0.667, 0.333]
    """
    # Paper: equation 1.
    weights = 1.0 / np.arange(1, ngram + 1)
    probabilities = weights / weights.sum()
    return probabilities if favor_shorter_ngram else probabilities[::-1]


def num_to_predict(
    lengths: np.ndarray, *, masked_lm_prob: float, max_predictions: int
) -> np.ndarray:
    """Returns how many tokens to hide in rows of these lengths.

    Args:
        lengths: Integers, tokens of a row with [CLS] and [SEP].
        masked_lm_prob: Share to hide; 0 hides none.
        max_predictions: Most to hide.

    Returns:
        Int64, of the shape of `lengths`; at least 1 unless the share is 0.
    """
    if masked_lm_prob == 0:
        return np.zeros_like(lengths, np.int64)
    # TF1: Python's round, which takes halves to the even number.
    wanted = np.rint(lengths * masked_lm_prob).astype(np.int64)
    return np.minimum(max_predictions, np.maximum(1, wanted))


def mask_rows(
    rng: np.random.Generator,
    input_ids: np.ndarray,
    *,
    lengths: np.ndarray,
    is_maskable: np.ndarray,
    is_word_start: np.ndarray,
    masking: Masking,
) -> MaskedRows:
    """Hides tokens of a batch of rows.

    Args:
        rng: Drawn from.
        input_ids: Int32 `[B, S]`.
        lengths: Int `[B]`, tokens of each row, [CLS] and [SEP] counted.
        is_maskable: Bool `[B, S]`, False for [CLS], [SEP] and padding.
        is_word_start: Bool `[B, S]`, where a token begins a word. The first
            token of a segment does in any case.
        masking: How to mask.

    Returns:
        The masked rows and their targets.
    """
    words = find_words(is_maskable, is_word_start)
    budget = num_to_predict(
        lengths,
        masked_lm_prob=masking.masked_lm_prob,
        max_predictions=masking.max_predictions,
    )
    hidden_words = choose_words(rng, words, budget=budget, masking=masking)
    hidden = words_to_tokens(words, hidden_words)
    masked_ids = replace(rng, input_ids, hidden, masking=masking)
    if masking.permute:
        moved_words = choose_words(
            rng, words, budget=budget, masking=masking, taken=hidden_words
        )
        moved = words_to_tokens(words, moved_words)
        masked_ids = permute(rng, masked_ids, moved)
        hidden |= moved
    return _to_slots(masked_ids, input_ids, hidden, masking.num_slots)


def choose_words(
    rng: np.random.Generator,
    words: Words,
    *,
    budget: np.ndarray,
    masking: Masking,
    taken: np.ndarray | None = None,
) -> np.ndarray:
    """Chooses words to hide, in spans of random length and random order.

    Args:
        rng: Drawn from.
        words: The words of the rows.
        budget: Int64 `[B]`, most tokens to hide.
        masking: Gives the law of the span lengths.
        taken: Bool `[B, W]`, words that must not be chosen; None for none.

    Returns:
        Bool `[B, W]`, True for chosen words. Together they have at most
        `budget` tokens, and fewer only if no other span fits.
    """
    shape = words.num_left.shape
    spans = np.minimum(draw_lengths(rng, shape, masking), words.num_left)
    order = np.argsort(rng.random(shape, np.float32), axis=1)
    return spans_lib.choose_spans(
        spans, order, words.bounds, budget=budget, taken=taken
    )


def draw_lengths(
    rng: np.random.Generator, shape: tuple[int, ...], masking: Masking
) -> np.ndarray:
    """Draws span lengths in words, 1 to `masking.ngram`; int64."""
    probabilities = ngram_length_probabilities(
        ngram=masking.ngram, favor_shorter_ngram=masking.favor_shorter_ngram
    )
    # The last bound is left out: rounding could put it below 1.
    bounds = np.cumsum(probabilities)[:-1].astype(np.float32)
    uniform = rng.random(shape, np.float32)
    lengths = np.ones(shape, np.int64)
    for bound in bounds:
        lengths += uniform >= bound
    return lengths


def replace(
    rng: np.random.Generator,
    input_ids: np.ndarray,
    hidden: np.ndarray,
    *,
    masking: Masking,
) -> np.ndarray:
    """Returns `input_ids` with the hidden tokens replaced, 80/10/10.

    Args:
        rng: Drawn from.
        input_ids: Int32 `[B, S]`.
        hidden: Bool `[B, S]`.
        masking: Gives the mask token and the random ones.
    """
    original = input_ids[hidden]
    uniform = rng.random(len(original))
    # Differs: the reference draws special tokens, too.
    drawn = rng.integers(0, len(masking.replacement_ids), len(original))
    result = input_ids.copy()
    result[hidden] = np.select(
        [
            uniform < MASK_PROBABILITY,
            uniform < MASK_PROBABILITY + KEEP_PROBABILITY,
        ],
        [masking.mask_id, original],
        masking.replacement_ids[drawn],
    )
    return result


def permute(
    rng: np.random.Generator, input_ids: np.ndarray, moved: np.ndarray
) -> np.ndarray:
    """Returns `input_ids` with the moved tokens of each row shuffled.

    Args:
        rng: Drawn from.
        input_ids: Int32 `[B, S]`.
        moved: Bool `[B, S]`, which tokens change places among themselves.
    """
    rows, columns = np.nonzero(moved)
    shuffled = np.lexsort((rng.random(len(rows)), rows))
    result = input_ids.copy()
    result[rows, columns] = input_ids[rows, columns[shuffled]]
    return result


def _to_slots(
    masked_ids: np.ndarray,
    original_ids: np.ndarray,
    hidden: np.ndarray,
    num_slots: int,
) -> MaskedRows:
    rows, columns = np.nonzero(hidden)
    first = np.cumsum(hidden.sum(axis=1)) - hidden.sum(axis=1)
    slots = np.arange(len(rows)) - first[rows]
    shape = (len(hidden), num_slots)
    positions, ids = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    weights = np.zeros(shape, np.float32)
    positions[rows, slots] = columns
    ids[rows, slots] = original_ids[rows, columns]
    weights[rows, slots] = 1
    return MaskedRows(
        input_ids=masked_ids, positions=positions, ids=ids, weights=weights
    )
