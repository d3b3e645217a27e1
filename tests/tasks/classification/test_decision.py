"""How logits become probabilities, and these become labels."""

import dataclasses

import numpy as np
import pytest
import sklearn.metrics
from scipy import special

from albert_tf.tasks.classification import decision
from albert_tf.tasks.classification.decision import Decision


def drawn(temperature, num_rows, seed=0):
    """Logits of three labels, and labels that they are right about at it."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=4, size=(num_rows, 3))
    shares = special.softmax(logits / temperature, axis=-1)
    labels = [rng.choice(3, p=row) for row in shares]
    return np.array(labels), logits.astype(np.float32)


@pytest.mark.parametrize("temperature", [0.6, 1.0, 3.0])
def test_the_temperature_is_the_one_of_the_labels(temperature):
    labels, logits = drawn(temperature, 6000)

    found = decision.best_temperature(labels, logits)

    assert found == pytest.approx(temperature, rel=0.06)
    chosen = Decision(found).probabilities(logits)
    plain = Decision().probabilities(logits)
    after, before = (
        decision.calibration_error(labels, each) for each in (chosen, plain)
    )
    assert after < 0.02
    assert temperature == 1.0 or before > 3 * after
    # The order of the labels, and so every prediction, is the same.
    np.testing.assert_array_equal(chosen.argmax(-1), plain.argmax(-1))


def test_few_rows_that_are_all_right_do_not_make_a_model_certain():
    logits = np.array([[3.0, 0.0]] * 16)
    labels = np.zeros(16, int)

    assert 0.5 < decision.best_temperature(labels, logits) < 1
    # Nor do all that are wrong make all labels equal.
    assert decision.best_temperature(1 - labels, logits) < 20


def test_the_error_is_the_gap_of_bins_weighted_by_their_rows():
    # Three rows at 0.9, of which two are right; one at 0.6, which is wrong.
    probabilities = np.array([[0.9, 0.1]] * 3 + [[0.4, 0.6]])

    found = decision.calibration_error(np.array([0, 0, 1, 0]), probabilities)

    assert found == pytest.approx(3 / 4 * (0.9 - 2 / 3) + 1 / 4 * 0.6)
    assert decision.calibration_error(np.array([1]), np.eye(2)[1:]) == 0


@pytest.mark.parametrize(
    "goal", ["precision:0.8", "recall:0.75", "false_positive_rate:0.1"]
)
def test_a_threshold_reaches_its_goal_at_the_least_cost(goal):
    rng = np.random.default_rng(3)
    is_positive = rng.random(300) < 0.4
    values = np.round(rng.normal(loc=is_positive, size=300), 1)
    probabilities = special.expit(values).astype(np.float32)
    kind, number = goal.split(":")

    def rates(threshold):
        predicted = probabilities >= threshold
        right = np.count_nonzero(predicted & is_positive)
        wrong = np.count_nonzero(predicted & ~is_positive)
        return {
            "precision": right / max(1, right + wrong),
            "recall": right / np.count_nonzero(is_positive),
            "false_positive_rate": wrong / np.count_nonzero(~is_positive),
        }

    def reaches(found):
        sign = -1 if kind == "false_positive_rate" else 1
        return sign * found[kind] >= sign * float(number)

    found = rates(decision.threshold_for(goal, is_positive, probabilities))

    assert reaches(found)
    cost = "precision" if kind == "recall" else "recall"
    others = [*map(rates, np.unique(probabilities))]
    assert found[cost] == max(x[cost] for x in others if reaches(x))
    assert len({x[cost] for x in others}) > 20


@pytest.mark.parametrize(
    ("num_right", "probabilities"),
    # The likeliest is wrong; four positive rows say nothing.
    [(20, [0.9] + [0.5] * 39), (4, [0.9] * 4 + [0.1] * 36)],
)
def test_a_goal_that_is_not_reached_chooses_no_threshold(
    num_right, probabilities
):
    is_positive = np.arange(40) >= 40 - num_right
    is_positive = is_positive if num_right > 4 else is_positive[::-1]

    found = decision.threshold_for(
        "precision:0.9", is_positive, np.array(probabilities)
    )

    assert found is None


@pytest.mark.parametrize("positive", [0, 1])
def test_of_two_labels_the_positive_one_is_predicted_from_its_threshold(
    positive,
):
    labels = np.repeat([0, 1], 30)
    logits = np.zeros((60, 2), np.float32)
    logits[:, 1] = np.linspace(-3, 3, 60)

    goal = Decision(1.0, goal="recall:0.5")
    chosen = goal.chosen_for(labels, logits, positive)

    found = chosen.predictions(logits) == positive
    # The likelier half of the right ones, and none else.
    assert found.sum() == 15
    assert (labels[found] == positive).all()
    assert sum(chosen.thresholds) == pytest.approx(1)
    # Given, it is not chosen again.
    chosen = dataclasses.replace(chosen, goal="recall:0.9")
    assert chosen.chosen_for(1 - labels, logits) == chosen
    missed = dataclasses.replace(goal, thresholds=())
    assert missed.chosen_for(labels, logits).thresholds is None


def test_a_threshold_lies_between_what_it_divides_best():
    labels = np.array([[1, 0], [1, 0], [0, 0], [1, 0]]).repeat(5, axis=0)
    probabilities = np.array([[0.9], [0.6], [0.3], [0.1]]) * [[1, 1]]
    probabilities = probabilities.repeat(5, axis=0)

    found = decision.best_thresholds(labels, probabilities)

    # All predicted: F1 = 6/7, more than 4/5 of the first two. No label: 1/2.
    assert found == (pytest.approx(0.05), 0.5)
    labels[15:, 0] = 0
    found = decision.best_thresholds(labels, probabilities)
    assert found[0] == pytest.approx(0.45)


def test_of_equally_good_thresholds_the_one_nearest_to_a_half_is_chosen():
    labels = np.array([[1], [0], [1], [0], [0]]).repeat(5, axis=0)
    probabilities = np.array([[0.9], [0.8], [0.7], [0.6], [0.2]])
    probabilities = probabilities.repeat(5, axis=0)

    (found,) = decision.best_thresholds(labels, probabilities)

    # 3 predicted: 4/5; the others are worse: 2/3, 1/2, 2/3, 4/7.
    assert found == pytest.approx(0.65)
    (found,) = decision.best_thresholds(
        np.array([[1], [0], [0], [1]]).repeat(5, axis=0),
        np.array([[0.95], [0.9], [0.8], [0.55]]).repeat(5, axis=0),
    )
    # 1 or all 4 predicted: 2/3 each.
    assert found == pytest.approx(0.275)


def test_on_four_examples_no_threshold_is_chosen():
    labels = np.array([[1], [1], [1], [1], [0], [0]])
    probabilities = np.array([[0.1]] * 4 + [[0.0]] * 2)

    assert decision.best_thresholds(labels, probabilities) == (0.5,)


def test_the_best_threshold_is_the_best_of_all():
    rng = np.random.default_rng(5)
    labels = rng.integers(2, size=(40, 6))
    labels[0] = 1
    probabilities = (rng.integers(12, size=(40, 6)) / 11).astype(np.float32)

    found = decision.best_thresholds(labels, probabilities)

    for own, values, threshold in zip(
        labels.T, probabilities.T, found, strict=True
    ):
        best = max(
            sklearn.metrics.f1_score(own, values >= level)
            for level in np.unique(values)
        )
        assert sklearn.metrics.f1_score(own, values >= threshold) == best
