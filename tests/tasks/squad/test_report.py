import numpy as np
import pytest

from albert_tf.metrics import squad as metrics
from albert_tf.tasks.squad import report
from albert_tf.tasks.squad.predictions import QuestionPrediction, SpanPrediction


def predicted(text, *, probability=0.5, null_odds=0.0):
    span = SpanPrediction(
        text=text, probability=probability, start_score=0.0, end_score=0.0
    )
    return QuestionPrediction(spans=[span], null_odds=null_odds)


@pytest.fixture
def asked(make_example):
    return [
        make_example(guid="q1"),
        make_example(guid="q2", answers=()),
        make_example("black", guid="q3"),
    ]


def test_the_chart_has_both_scores_over_the_thresholds(asked):
    found = [
        predicted("white", null_odds=-1.0),
        predicted("coal", null_odds=1.0),
        predicted("black snow", null_odds=0.0),
    ]

    chart = report.threshold_chart(asked, found)

    # None, the first, the first and the last (F1 2/3), all.
    f1 = [100 / 3, 200 / 3, 100 * (2 + 2 / 3) / 3, 100 * (1 + 2 / 3) / 3]
    exact = [100 / 3, 200 / 3, 200 / 3, 100 / 3]
    for name, scores in (("F1", f1), ("exact", exact)):
        thresholds, values = zip(*chart["curves"][name], strict=True)
        assert thresholds == (-1, -0.5, 0.5, 2)
        np.testing.assert_allclose(values, scores)
    assert chart["x_label"] == "null threshold"


def test_a_long_curve_is_thinned(make_example, monkeypatch):
    monkeypatch.setattr(report, "MAX_POINTS", 5)
    asked = [make_example(guid=f"q{i}") for i in range(50)]
    found = [predicted("white", null_odds=float(i)) for i in range(50)]

    points = report.threshold_chart(asked, found)["curves"]["F1"]

    assert len(points) == 5
    assert points[0] == (0, 0)
    assert points[-1] == (50, 100)


def test_the_worst_errors_are_wrong_and_were_sure(asked):
    found = [
        predicted("coal", probability=0.6),
        predicted("coal", probability=0.9),
        predicted("the black coal", probability=0.99),
    ]

    table = report.worst_errors(asked, found, [one.text for one in found])

    question = asked[0].question
    assert "2 answers" in table["title"]
    assert table["rows"] == [
        ["q2", question, "(none)", "coal", "0.9000"],
        ["q1", question, "white", "coal", "0.6000"],
    ]
    assert not metrics.f1("coal", ["white"])


def test_a_withdrawn_answer_is_an_error_where_there_is_one(asked):
    found = [predicted("white")] * 3

    table = report.worst_errors(asked, found, ["", "", ""])

    assert [row[0] for row in table["rows"]] == ["q1", "q3"]
    assert table["rows"][0][3] == "(none)"
