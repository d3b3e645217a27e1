"""Masks tokens of a batch of rows: the half that builds static records.

Data flow: rows of tokens -> [this file] -> masked rows and their targets.
Pure NumPy, a whole batch at a time. Letters: B rows, S tokens, W words of the
longest row, P targets.

Masking is implemented twice. This file masks when records are built;
`graph_masking.py` masks dynamic records in the TensorFlow graph each time they
are read, because the input pipeline of a TPU pod cannot call Python. Functions
of the same name do the same step, and tests hold both halves to the same
distribution. The steps:

1. `find_words` groups tokens into words; a word never crosses `[SEP]`.
2. `draw_span_lengths`: every word proposes a span, itself and the n - 1 words
   after it, n drawn from p(n) proportional to 1/n, cut at the end of its
   segment.
3. `choose_spans` takes spans in a random order until the budget,
   `num_to_predict`, is spent: a span that exceeds the rest of the budget is
   shortened, word by word, until it fits; it is skipped if it never fits, or if
   one of its words is already taken.
4. `replace_tokens` replaces each chosen token by `[MASK]` (80%), itself (10%)
   or a random token (10%).

Source: Lan et al. 2020, section 3.1 and equation 1 (n-gram lengths);
google-research/albert, `create_pretraining_data.create_masked_lm_predictions`.
"""

from typing import TYPE_CHECKING

import numpy as np

from albert_tf.data.shards import RecordSettings

if TYPE_CHECKING:
    from albert_tf.text.base import Tokenizer

MASK_PROBABILITY = 0.8
KEEP_PROBABILITY = 0.1


def mask_rows(
    rng: np.random.Generator,
    input_ids: np.ndarray,
    *,
    lengths: np.ndarray,
    is_maskable: np.ndarray,
    is_word_start: np.ndarray,
    config: RecordSettings,
    tokenizer: "Tokenizer",
) -> dict[str, np.ndarray]:
    """Masks tokens of a batch of rows.

    Args:
        rng: Source of all draws.
        input_ids: Int32 `[B, S]`.
        lengths: Int `[B]`, tokens of each row, `[CLS]` and `[SEP]` included.
        is_maskable: Bool `[B, S]`, False for `[CLS]`, `[SEP]` and padding.
        is_word_start: Bool `[B, S]`, where a token begins a word, as the first
            one of a segment always does; all True to mask single tokens.
        config: How many tokens to mask, and the lengths of spans.
        tokenizer: Has the mask token and the replacement tokens.

    Returns:
        `input_ids`, masked; and the targets: `masked_lm_positions`, ascending,
        `masked_lm_ids`, the original tokens, both int32 `[B, P]`, and
        `masked_lm_weights` float32 `[B, P]`, 1. All are 0 in unused slots.
    """
    bounds, num_left, word = find_words(is_maskable, is_word_start)
    budget = num_to_predict(lengths, config)
    masked_words = choose_words(
        rng, bounds, num_left, budget=budget, config=config
    )
    masked = words_to_tokens(word, masked_words)
    masked_ids = replace_tokens(
        rng,
        input_ids,
        masked,
        mask_id=tokenizer.special_ids.mask,
        replacement_ids=replacement_ids(
            tokenizer.vocab_size, tokenizer.forbidden_ids
        ),
    )
    if config.do_permutation:
        moved_words = choose_words(
            rng,
            bounds,
            num_left,
            budget=budget,
            config=config,
            taken=masked_words,
        )
        moved = words_to_tokens(word, moved_words)
        masked_ids = permute_tokens(rng, masked_ids, moved)
        masked |= moved
    targets = _list_targets(input_ids, masked, config.num_prediction_slots)
    return {"input_ids": masked_ids, **targets}


def find_words(
    is_maskable: np.ndarray, is_word_start: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Groups the maskable tokens of each row into words.

    Adjacent maskable tokens make a segment; a word ends where its segment
    ends. For arguments, see `mask_rows`. Returns, int64, bounds of words,
    `[B, W + 1]`: words v to w - 1 have `bounds[:, w] - bounds[:, v]` tokens;
    how many words are left from each (included) to the end of its segment,
    `[B, W]`, 0 where the row has no such word; the word of each token,
    `[B, S]`, W for one that is never masked.
    """
    # Differs: in the reference, if truncation cuts the first word of B, its
    # rest joins the last word of A, and spans reach across the [SEP] between.
    begins_segment = is_maskable.copy()
    begins_segment[:, 1:] &= ~is_maskable[:, :-1]
    begins_word = is_maskable & (is_word_start | begins_segment)
    word = np.cumsum(begins_word, axis=1) - 1
    num_words = int(word.max(initial=-1)) + 1
    places = np.nonzero(begins_word)
    in_rows = places[0], word[places]
    tokens = np.cumsum(is_maskable, axis=1)
    bounds = np.repeat(tokens[:, -1:], num_words + 1, axis=1)
    bounds[in_rows] = tokens[places] - 1
    # Words and segments are numbered over all rows here.
    segment = np.cumsum(begins_segment).reshape(word.shape)[places] - 1
    segment_ends = np.cumsum(np.bincount(segment))
    num_left = np.zeros((len(word), num_words), np.int64)
    num_left[in_rows] = segment_ends[segment] - np.arange(len(segment))
    return bounds, num_left, np.where(is_maskable, word, num_words)


def words_to_tokens(word: np.ndarray, marked: np.ndarray) -> np.ndarray:
    """Returns which tokens belong to marked words, bool `[B, S]`."""
    padded = np.pad(marked, ((0, 0), (0, 1)))
    return np.take_along_axis(padded, word, axis=1)


def num_to_predict(lengths: np.ndarray, config: RecordSettings) -> np.ndarray:
    """Returns how many tokens to mask in rows of these lengths, int64."""
    # TF1: Python's round, which rounds halves to the even number.
    wanted = np.rint(lengths * config.masked_lm_prob).astype(np.int64)
    return np.clip(wanted, 1, config.max_predictions_per_seq)


def choose_words(
    rng: np.random.Generator,
    bounds: np.ndarray,
    num_left: np.ndarray,
    *,
    budget: np.ndarray,
    config: RecordSettings,
    taken: np.ndarray | None = None,
) -> np.ndarray:
    """Chooses words, in spans of random length and in random order.

    For `budget`, `taken` and the result, see `choose_spans`; for `bounds` and
    `num_left`, see `find_words`.
    """
    shape = num_left.shape
    lengths = np.minimum(draw_span_lengths(rng, shape, config), num_left)
    order = np.argsort(rng.random(shape, np.float32), axis=1)
    return choose_spans(lengths, order, bounds, budget=budget, taken=taken)


def draw_span_lengths(
    rng: np.random.Generator, shape: tuple[int, ...], config: RecordSettings
) -> np.ndarray:
    """Draws span lengths in words, 1 to `config.ngram`; int64."""
    uniform = rng.random(shape, np.float32)
    lengths = np.ones(shape, np.int64)
    for bound in span_length_bounds(config).astype(np.float32):
        lengths += uniform >= bound
    return lengths


def span_length_bounds(config: RecordSettings) -> np.ndarray:
    """Returns the bounds, float64 `[ngram - 1]`, of the span lengths.

    A uniform draw that reaches k of them gives a span of k + 1 words.
    """
    # Paper: equation 1.
    weights = 1.0 / np.arange(1, config.ngram + 1)
    probabilities = weights / weights.sum()
    if not config.favor_shorter_ngram:
        probabilities = probabilities[::-1]
    # The last bound, 1, is left out: rounding could put it below a draw.
    return np.cumsum(probabilities)[:-1]


def choose_spans(
    spans: np.ndarray,
    order: np.ndarray,
    bounds: np.ndarray,
    *,
    budget: np.ndarray,
    taken: np.ndarray | None = None,
) -> np.ndarray:
    """Chooses spans greedily within a budget; returns words, bool `[B, W]`.

    Word w proposes itself and the `spans - 1` words after it, int64 `[B, W]`,
    or nothing; `order`, int64 `[B, W]`, has the words in the order of their
    turns; for `bounds`, see `find_words`. The result has at most `budget`
    tokens, int64 `[B]`, fewer only if no other span fits, and are not `taken`,
    bool `[B, W]`.
    """
    num_words, longest = spans.shape[1], spans.max(initial=0)
    padding = ((0, 0), (0, longest))  # So that no span leaves the row.
    before = np.zeros_like(spans, bool) if taken is None else taken
    before = np.pad(before, padding)
    after = before.copy()
    ends = np.pad(bounds[:, 1:], padding, mode="edge")
    offsets = np.arange(longest)
    left = budget.copy()
    for turn in order.T:
        rows = np.nonzero(left > 0)[0]
        if not len(rows):
            break
        word, in_rows = turn[rows, None], rows[:, None]
        words = in_rows, word + offsets
        sizes = ends[words] - bounds[in_rows, word]
        fits = (offsets < spans[in_rows, word]) & (sizes <= left[in_rows])
        fits &= ~np.any(after[words] & fits, axis=1, keepdims=True)
        after[words] |= fits
        left[rows] -= np.max(sizes * fits, axis=1, initial=0)
    return np.asarray((after & ~before)[:, :num_words])


def replacement_ids(vocab_size: int, forbidden_ids: np.ndarray) -> np.ndarray:
    """Returns the ids that may replace a masked token at random, int32."""
    # Differs: the reference also draws special and control tokens.
    # A hundred times as fast as `setdiff1d`; small blocks need it each.
    return np.delete(np.arange(vocab_size, dtype=np.int32), forbidden_ids)


def replace_tokens(
    rng: np.random.Generator,
    input_ids: np.ndarray,
    masked: np.ndarray,
    *,
    mask_id: int,
    replacement_ids: np.ndarray,
) -> np.ndarray:
    """Returns `input_ids`, int32 `[B, S]`, with masked ones replaced, 80/10/10.

    `masked` is bool `[B, S]`; random tokens are of `replacement_ids`, int32.
    """
    original = input_ids[masked]
    uniform = rng.random(len(original))
    drawn = rng.integers(0, len(replacement_ids), len(original))
    result = input_ids.copy()
    result[masked] = np.select(
        [
            uniform < MASK_PROBABILITY,
            uniform < MASK_PROBABILITY + KEEP_PROBABILITY,
        ],
        [mask_id, original],
        replacement_ids[drawn],
    )
    return result


def permute_tokens(
    rng: np.random.Generator, input_ids: np.ndarray, moved: np.ndarray
) -> np.ndarray:
    """Returns `input_ids` with the moved tokens, bool `[B, S]`, shuffled."""
    rows, columns = np.nonzero(moved)
    shuffled = np.lexsort((rng.random(len(rows)), rows))
    result = input_ids.copy()
    result[rows, columns] = input_ids[rows, columns[shuffled]]
    return result


def _list_targets(
    original_ids: np.ndarray, masked: np.ndarray, num_slots: int
) -> dict[str, np.ndarray]:
    """Lists the original tokens of the masked places, `num_slots` a row."""
    rows, columns = np.nonzero(masked)
    slots = np.cumsum(masked, axis=1)[masked] - 1
    shape = (len(masked), num_slots)
    positions, ids = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    weights = np.zeros(shape, np.float32)
    positions[rows, slots] = columns
    ids[rows, slots] = original_ids[rows, columns]
    weights[rows, slots] = 1
    return {
        "masked_lm_positions": positions,
        "masked_lm_ids": ids,
        "masked_lm_weights": weights,
    }
