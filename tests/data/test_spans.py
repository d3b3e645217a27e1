import numpy as np
import pytest

from albert_tf.data import spans as spans_lib


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


def random_proposals(rng, num_rows, num_words, ngram):
    left = num_words - np.arange(num_words)
    spans = np.minimum(rng.integers(1, ngram + 1, (num_rows, num_words)), left)
    spans[rng.random(spans.shape) < 0.1] = 0
    order = np.argsort(rng.random(spans.shape), axis=1)
    sizes = rng.integers(1, 5, spans.shape)
    bounds = np.zeros((num_rows, num_words + 1), np.int64)
    np.cumsum(sizes, axis=1, out=bounds[:, 1:])
    return spans, order, bounds


@pytest.mark.parametrize("ngram", [1, 2, 3, 6])
@pytest.mark.parametrize("taken_share", [0.0, 0.3])
def test_a_batch_gets_what_the_loop_gives_row_by_row(ngram, taken_share):
    rng = np.random.default_rng(ngram)
    for num_words in (1, 2, 9, 40):
        spans, order, bounds = random_proposals(rng, 50, num_words, ngram)
        budget = rng.integers(0, 3 * num_words, len(spans))
        taken = rng.random(spans.shape) < taken_share

        chosen = spans_lib.choose_spans(
            spans, order, bounds, budget=budget, taken=taken
        )

        expected = [
            choose_by_loop(*row)
            for row in zip(spans, order, bounds, budget, taken, strict=True)
        ]
        np.testing.assert_array_equal(chosen, expected)
