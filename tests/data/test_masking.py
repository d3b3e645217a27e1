import numpy as np
import pytest
from scipy import stats

from albert_tf.data import masking
from albert_tf.data.pretraining_config import PretrainingDataConfig
from tests.data import records

# [CLS] a a' b [SEP] c' d d' d' [SEP] pad, where ' continues a word.
IS_MASKABLE = np.array([[0, 1, 1, 1, 0, 1, 1, 1, 1, 0, 0]], bool)
IS_WORD_START = np.array([[1, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0]], bool)


def test_tokens_join_the_word_before_them_but_not_across_a_separator():
    bounds, num_left, word = masking.find_words(IS_MASKABLE, IS_WORD_START)

    # Words: a a' | b | c' | d d' d'; 4 stands for no word.
    assert word.tolist() == [[4, 0, 0, 1, 4, 2, 3, 3, 3, 4, 4]]
    assert bounds.tolist() == [[0, 2, 3, 4, 7]]
    assert num_left.tolist() == [[2, 1, 2, 1]]
    marked = np.array([[True, False, False, True]])
    tokens = masking.words_to_tokens(word, marked)
    assert np.nonzero(tokens[0])[0].tolist() == [1, 2, 6, 7, 8]


def make_rows(num_rows=300, size=60):
    """Rows of `[CLS] A [SEP] B [SEP]` of random lengths, and their words."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(9, size + 1, num_rows)[:, None]
    column = np.arange(size)
    middle = lengths // 2
    is_special = (column == 0) | (column == middle) | (column == lengths - 1)
    is_maskable = (column < lengths) & ~is_special
    ids = rng.integers(records.FIRST_ID, records.VOCAB_SIZE, (num_rows, size))
    special = np.where(column < lengths, records.SEP, records.PAD)
    ids = np.where(is_maskable, ids, special)
    ids[:, 0] = records.CLS
    return {
        "input_ids": ids.astype(np.int32),
        "lengths": lengths[:, 0],
        "is_maskable": is_maskable,
        "is_word_start": rng.random((num_rows, size)) < 0.7,
    }


def mask(rows, **changes):
    return masking.mask_rows(
        np.random.default_rng(1),
        config=PretrainingDataConfig(**changes),
        tokenizer=records.TOKENIZER,
        **rows,
    )


def num_to_predict(lengths):
    return masking.num_to_predict(np.array(lengths), PretrainingDataConfig())


@pytest.mark.parametrize("is_reversed", [False, True])
def test_drawn_lengths_follow_their_law(is_reversed):
    lengths = masking.draw_span_lengths(
        np.random.default_rng(0),
        (110_000,),
        PretrainingDataConfig(ngram=3, favor_shorter_ngram=not is_reversed),
    )

    # 1 + 1/2 + 1/3 = 11/6, so p = 6/11, 3/11, 2/11.
    expected = np.array([60_000, 30_000, 20_000])
    expected = expected[::-1] if is_reversed else expected
    counts = np.bincount(lengths)[1:]
    assert stats.chisquare(counts, expected).pvalue > 1e-3


def test_the_number_to_predict_is_rounded_to_even_at_halves():
    # 10 x 0.15 = 1.5 and 30 x 0.15 = 4.5.
    assert num_to_predict([3, 10, 30, 128, 512]).tolist() == [1, 2, 4, 19, 20]


@pytest.mark.parametrize("permute", [False, True])
def test_rows_of_single_tokens_are_masked_to_the_budget_exactly(permute):
    rows = make_rows()
    rows["is_word_start"][:] = True

    masked = mask(rows, do_permutation=permute)

    # Permutation adds as many targets again.
    expected = num_to_predict(rows["lengths"]) * (2 if permute else 1)
    weights = masked["masked_lm_weights"]
    np.testing.assert_array_equal(weights.sum(axis=1), expected)
    assert weights.shape == (300, 40 if permute else 20)
    records.assert_slots_are_filled_in_order(masked)
    np.testing.assert_array_equal(records.restored(masked), rows["input_ids"])
    # No special token is masked, or replaces another but [MASK].
    places = records.places(masked)
    shown = masked["input_ids"][places]
    assert rows["is_maskable"][places].all()
    assert shown.min() == records.MASK
    assert (shown != rows["input_ids"][places]).any()


def test_words_are_masked_whole():
    rows = make_rows()

    is_masked = records.is_masked(mask(rows))

    # A token that continues a word shares the fate of the token before it.
    maskable, starts = rows["is_maskable"], rows["is_word_start"]
    joined = maskable[:, 1:] & maskable[:, :-1] & ~starts[:, 1:]
    assert (is_masked[:, 1:] == is_masked[:, :-1])[joined].all()


def test_masked_tokens_are_replaced_80_10_10():
    masked = mask(make_rows(num_rows=20_000))

    records.assert_replaced_80_10_10(masked, num_allowed=95)


def test_permuted_tokens_change_places_within_their_row():
    ids = np.arange(40, dtype=np.int32).reshape(2, 20)
    moved = np.zeros(ids.shape, bool)
    moved[0, 3:12], moved[1, 5:9] = True, True

    permuted = masking.permute_tokens(np.random.default_rng(0), ids, moved)

    np.testing.assert_array_equal(permuted[~moved], ids[~moved])
    assert (permuted[moved] != ids[moved]).any()
    np.testing.assert_array_equal(np.sort(permuted, axis=1), ids)


def choose_by_loop(spans, order, bounds, budget, taken):
    """What the reference does, for one row."""
    covered, used = taken.copy(), 0
    for word in order:
        size = spans[word]
        while size and used + bounds[word + size] - bounds[word] > budget:
            size -= 1
        if size == 0 or covered[word : word + size].any():
            continue
        covered[word : word + size] = True
        used += bounds[word + size] - bounds[word]
    return covered & ~taken


@pytest.mark.parametrize("ngram", [1, 2, 3, 6])
@pytest.mark.parametrize("taken_share", [0.0, 0.3])
def test_a_batch_gets_what_the_loop_gives_row_by_row(ngram, taken_share):
    rng = np.random.default_rng(ngram)
    for num_words in (1, 2, 9, 40):
        shape = (50, num_words)
        left = num_words - np.arange(num_words)
        spans = np.minimum(rng.integers(1, ngram + 1, shape), left)
        spans[rng.random(shape) < 0.1] = 0
        order = np.argsort(rng.random(shape), axis=1)
        bounds = np.zeros((50, num_words + 1), np.int64)
        np.cumsum(rng.integers(1, 5, shape), axis=1, out=bounds[:, 1:])
        budget = rng.integers(0, 3 * num_words, 50)
        taken = rng.random(shape) < taken_share

        chosen = masking.choose_spans(
            spans, order, bounds, budget=budget, taken=taken
        )

        expected = [
            choose_by_loop(*row)
            for row in zip(spans, order, bounds, budget, taken, strict=True)
        ]
        np.testing.assert_array_equal(chosen, expected)


def test_random_tokens_are_uniform_over_those_allowed():
    allowed = masking.replacement_ids(10, np.array([0, 1, 2, 3, 4, 6]))
    assert allowed.tolist() == [5, 7, 8, 9]
    ids = np.full((2000, 500), records.MASK, np.int32)

    replaced = masking.replace_tokens(
        np.random.default_rng(0),
        ids,
        np.ones(ids.shape, bool),
        mask_id=records.MASK,
        replacement_ids=allowed,
    )

    drawn, counts = np.unique(replaced[replaced != ids], return_counts=True)
    assert drawn.tolist() == allowed.tolist()
    assert stats.chisquare(counts).pvalue > 1e-3
