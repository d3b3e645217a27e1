"""Batches of dynamic records: the order of their segments, and their masks."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from albert_tf.data import graph_masking, masking
from albert_tf.data.pretraining_config import PretrainingDataConfig
from albert_tf.text.vocabulary_file import SpecialIds
from tests.data import records
from tests.data.records import (
    CLS,
    SEP,
    assert_slots_are_filled_in_order,
    draw,
    is_masked,
    pair,
    restored,
)


def test_a_pair_is_laid_out_in_order_or_swapped():
    rows = [pair([11, 12, 13, 14, 15], size_a=2)] * 20

    batch = draw(rows, max_seq_length=10, max_predictions_per_seq=3)

    in_order = [CLS, 11, 12, SEP, 13, 14, 15, SEP, 0, 0]
    swapped = [CLS, 13, 14, 15, SEP, 11, 12, SEP, 0, 0]
    segments = {0: [0] * 4 + [1] * 4 + [0] * 2, 1: [0] * 5 + [1] * 3 + [0] * 2}
    labels = batch["sentence_order_labels"]
    assert set(labels.tolist()) == {0, 1}
    for row, label in enumerate(labels):
        expected = swapped if label else in_order
        assert restored(batch)[row].tolist() == expected
        assert batch["segment_ids"][row].tolist() == segments[label]
        assert batch["input_mask"][row].tolist() == [1] * 8 + [0] * 2


_SHORT = {"max_seq_length": 8, "max_predictions_per_seq": 2}


def test_a_single_segment_has_one_separator():
    rows = [pair([11, 12, 13], size_a=3)]

    batch = draw(rows, pair_objective="none", **_SHORT)

    assert restored(batch).tolist() == [[CLS, 11, 12, 13, SEP, 0, 0, 0]]
    assert batch["segment_ids"].tolist() == [[0] * 8]
    assert batch["input_mask"].tolist() == [[1] * 5 + [0] * 3]
    assert batch["sentence_order_labels"].tolist() == [0]


def test_a_vocabulary_may_have_neither_cls_nor_sep():
    special = SpecialIds(pad=0, unk=1, cls=None, sep=None, mask=4)
    # Three words, of which the first is cut.
    words = pair(range(11, 17), size_a=6, boundary=[0, 1, 0, 0, 1, 0])
    rows = [words, pair([17], size_a=1)]
    settings = _SHORT | {"max_predictions_per_seq": 3, "masked_lm_prob": 0.5}
    settings |= {"pair_objective": "none", "ngram": 1}

    batch = draw(rows * 50, special_ids=special, **settings)

    ids = [[11, 12, 13, 14, 15, 16, 0, 0], [17] + [0] * 7]
    assert restored(batch).tolist() == ids * 50
    mask = [[1] * 6 + [0] * 2, [1] + [0] * 7]
    assert batch["input_mask"].tolist() == mask * 50
    assert_slots_are_filled_in_order(batch)
    found = {tuple(np.flatnonzero(row)) for row in is_masked(batch)[::2]}
    # Whole words, as far as three symbols are enough for them.
    assert found <= {(1, 2, 3), (0, 4, 5), (0,), (4, 5)}
    assert len(found) > 1


@pytest.mark.parametrize(
    ("objective", "label"), [("sop", 1), ("nsp", 1), ("nsp", 0)]
)
def test_pairs_without_an_order_keep_their_place_and_label(objective, label):
    rows = [pair([11, 12, 13], size_a=2, label=label)] * 30

    batch = draw(rows, pair_objective=objective, **_SHORT)

    assert set(batch["sentence_order_labels"]) == {label}
    assert restored(batch)[:, 1:3].tolist() == [[11, 12]] * 30


def _random_pairs(num_rows):
    """Pairs of 20 to 61 tokens; 9 of 10 tokens start a word."""
    rng = np.random.default_rng(0)
    return [
        pair(
            rng.integers(records.FIRST_ID, records.VOCAB_SIZE, length),
            boundary=(rng.random(length) < 0.9).astype(int),
            size_a=rng.integers(5, length - 5),
        )
        for length in rng.integers(20, 62, num_rows)
    ]


def test_slots_are_filled_in_order_to_the_budget_with_words_alone():
    batch = draw(_random_pairs(1000))

    records.assert_slots_are_filled_in_order(batch)
    used = batch["masked_lm_weights"] == 1
    lengths = batch["input_mask"].sum(axis=1)
    expected = [min(10, max(1, round(int(n) * 0.15))) for n in lengths]
    counts = used.sum(axis=1)
    # A long word may leave one place that nothing fits.
    assert (counts <= expected).all()
    assert (counts == expected).mean() > 0.99
    assert (batch["masked_lm_ids"][used] > 4).all()


def test_words_are_masked_whole_and_end_with_their_segment():
    # One segment starts within a word: a word of its own here.
    row = pair([11, 12, 13, 14, 15, 16], boundary=[1, 0, 0] * 2, size_a=2)

    sizes = {"max_seq_length": 9, "max_predictions_per_seq": 6}
    batch = draw([row] * 400, masked_lm_prob=0.6, **sizes)

    words = [(11, 12), (13,), (14, 15, 16)]
    for label in (0, 1):  # In order, and swapped.
        rows = batch["sentence_order_labels"] == label
        masked = np.sort(batch["masked_lm_ids"][rows])
        # 9 tokens x 0.6 leave room for 5: any two of the words, never all.
        assert {tuple(ids[ids > 0].tolist()) for ids in masked} == {
            words[0] + words[1],
            words[0] + words[2],
            words[1] + words[2],
        }


def test_without_whole_words_every_token_stands_alone():
    row = pair([11, 12, 13, 14], boundary=[1, 0, 0, 0], size_a=4)

    settings = {"pair_objective": "none", "do_whole_word_mask": False}
    batch = draw([row] * 200, ngram=1, **settings, **_SHORT)

    ids = batch["masked_lm_ids"]
    assert set(ids[:, 0].tolist()) == {11, 12, 13, 14}
    assert (ids[:, 1:] == 0).all()


def test_masked_tokens_are_hidden_kept_or_replaced_80_10_10():
    batch = draw(_random_pairs(3000))

    records.assert_replaced_80_10_10(batch, num_allowed=95)


def test_replacements_are_uniform_over_the_allowed_tokens():
    allowed = [5, 7, 8, 9]
    rows = _random_pairs(3000)  # Ids above 9 stand for no allowed token...
    for row in rows:
        row["pair_ids"] = np.maximum(row["pair_ids"], 20)  # ...on purpose.

    batch = draw(rows, vocab_size=10, forbidden_ids=[0, 1, 2, 3, 4, 6])

    shown = batch["input_ids"][records.places(batch)]
    random = shown[(shown != records.MASK) & (shown < 20)]
    ids, counts = np.unique(random, return_counts=True)
    assert ids.tolist() == allowed
    assert stats.chisquare(counts).pvalue > 1e-3


def test_a_row_gets_the_same_masks_in_any_batch():
    rows = _random_pairs(8)
    together = draw(rows, indices=range(40, 48))

    for place, row in enumerate(rows):
        alone = draw([row], indices=[40 + place])
        for name, values in alone.items():
            np.testing.assert_array_equal(values[0], together[name][place])


def _run_lengths(masked):
    """How many neighbours are masked together, over all rows: 1, 2, ... 6+."""
    padded = np.pad(masked, [[0, 0], [1, 1]]).astype(int)
    change = np.diff(padded, axis=1)
    lengths = np.nonzero(change == -1)[1] - np.nonzero(change == 1)[1]
    return np.bincount(np.minimum(lengths, 6), minlength=7)[1:]


def test_masks_follow_the_law_of_the_static_ones():
    pairs = _random_pairs(3000)
    batch = draw(pairs)
    ids = records.restored(batch)
    static = masking.mask_rows(
        np.random.default_rng(5),
        ids,
        lengths=batch["input_mask"].sum(axis=1),
        is_maskable=ids > 4,
        is_word_start=_word_starts(pairs, batch),
        config=PretrainingDataConfig(max_predictions_per_seq=10),
        tokenizer=records.TOKENIZER,
    )

    drawn, expected = records.is_masked(batch), records.is_masked(static)
    runs = [_run_lengths(drawn), _run_lengths(expected)]
    assert stats.chi2_contingency(runs).pvalue > 1e-3
    places = [drawn.sum(axis=0)[1:60], expected.sum(axis=0)[1:60]]
    assert stats.chi2_contingency(places).pvalue > 1e-3


def _word_starts(rows, batch):
    """The boundaries of the pairs, laid out as the batch is."""
    result = np.zeros(batch["input_ids"].shape, bool)
    for row, out, label in zip(
        rows, result, batch["sentence_order_labels"], strict=True
    ):
        size_a = int(row["segment_a_length"][0])
        parts = np.split(row["token_boundary"].astype(bool), [size_a])
        first, second = parts[::-1] if label else parts
        out[1 : 1 + len(first)] = first
        out[2 + len(first) : 2 + len(first) + len(second)] = second
    return result


@pytest.mark.parametrize("max_words", [1, 3, 5])
def test_both_halves_choose_the_same_spans(max_words):
    rng = np.random.default_rng(max_words)
    shape = (300, 40)
    # A wall that no span crosses, as between two segments.
    word, wall = np.arange(40), rng.integers(1, 40, (300, 1))
    left = np.where(word < wall, wall, 40) - word
    num_words = np.minimum(rng.integers(1, max_words + 1, shape), left)
    order = np.argsort(rng.random(shape), axis=1)
    bounds = np.zeros((300, 41), np.int64)
    np.cumsum(rng.integers(1, 5, shape), axis=1, out=bounds[:, 1:])
    budget = rng.integers(1, 60, 300)

    padding = [[0, 0], [0, 1]]  # A word that ends the row.
    rank = np.pad(np.argsort(order, axis=1), padding, constant_values=40)
    chosen = graph_masking.choose_spans(
        tf.constant(bounds, tf.int32),
        tf.constant(np.pad(num_words, padding), tf.int32),
        tf.constant(rank, tf.int64),
        budget=tf.constant(budget, tf.int32),
    )

    expected = masking.choose_spans(num_words, order, bounds, budget=budget)
    assert expected.any(axis=1).mean() > 0.9
    np.testing.assert_array_equal(chosen[:, :-1], expected)
    assert not chosen[:, -1].numpy().any()


# SplitMix64 started at 1234567, as published with the reference C code.
_SPLITMIX_OF_1234567 = [
    6457827717110365317,
    3203168211198807973,
    9817491932198370423,
    4593380528125082431,
    16408922859458223821,
]


def test_absorbing_counters_gives_the_published_splitmix64_outputs():
    key = tf.constant(1234567, tf.uint64)

    outputs = graph_masking.absorb(key, tf.range(5))

    assert outputs.numpy().tolist() == _SPLITMIX_OF_1234567
