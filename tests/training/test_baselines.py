"""Which scores are no better than without a model."""

import types

import numpy as np
import pytest
import scipy.stats

from albert_tf.metrics.scores import Role, Score, Scores
from albert_tf.tasks.task import ExampleSet
from albert_tf.training import baselines


def beside(baseline, score, **fields):
    """A score beside its baseline."""
    entries = (score, Score.baseline(score.key, baseline))
    return Scores(entries=entries, **fields)


@pytest.mark.parametrize(
    ("scores", "says"),
    [
        (beside(0.4, Score("f1", 0.5)), False),
        (beside(0.4, Score("f1", 0.4)), True),
        (beside(0.4, Score("f1", float("nan"))), True),
        (Scores(entries=(Score("f1", 0.4),)), False),
        (beside(0.4, Score("f1", 0.5), is_degenerate=True), True),
        (beside(2.0, Score("error", 1.5, Role.ERROR)), False),
        (beside(2.0, Score("error", 2.5, Role.ERROR)), True),
    ],
)
def test_a_score_is_compared_with_its_baseline(scores, says):
    assert bool(scores.verdict()) == says


@pytest.mark.parametrize(
    ("low", "num_examples", "says"),
    [(0.49, 200, True), (0.51, 200, False), (0.8, 20, True)],
)
def test_a_score_is_told_from_its_baseline_by_enough_examples(
    low, num_examples, says, caplog
):
    ends = [
        Score(f"accuracy_interval_{name}", value, Role.INTERVAL, "accuracy")
        for name, value in (("low", low), ("high", 0.95))
    ]
    scores = beside(0.5, Score("accuracy", 0.9)) + Scores(entries=tuple(ends))

    data = types.SimpleNamespace(primary_metric="accuracy")
    examples = ExampleSet(examples=range(num_examples), data=data)

    baselines.warn_of(scores, [examples])

    expected = f"Only {num_examples} examples were evaluated: on others, "
    expected += f"accuracy may be between {low} and 0.95."
    assert caplog.messages == [expected] * says


def interval_of(values, best=1.0):
    """The interval of a mean of values."""
    values = np.array(values, float)
    data = types.SimpleNamespace(
        primary_metric="share",
        metric_range=(0.0, best),
        score_of_rows=lambda *_: lambda rows: values[rows].mean(),
    )
    low, high = baselines.interval(
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


def test_the_interval_is_in_the_range_of_the_score():
    assert interval_of([100] * 10, best=100.0) == (63, 100)


def test_most_intervals_hold_the_true_score():
    rng = np.random.default_rng(0)
    held = []
    for _ in range(60):
        low, high = interval_of(rng.random(100) < 0.9)
        held.append(low <= 0.9 <= high)

    assert 0.85 <= np.mean(held) < 1


def test_an_evaluation_is_described_with_what_makes_it_doubtful():
    entries = [
        Score("accuracy", 0.5),
        Score.of_label("number", "ham", 4),
        Score.of_label("number", "spam", 0),
    ]
    evaluated = types.SimpleNamespace(
        data=types.SimpleNamespace(
            primary_metric="accuracy", is_regression=False
        ),
        examples=range(4),
        caution="All are trained on.",
    )

    found = baselines.describe(
        Scores(entries=tuple(entries), step=7), evaluated, "rows.tsv"
    )

    assert (found["data"], found["examples"], found["step"]) == (
        "rows.tsv",
        4,
        7,
    )
    assert found["cautions"] == [
        "All are trained on.",
        "None of the examples has the label 'spam'.",
    ]
    assert found["scores"]["accuracy"] == 0.5
