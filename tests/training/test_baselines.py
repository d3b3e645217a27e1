"""Which scores are no better than without a model."""

import types

import numpy as np
import pytest

from albert_tf.metrics.scores import Role, Score, Scores
from albert_tf.tasks.task import ExampleSet
from albert_tf.training import baselines


@pytest.mark.parametrize(
    ("labels", "is_compared"),
    [([0, 1] * 8, True), ([0, 1] * 7, False), ([0] * 20, False)],
)
def test_few_records_or_equal_ones_are_not_compared(labels, is_compared):
    records = types.SimpleNamespace(
        columns=types.SimpleNamespace(
            num_records=len(labels),
            specs=[types.SimpleNamespace(name="label_ids")],
            field=lambda _: np.array(labels),
        ),
        data=types.SimpleNamespace(settings={}),
    )

    found = baselines.compare_with_chance(
        records, {"logits": np.zeros((len(labels), 2))}
    )

    assert (found is not None) == is_compared


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
    ("score", "num_examples", "says"),
    [(0.55, 200, True), (0.6, 200, False), (0.9, 20, True), (0.4, 2000, True)],
)
def test_a_score_is_told_from_its_baseline_by_enough_examples(
    score, num_examples, says, caplog
):
    scores = beside(0.5, Score("accuracy", score))

    data = types.SimpleNamespace(primary_metric="accuracy")
    examples = ExampleSet(examples=range(num_examples), data=data)

    baselines.warn_of(scores, [examples])

    assert bool(caplog.messages) == says


@pytest.mark.parametrize(("more", "margin"), [({}, 0.5), ({"range": 100}, 50)])
def test_the_margin_is_in_the_range_of_the_score(more, margin):
    own = {f"score_{name}": value for name, value in more.items()}
    data = types.SimpleNamespace(primary_metric="f1", **own)
    evaluated = types.SimpleNamespace(data=data, examples=range(4), caution="")

    found = baselines.describe(Scores(), evaluated, "rows.tsv")

    assert found["margin"] == margin


def test_an_evaluation_is_described_with_what_makes_it_doubtful():
    entries = [
        Score("accuracy", 0.5),
        Score.of_label("number", "ham", 4),
        Score.of_label("number", "spam", 0),
    ]
    evaluated = types.SimpleNamespace(
        data=types.SimpleNamespace(primary_metric="accuracy"),
        examples=range(4),
        caution="All are trained on.",
    )

    found = baselines.describe(
        Scores(entries=tuple(entries), step=7), evaluated, "rows.tsv"
    )

    # 1 / sqrt(4) on each side.
    assert found["margin"] == 0.5
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
