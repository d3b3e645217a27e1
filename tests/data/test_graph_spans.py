import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import graph_spans, spans


def _in_graph(num_words, order, bounds, budget, max_words):
    """The graph's choice; a word is added that ends the row."""
    padding = [[0, 0], [0, 1]]
    rank = np.argsort(order, axis=1)
    chosen = graph_spans.choose_spans(
        graph_spans.Spans(
            start=tf.constant(bounds, tf.int32),
            num_words=tf.constant(np.pad(num_words, padding), tf.int32),
            priority=tf.constant(
                np.pad(rank, padding, constant_values=rank.shape[1]), tf.int64
            ),
            max_words=max_words,
        ),
        tf.constant(budget, tf.int32),
    )
    assert not chosen[:, -1].numpy().any()
    return chosen[:, :-1].numpy()


@pytest.mark.parametrize("max_words", [1, 3, 5])
def test_the_graph_chooses_the_same_spans_as_numpy(max_words):
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

    chosen = _in_graph(num_words, order, bounds, budget, max_words)

    expected = spans.choose_spans(num_words, order, bounds, budget=budget)
    assert expected.any(axis=1).mean() > 0.9
    np.testing.assert_array_equal(chosen, expected)


@pytest.mark.parametrize(
    ("num_words", "budget", "expected"),
    [
        ([3, 0, 0], 5, [True, True, False]),
        ([1, 1, 1], 1, [False, False, False]),
    ],
)
def test_a_span_is_shortened_by_words_or_skipped(num_words, budget, expected):
    # Words of two tokens.
    bounds = np.array([[0, 2, 4, 6]])
    order = np.array([[0, 1, 2]])

    chosen = _in_graph(np.array([num_words]), order, bounds, [budget], 3)

    assert chosen.tolist() == [expected]
