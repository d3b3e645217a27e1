import types

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from albert_tf.data import graph_masking, masking
from albert_tf.data.pretraining_config import PretrainingDataConfig
from albert_tf.text.special_tokens import SpecialIds

_CLS, _SEP, _MASK = 2, 3, 4
_FIRST_ID = 5


@pytest.fixture
def draw(make_sidecar):
    """A function that draws a batch; S = 64 and P = 10 unless changed."""

    def draw_batch(rows, *, indices=None, epoch=0, seed=11, **changes):
        settings = {
            "masking": "dynamic",
            "max_seq_length": 64,
            "max_predictions_per_seq": 10,
            "vocab_size": 1000,
        }
        own = np.arange(len(rows)) if indices is None else np.array(indices)
        batch = graph_masking.draw_batch(
            _batch(rows),
            epochs=tf.constant(np.full(len(rows), epoch), tf.int64),
            indices=tf.constant(own, tf.int64),
            seed=seed,
            facts=make_sidecar(**settings | changes),
        )
        return {name: tensor.numpy() for name, tensor in batch.items()}

    return draw_batch


def _random_pairs(num_rows, *, max_tokens=61, seed=0):
    """Pairs of 20 tokens up to `max_tokens`; 9 of 10 tokens start a word."""
    rng = np.random.default_rng(seed)
    rows = []
    for length in rng.integers(20, max_tokens + 1, num_rows):
        rows.append(
            {
                "pair_ids": rng.integers(_FIRST_ID, 1000, length),
                "token_boundary": (rng.random(length) < 0.9).astype(int),
                "segment_a_length": [rng.integers(5, length - 5)],
                "pair_label": [0],
            }
        )
    return rows


def _batch(rows):
    def ragged(name):
        return tf.ragged.constant([list(r[name]) for r in rows], dtype=tf.int64)

    names = ("segment_a_length", "pair_label")
    return {
        "pair_ids": ragged("pair_ids"),
        "token_boundary": ragged("token_boundary"),
        **{n: tf.constant([r[n] for r in rows], tf.int64) for n in names},
    }


def _targets(batch):
    """The places (rows, positions) of the masked tokens, and these tokens."""
    rows, slots = np.nonzero(batch["masked_lm_weights"])
    positions = batch["masked_lm_positions"][rows, slots]
    return (rows, positions), batch["masked_lm_ids"][rows, slots]


def _restored(batch):
    """The rows with the masked tokens put back."""
    ids = batch["input_ids"].copy()
    places, original = _targets(batch)
    ids[places] = original
    return ids


def _row(pair_ids, *, boundary=None, size_a, label=0):
    return {
        "pair_ids": pair_ids,
        "token_boundary": boundary or [1] * len(pair_ids),
        "segment_a_length": [size_a],
        "pair_label": [label],
    }


def test_a_pair_is_laid_out_in_order_or_swapped(draw):
    rows = [_row([11, 12, 13, 14, 15], size_a=2)] * 20

    batch = draw(rows, max_seq_length=10, max_predictions_per_seq=3)

    in_order = [_CLS, 11, 12, _SEP, 13, 14, 15, _SEP, 0, 0]
    swapped = [_CLS, 13, 14, 15, _SEP, 11, 12, _SEP, 0, 0]
    segments = {0: [0] * 4 + [1] * 4 + [0] * 2, 1: [0] * 5 + [1] * 3 + [0] * 2}
    labels = batch["sentence_order_labels"]
    assert set(labels.tolist()) == {0, 1}
    for row, label in enumerate(labels):
        expected = swapped if label else in_order
        assert _restored(batch)[row].tolist() == expected
        assert batch["segment_ids"][row].tolist() == segments[label]
        assert batch["input_mask"][row].tolist() == [1] * 8 + [0] * 2


_SHORT = {"max_seq_length": 8, "max_predictions_per_seq": 2}


def test_a_single_segment_has_one_separator(draw):
    rows = [_row([11, 12, 13], size_a=3)]

    batch = draw(rows, pair_objective="none", **_SHORT)

    assert _restored(batch).tolist() == [[_CLS, 11, 12, 13, _SEP, 0, 0, 0]]
    assert batch["segment_ids"].tolist() == [[0] * 8]
    assert batch["input_mask"].tolist() == [[1] * 5 + [0] * 3]
    assert batch["sentence_order_labels"].tolist() == [0]


@pytest.mark.parametrize(
    ("objective", "label"), [("sop", 1), ("nsp", 1), ("nsp", 0)]
)
def test_pairs_without_an_order_keep_their_place_and_label(
    draw, objective, label
):
    rows = [_row([11, 12, 13], size_a=2, label=label)] * 30

    batch = draw(rows, pair_objective=objective, **_SHORT)

    assert set(batch["sentence_order_labels"]) == {label}
    assert _restored(batch)[:, 1:3].tolist() == [[11, 12]] * 30


def test_half_of_the_pairs_are_swapped(draw):
    labels = draw(_random_pairs(2000))["sentence_order_labels"]

    assert stats.binomtest(int(labels.sum()), labels.size).pvalue > 1e-3


def test_slots_are_filled_in_order_to_the_budget_with_words_alone(draw):
    batch = draw(_random_pairs(1000))

    used = batch["masked_lm_weights"] == 1
    positions = batch["masked_lm_positions"]
    assert (positions[~used] == 0).all()
    assert (batch["masked_lm_ids"][~used] == 0).all()
    both = used[:, 1:] & used[:, :-1]
    assert (positions[:, 1:] > positions[:, :-1])[both].all()
    assert (used[:, :-1] >= used[:, 1:]).all()
    lengths = batch["input_mask"].sum(axis=1)
    expected = [min(10, max(1, round(int(n) * 0.15))) for n in lengths]
    counts = used.sum(axis=1)
    # A long word may leave one place that nothing fits.
    assert (counts <= expected).all()
    assert (counts == expected).mean() > 0.99
    assert (batch["masked_lm_ids"][used] > 4).all()


def test_words_are_masked_whole_and_end_with_their_segment(draw):
    # The second segment starts within a word: a word of its own here.
    row = _row([11, 12, 13, 14, 15, 16], boundary=[1, 0, 0] * 2, size_a=2)

    batch = draw(
        [row] * 400,
        max_seq_length=9,
        max_predictions_per_seq=6,
        masked_lm_prob=0.6,
    )

    masked = {
        tuple(ids[ids > 0].tolist()) for ids in np.sort(batch["masked_lm_ids"])
    }
    words = [(11, 12), (13,), (14, 15, 16)]
    # 9 tokens x 0.6 leave room for 5: any two of the words, never all.
    assert masked == {
        words[0] + words[1],
        words[0] + words[2],
        words[1] + words[2],
    }


def test_without_whole_words_every_token_stands_alone(draw):
    row = _row([11, 12, 13, 14], boundary=[1, 0, 0, 0], size_a=4)

    batch = draw(
        [row] * 200,
        pair_objective="none",
        do_whole_word_mask=False,
        ngram=1,
        **_SHORT,
    )

    ids = batch["masked_lm_ids"]
    assert set(ids[:, 0].tolist()) == {11, 12, 13, 14}
    assert (ids[:, 1:] == 0).all()


def test_masked_tokens_are_hidden_kept_or_replaced_80_10_10(draw):
    batch = draw(_random_pairs(3000))

    places, original = _targets(batch)
    shown = batch["input_ids"][places]
    kinds = [
        (shown == _MASK).sum(),
        (shown == original).sum(),
        ((shown != _MASK) & (shown != original)).sum(),
    ]
    # A random token is the original in 1 of 995 cases.
    chance = np.array([0.8, 0.1 + 0.1 / 995, 0.1 - 0.1 / 995])
    assert stats.chisquare(kinds, chance * len(shown)).pvalue > 1e-3


def test_replacements_are_uniform_over_the_allowed_tokens(draw):
    allowed = [5, 7, 8, 9]
    rows = _random_pairs(3000)  # Ids above 9 stand for no allowed token...
    for row in rows:
        row["pair_ids"] = np.maximum(row["pair_ids"], 20)  # ...on purpose.

    batch = draw(rows, vocab_size=10, forbidden_ids=[0, 1, 2, 3, 4, 6])

    shown = batch["input_ids"][_targets(batch)[0]]
    random = shown[(shown != _MASK) & (shown < 20)]
    ids, counts = np.unique(random, return_counts=True)
    assert ids.tolist() == allowed
    assert stats.chisquare(counts).pvalue > 1e-3


def test_a_row_gets_the_same_masks_in_any_batch(draw):
    rows = _random_pairs(8)
    together = draw(rows, indices=range(40, 48))

    for place, row in enumerate(rows):
        alone = draw([row], indices=[40 + place])
        for name, values in alone.items():
            np.testing.assert_array_equal(values[0], together[name][place])


def test_epochs_seeds_and_examples_get_different_masks(draw):
    rows = _random_pairs(50)
    first = draw(rows)["masked_lm_positions"]

    for other in (
        draw(rows, epoch=1),
        draw(rows, seed=12),
        draw(rows, indices=range(50, 100)),
    ):
        same = (other["masked_lm_positions"] == first).all(axis=1)
        assert same.mean() < 0.1


def _run_lengths(masked):
    """How many neighbours are masked together, over all rows: 1, 2, ... 6+."""
    padded = np.pad(masked, [[0, 0], [1, 1]]).astype(int)
    change = np.diff(padded, axis=1)
    lengths = np.nonzero(change == -1)[1] - np.nonzero(change == 1)[1]
    return np.bincount(np.minimum(lengths, 6), minlength=7)[1:]


def test_masks_follow_the_law_of_the_static_ones(draw):
    pairs = _random_pairs(3000)
    batch = draw(pairs)
    ids = _restored(batch)
    static = masking.mask_rows(
        np.random.default_rng(5),
        ids,
        lengths=batch["input_mask"].sum(axis=1),
        is_maskable=ids > 4,
        is_word_start=_word_starts(pairs, batch),
        config=PretrainingDataConfig(max_predictions_per_seq=10),
        tokenizer=types.SimpleNamespace(
            vocab_size=1000,
            special_ids=SpecialIds(pad=0, unk=1, cls=2, sep=3, mask=_MASK),
            forbidden_ids=np.arange(_FIRST_ID),
        ),
    )

    drawn, expected = np.zeros((2, *ids.shape), bool)
    drawn[_targets(batch)[0]] = True
    rows, slots = np.nonzero(static.weights)
    expected[rows, static.positions[rows, slots]] = True

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


# SplitMix64 started at 1234567, as published with the reference C code.
_SPLITMIX_OF_1234567 = [
    6457827717110365317,
    3203168211198807973,
    9817491932198370423,
    4593380528125082431,
    16408922859458223821,
]


def _bits(seed=3, num_rows=400, num_counters=500, stream=0):
    indices = tf.range(num_rows, dtype=tf.int64)
    keys = graph_masking.example_keys(seed, tf.zeros_like(indices), indices)
    streams = graph_masking.absorb(keys, stream)[:, None]
    return graph_masking.absorb(streams, tf.range(num_counters)[None])


def test_absorbing_counters_gives_the_published_splitmix64_outputs():
    key = tf.constant(1234567, tf.uint64)

    outputs = graph_masking.absorb(key, tf.range(5))

    assert outputs.numpy().tolist() == _SPLITMIX_OF_1234567


def test_draws_are_uniform_and_so_is_every_bit():
    values = graph_masking.uniform(_bits()).numpy()

    counts, _ = np.histogram(values, bins=64, range=(0, 1))
    assert values.min() >= 0
    assert values.max() < 1
    assert stats.chisquare(counts).pvalue > 1e-3
    bits = _bits().numpy().reshape(-1)
    for place in range(64):
        ones = int(((bits >> np.uint64(place)) & np.uint64(1)).sum())
        assert stats.binomtest(ones, bits.size).pvalue > 1e-5


def _joint_pvalue(first, second, bins=16):
    table, _, _ = np.histogram2d(
        first.reshape(-1), second.reshape(-1), bins=bins, range=[[0, 1]] * 2
    )
    return stats.chisquare(table.reshape(-1)).pvalue


def test_neighbouring_rows_counters_streams_and_seeds_are_independent():
    values = graph_masking.uniform(_bits()).numpy()
    other_stream = graph_masking.uniform(_bits(stream=1)).numpy()
    other_seed = graph_masking.uniform(_bits(seed=4)).numpy()

    assert _joint_pvalue(values[:-1], values[1:]) > 1e-3
    assert _joint_pvalue(values[:, :-1], values[:, 1:]) > 1e-3
    assert _joint_pvalue(values, other_stream) > 1e-3
    assert _joint_pvalue(values, other_seed) > 1e-3


def test_epoch_and_index_do_not_stand_in_for_each_other():
    grid = tf.range(300, dtype=tf.int64)
    epochs, indices = tf.meshgrid(grid, grid)

    keys = graph_masking.example_keys(
        7, tf.reshape(epochs, [-1]), tf.reshape(indices, [-1])
    )

    assert len(set(keys.numpy().tolist())) == 300 * 300
