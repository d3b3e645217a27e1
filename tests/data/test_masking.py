import types

import numpy as np
import pytest
from scipy import stats

from albert_tf.data import masking
from albert_tf.data.pretraining_config import PretrainingDataConfig
from albert_tf.text.special_tokens import SpecialIds

# [CLS] a a' b [SEP] c' d d' d' [SEP] pad, where ' continues a word.
IS_MASKABLE = np.array([[0, 1, 1, 1, 0, 1, 1, 1, 1, 0, 0]], bool)
IS_WORD_START = np.array([[1, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0]], bool)


def test_tokens_join_the_word_before_them_but_not_across_a_separator():
    words = masking.find_words(IS_MASKABLE, IS_WORD_START)

    # Words: a a' | b | c' | d d' d'; 4 stands for no word.
    assert words.of_token.tolist() == [[4, 0, 0, 1, 4, 2, 3, 3, 3, 4, 4]]
    assert words.bounds.tolist() == [[0, 2, 3, 4, 7]]
    assert words.num_left.tolist() == [[2, 1, 2, 1]]
    marked = np.array([[True, False, False, True]])
    tokens = masking.words_to_tokens(words, marked)
    assert np.nonzero(tokens[0])[0].tolist() == [1, 2, 6, 7, 8]


def test_a_row_with_fewer_words_proposes_nothing_beyond_them():
    maskable = np.array([[0, 1, 1, 1, 0], [0, 1, 0, 0, 0]], bool)

    words = masking.find_words(maskable, np.ones_like(maskable))

    assert words.num_left.tolist() == [[3, 2, 1], [1, 0, 0]]
    assert words.bounds.tolist() == [[0, 1, 2, 3], [0, 1, 1, 1]]


CLS, SEP, MASK, FIRST_ID, VOCAB_SIZE = 2, 3, 4, 5, 100


TOKENIZER = types.SimpleNamespace(
    vocab_size=VOCAB_SIZE,
    special_ids=SpecialIds(pad=0, unk=1, cls=CLS, sep=SEP, mask=MASK),
    forbidden_ids=np.arange(FIRST_ID),
)


def rows(rng, num_rows=300, size=60):
    """Rows of `[CLS] A [SEP] B [SEP]` of random lengths, and their masks."""
    lengths = rng.integers(9, size + 1, num_rows)[:, None]
    column = np.arange(size)
    middle = lengths // 2
    is_special = (column == 0) | (column == middle) | (column == lengths - 1)
    is_maskable = (column < lengths) & ~is_special
    ids = rng.integers(FIRST_ID, VOCAB_SIZE, (num_rows, size))
    ids = np.where(is_maskable, ids, np.where(column < lengths, SEP, 0))
    ids[:, 0] = CLS
    return {
        "input_ids": ids.astype(np.int32),
        "lengths": lengths[:, 0],
        "is_maskable": is_maskable,
        "is_word_start": rng.random((num_rows, size)) < 0.7,
    }


def mask(batch, **changes):
    return masking.mask_rows(
        np.random.default_rng(1),
        config=PretrainingDataConfig(**changes),
        tokenizer=TOKENIZER,
        **batch,
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
    batch = rows(np.random.default_rng(0))
    batch["is_word_start"][:] = True

    masked = mask(batch, do_permutation=permute)

    ids, used = batch["input_ids"], masked.weights == 1
    # Permutation adds as many targets again.
    expected = num_to_predict(batch["lengths"]) * (2 if permute else 1)
    np.testing.assert_array_equal(used.sum(axis=1), expected)
    # Slots are filled in the order of the positions.
    assert used.shape == (300, 40 if permute else 20)
    assert (np.diff(used.astype(int), axis=1) <= 0).all()
    assert (np.diff(masked.positions, axis=1)[used[:, 1:]] > 0).all()
    assert not masked.positions[~used].any() and not masked.ids[~used].any()
    # The targets restore the row.
    row, slot = np.nonzero(used)
    column = masked.positions[row, slot]
    shown = masked.input_ids[row, column]
    restored = masked.input_ids.copy()
    restored[row, column] = masked.ids[row, slot]
    np.testing.assert_array_equal(restored, ids)
    # No special token is masked, or replaces another but [MASK].
    assert batch["is_maskable"][row, column].all()
    assert shown.min() == MASK and (shown != ids[row, column]).any()


def test_words_are_masked_whole():
    batch = rows(np.random.default_rng(0))

    masked = mask(batch)

    hidden = np.zeros(batch["input_ids"].shape, bool)
    row, slot = np.nonzero(masked.weights)
    hidden[row, masked.positions[row, slot]] = True
    # A token that continues a word shares the fate of the token before it.
    maskable, starts = batch["is_maskable"], batch["is_word_start"]
    joined = maskable[:, 1:] & maskable[:, :-1] & ~starts[:, 1:]
    assert (hidden[:, 1:] == hidden[:, :-1])[joined].all()


def replace(ids, replacement_ids):
    return masking.replace_tokens(
        np.random.default_rng(0),
        ids,
        np.ones(ids.shape, bool),
        mask_id=MASK,
        replacement_ids=replacement_ids,
    )


def test_masked_tokens_are_replaced_80_10_10():
    ids = np.full((2000, 50), 7, np.int32)

    replaced = replace(ids, np.arange(FIRST_ID, VOCAB_SIZE))

    # 1 of the 95 random tokens is the original one.
    num_masked, num_kept = (replaced == MASK).sum(), (replaced == 7).sum()
    counts = [num_masked, num_kept, ids.size - num_masked - num_kept]
    other = 0.1 * 94 / 95
    expected = np.array([0.8, 0.2 - other, other]) * ids.size
    assert stats.chisquare(counts, expected).pvalue > 1e-3


def test_random_tokens_are_uniform_over_those_allowed():
    allowed = masking.replacement_ids(10, np.array([0, 1, 2, 3, 4, 6]))
    assert allowed.tolist() == [5, 7, 8, 9]

    replaced = replace(np.full((2000, 500), MASK, np.int32), allowed)

    drawn, counts = np.unique(replaced[replaced != MASK], return_counts=True)
    assert drawn.tolist() == allowed.tolist()
    assert stats.chisquare(counts).pvalue > 1e-3


def test_permuted_tokens_change_places_within_their_row():
    ids = np.arange(40, dtype=np.int32).reshape(2, 20)
    moved = np.zeros(ids.shape, bool)
    moved[0, 3:12], moved[1, 5:9] = True, True

    permuted = masking.permute_tokens(np.random.default_rng(0), ids, moved)

    np.testing.assert_array_equal(permuted[~moved], ids[~moved])
    assert (permuted[moved] != ids[moved]).any()
    np.testing.assert_array_equal(np.sort(permuted, axis=1), ids)
