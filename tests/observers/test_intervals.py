"""How sure a score is."""

import types

import numpy as np
import pytest
import scipy.stats

from albert_tf.metrics.scores import Score, Scores
from albert_tf.observers import intervals
from albert_tf.tasks.task_data import ExampleSet


def interval_of(values, best=1.0):
    """The interval of a mean of values."""
    values = np.array(values, float)
    data = types.SimpleNamespace(
        primary_metric="share",
        metric_range=(0.0, best),
        score_of_rows=lambda *_: lambda rows: values[rows].mean(),
    )
    low, high = intervals.interval(
        ExampleSet(examples=values, data=data),
        {},
        Scores(entries=(Score("share", values.mean()),)),
    )
    assert (low.key, high.key) == (
        "share_interval_low",
        "share_interval_high",
    )
    return low.value, high.value


@pytest.mark.parametrize(
    ("num_right", "num_rows"), [(320, 400), (50, 100), (20, 20), (0, 50)]
)
def test_the_interval_is_that_of_a_share(num_right, num_rows):
    values = np.arange(num_rows) < num_right

    found = interval_of(values)

    exact = scipy.stats.binomtest(num_right, num_rows).proportion_ci()
    assert found == pytest.approx((exact.low, exact.high), abs=0.025)


def test_the_interval_of_many_rows_is_as_narrow():
    values = np.random.default_rng(0).random(60_000) < 0.9

    low, high = interval_of(values)

    exact = scipy.stats.binomtest(values.sum(), values.size).proportion_ci()
    width = exact.high - exact.low
    assert (low, high) == pytest.approx(exact, abs=0.1 * width)


def test_the_interval_is_in_the_range_of_the_score():
    assert interval_of([100] * 10, best=100.0) == (63, 100)


def test_most_intervals_hold_the_true_score():
    rng = np.random.default_rng(0)
    held = []
    for _ in range(60):
        low, high = interval_of(rng.random(100) < 0.9)
        held.append(low <= 0.9 <= high)

    assert 0.85 <= np.mean(held) < 1
