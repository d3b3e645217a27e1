import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import graph_spans


def _random_spans(rng, num_rows, num_words, max_words):
    """Spans over words of 1 to 4 tokens, with a wall that none crosses."""
    start = np.cumsum(rng.integers(1, 5, [num_rows, num_words + 1]), axis=1)
    wall = rng.integers(1, num_words, [num_rows, 1])
    word = np.arange(num_words + 1)[None]
    available = np.where(word <= wall, wall, num_words) - word
    drawn = rng.integers(1, max_words + 1, start.shape)
    return graph_spans.Spans(
        start=tf.constant(start, tf.int32),
        num_words=tf.constant(np.minimum(drawn, available), tf.int32),
        priority=tf.constant(
            np.argsort(rng.random(start.shape), axis=1), tf.int64
        ),
        max_words=max_words,
    )


def _choose_by_loop(start, num_words, priority, budget):
    """The rule as the reference writes it, for one row."""
    covered = np.zeros(len(start), bool)
    left = budget
    for word in np.argsort(priority):
        count = num_words[word]
        while count and start[word + count] - start[word] > left:
            count -= 1
        if count and not covered[word : word + count].any():
            covered[word : word + count] = True
            left -= start[word + count] - start[word]
    return covered


@pytest.mark.parametrize("max_words", [1, 3, 5])
def test_rounds_give_exactly_what_the_loop_gives(max_words):
    rng = np.random.default_rng(max_words)
    spans = _random_spans(rng, 300, 40, max_words)
    budget = rng.integers(1, 60, [300]).astype(np.int32)

    covered = graph_spans.choose_words(spans, tf.constant(budget)).numpy()

    for row in range(300):
        expected = _choose_by_loop(
            spans.start[row].numpy(),
            spans.num_words[row].numpy(),
            spans.priority[row].numpy(),
            budget[row],
        )
        np.testing.assert_array_equal(covered[row], expected)


def test_a_span_that_exceeds_the_budget_is_shortened_by_words():
    spans = graph_spans.Spans(
        start=tf.constant([[1, 3, 5, 7]]),
        num_words=tf.constant([[3, 0, 0, 0]]),
        priority=tf.constant([[0, 1, 2, 3]], tf.int64),
        max_words=3,
    )

    covered = graph_spans.choose_words(spans, tf.constant([5]))

    assert covered.numpy().tolist() == [[True, True, False, False]]


def test_a_budget_smaller_than_every_word_masks_nothing():
    spans = graph_spans.Spans(
        start=tf.constant([[1, 3, 5]]),
        num_words=tf.constant([[1, 1, 0]]),
        priority=tf.constant([[0, 1, 2]], tf.int64),
        max_words=3,
    )

    covered = graph_spans.choose_words(spans, tf.constant([1]))

    assert not covered.numpy().any()
