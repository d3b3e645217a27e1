import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import graph_spans, spans


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

    padding = [[0, 0], [0, 1]]  # A word that ends the row.
    rank = np.pad(np.argsort(order, axis=1), padding, constant_values=40)
    chosen = graph_spans.choose_spans(
        graph_spans.Spans(
            start=tf.constant(bounds, tf.int32),
            num_words=tf.constant(np.pad(num_words, padding), tf.int32),
            priority=tf.constant(rank, tf.int64),
            max_words=max_words,
        ),
        tf.constant(budget, tf.int32),
    )

    expected = spans.choose_spans(num_words, order, bounds, budget=budget)
    assert expected.any(axis=1).mean() > 0.9
    np.testing.assert_array_equal(chosen[:, :-1], expected)
    assert not chosen[:, -1].numpy().any()
