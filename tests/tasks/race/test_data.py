import json

import numpy as np
import pytest

from albert_tf.tasks.race.data import MultipleChoiceData
from albert_tf.tasks.race.examples import ChoiceLengths
from tests.tasks.writing import write_predictions

# The largest are B, A, C, A.
LOGITS = np.array([[1, 3, 2], [5, 0, 1], [0, 0, 2], [2, 1, 0]], np.float32)


@pytest.fixture
def make_data(words):
    def make(**changes):
        settings = {
            "tokenizer": words,
            "lengths": ChoiceLengths(max_seq_length=32, max_qa_length=16),
            "num_choices": 3,
        }
        return MultipleChoiceData(**settings | changes)

    return make


@pytest.fixture
def questions(make_example):
    """Predicted B, A, C, A: right, wrong, right, right."""
    rows = [("middle", 1), ("high", 2), ("high", 2), ("high", 0)]
    return [
        make_example(guid=f"q{i}", level=level, label=label)
        for i, (level, label) in enumerate(rows)
    ]


def test_accuracy_is_that_of_all_and_of_each_level(make_data, questions):
    found = make_data().scores(questions, {"logits": LOGITS})

    assert found.flat() == {
        "accuracy": 3 / 4,
        "accuracy_middle": 1.0,
        "accuracy_high": pytest.approx(2 / 3),
    }


def test_predictions_are_a_line_for_each_question(
    make_data, questions, tmp_path
):
    names = write_predictions(
        make_data(), questions, {"logits": LOGITS}, tmp_path
    )

    scores, predictions = (tmp_path / name for name in names)
    rows = list(map(json.loads, predictions.read_text("utf-8").splitlines()))
    assert [row["id"] for row in rows] == ["q0", "q1", "q2", "q3"]
    assert [row["level"] for row in rows] == ["middle", *["high"] * 3]
    assert [row["prediction"] for row in rows] == ["B", "A", "C", "A"]
    assert [row["answer"] for row in rows] == ["B", "C", "C", "A"]
    exponentials = np.exp(LOGITS.astype(float))
    np.testing.assert_allclose(
        [row["probabilities"] for row in rows],
        exponentials / exponentials.sum(axis=1, keepdims=True),
        rtol=1e-6,
    )
    wanted = make_data().scores(questions, {"logits": LOGITS})
    of_rows = make_data().score_of_rows(questions, {"logits": LOGITS}, wanted)
    assert of_rows(np.arange(len(questions))) == wanted["accuracy"]
    assert json.loads(scores.read_text()) == wanted.flat()


def test_scores_of_other_predictions_do_not_stay(
    make_data, make_example, questions, tmp_path
):
    def write(examples):
        outputs = {"logits": LOGITS[: len(examples)]}
        write_predictions(make_data(), examples, outputs, tmp_path)
        return {path.name for path in tmp_path.iterdir()}

    assert write(questions) == {"predictions.jsonl", "predict_results.json"}
    assert write([make_example(label=None)]) == {"predictions.jsonl"}


@pytest.mark.parametrize(
    ("logits", "probabilities"),
    [
        ([-500.0, 500.0, 0.0], [0, 1, 0]),
        # So close that the probabilities are the same number.
        ([0.0, 1e-20, 0.0], [1 / 3] * 3),
    ],
)
def test_the_prediction_is_that_of_the_scored_logits(
    logits, probabilities, make_data, make_example, tmp_path
):
    outputs = {"logits": np.array([logits], np.float32)}
    example = make_example(label=1)

    write_predictions(make_data(), [example], outputs, tmp_path)

    row = json.loads((tmp_path / "predictions.jsonl").read_text("utf-8"))
    assert row["probabilities"] == pytest.approx(probabilities)
    assert row["prediction"] == "B"
    # Levels that do not occur have no accuracy.
    assert make_data().scores([example], outputs).flat() == {"accuracy": 1}
