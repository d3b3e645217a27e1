import functools
import json
import math

import numpy as np
import pytest
import scipy.special
import sklearn.metrics

from albert_tf.metrics import classification
from albert_tf.metrics.classification import SCORES
from albert_tf.metrics.scores import Score

CORRELATIONS = ["matthews_correlation", "pearson", "spearman"]


def test_macro_f1_is_the_mean_over_the_labels_that_occur():
    # Label 0: 1; label 1: 2 / (1 + 2) = 2/3; label 2: 0.
    found = classification.f1([0, 1, 1, 2], [0, 1, 2, 1])

    # Label 1: precision 1/2, recall 1/2.
    assert found == pytest.approx((1 + 1 / 2 + 0) / 3, rel=1e-12)


def test_pearson_sees_a_line_and_spearman_any_rising_curve():
    labels = np.array([0.0, 1.0, 2.0, 3.0])

    assert SCORES["pearson"](labels, 2 * labels - 7) == pytest.approx(1)
    assert SCORES["spearman"](labels, labels**3) == pytest.approx(1)
    assert SCORES["pearson"](labels, labels**3) < 0.95
    assert SCORES["spearman"](labels, -labels) == pytest.approx(-1)


@pytest.mark.parametrize("name", CORRELATIONS)
@pytest.mark.parametrize(
    ("labels", "predictions"),
    [([0, 1, 1], [1, 1, 1]), ([1, 1, 1], [0, 1, 0]), ([1], [0])],
)
def test_a_correlation_with_constant_numbers_is_0(name, labels, predictions):
    assert SCORES[name](labels, predictions) == 0


def test_areas_that_are_not_defined_are_no_numbers():
    assert math.isnan(classification.roc_auc([1, 1], [0.1, 0.2]))
    assert math.isnan(classification.roc_auc([0], [0.1]))
    assert math.isnan(classification.average_precision([0, 0], [0.1, 0.2]))


def test_scores_of_a_class_are_those_of_its_column():
    found = classification.class_scores([0, 1, 1, 3], [0, 1, 2, 1], "abcd")

    assert [score.value for score in found] == [
        *(1, 1, 1, 1),
        *(1 / 2, 1 / 2, 1 / 2, 2),
        *(0, 0, 0, 0),
        *(0, 0, 0, 1),
    ]
    assert found[7] == Score.of_label("number", "b", 2)


def test_f1_of_rows_with_several_labels():
    labels = np.array([[1, 1, 0], [0, 1, 0]])
    predictions = np.array([[1, 0, 0], [0, 1, 1]])

    # 2 right of 3 predicted and 3 true; by label: 1, 2/3, 0.
    assert SCORES["f1_micro"](labels, predictions) == pytest.approx(2 / 3)
    assert classification.f1(labels, predictions) == pytest.approx(5 / 9)
    # A label that no row has, and none is predicted, is no class here.
    wider = [np.pad(each, [(0, 0), (0, 2)]) for each in (labels, predictions)]
    assert classification.f1(*wider) == pytest.approx(5 / 9)
    assert classification.f1(labels * 0, labels * 0) == 0
    assert SCORES["accuracy"](labels, predictions) == 0
    assert SCORES["accuracy"](labels, labels) == 1


def test_scores_equal_the_numbers_of_the_original(shared_data):
    names = {
        "eval_accuracy": SCORES["accuracy"],
        "matthew_corr": SCORES["matthews_correlation"],
        "pearson": SCORES["pearson"],
        "MSE": SCORES["mean_squared_error"],
    }
    folder = shared_data / "golden" / "glue"
    inputs = np.load(folder / "metrics_inputs.npz")
    recorded = json.loads((folder / "metrics.json").read_text())
    num_compared = 0

    for case, numbers in recorded.items():
        kind, _, rest = case.partition("/")
        num_rows = 200 - 13 if rest == "with_13_padding_rows" else 200
        logits = inputs[f"{kind}/logits"][:num_rows]
        labels = inputs[f"{kind}/label_ids"][:num_rows]
        predictions = logits.argmax(-1) if logits.ndim == 2 else logits
        for name in numbers.keys() & names.keys():
            score = names[name](labels, predictions)
            expected = pytest.approx(numbers[name], rel=2e-6, abs=1e-7)
            assert score == expected, (case, name)
            num_compared += 1

    # 10 cases: 8 with accuracy, 4 of them with Matthews; 2 with two scores.
    assert num_compared == 8 + 4 + 2 * 2


def test_an_absolute_error_is_in_the_unit_of_the_labels():
    error = SCORES["mean_absolute_error"]([1.0, 2.0], [4.0, 1.0])
    assert error == pytest.approx(2)


def test_probabilities_are_those_of_the_exponentials():
    logits = np.log(np.array([[1.0, 3.0], [5.0, 5.0]]))

    found = classification.softmax(logits)

    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [[0.25, 0.75], [0.5, 0.5]], rtol=1e-6)
    halves = classification.sigmoid(np.array([[0.0, np.log(3.0), -1e4]]))
    assert halves.dtype == np.float32
    np.testing.assert_allclose(halves, [[0.5, 0.75, 0]], rtol=1e-6)
    large = classification.softmax(np.array([[1e4, 0.0], [-1e4, 0.0]]))
    np.testing.assert_array_equal(large, [[1, 0], [0, 1]])


def test_the_softmax_of_mean_logits_is_the_mean():
    rows = np.random.default_rng(0).normal(size=(3, 2, 5), scale=9)

    found = classification.mean_logits(*rows)

    shares = scipy.special.softmax(rows, axis=-1)
    np.testing.assert_allclose(
        scipy.special.softmax(found, axis=-1), shares.mean(axis=0), rtol=1e-9
    )
    # Equal models have the logits of each.
    same = classification.mean_logits(rows[0], rows[0])
    np.testing.assert_allclose(same, rows[0], rtol=1e-9)


@pytest.mark.parametrize(
    ("labels", "multi_label", "primary_metric", "others"),
    [
        ("", False, "pearson", "spearman mean_squared_error"),
        ("ab", False, "accuracy", "f1 f1_macro roc_auc average_precision"),
        (
            *("abc", False, "accuracy"),
            "f1_macro roc_auc_macro average_precision_macro",
        ),
        ("ab", True, "f1_micro", "f1_macro accuracy roc_auc_macro"),
    ],
)
def test_scores_follow_from_the_labels(
    labels, multi_label, primary_metric, others
):
    names = classification.names_for((*labels,), multi_label=multi_label)

    assert names[0] == primary_metric
    assert {*others.split()} < {*names}


def test_areas_of_many_classes_are_those_of_one_against_the_rest():
    rng = np.random.default_rng(1)
    labels = rng.integers(4, size=50)
    probabilities = rng.dirichlet(np.ones(4), size=50).astype(np.float32)
    one_hot = np.eye(4)[labels]

    for name, wanted in (
        ("roc_auc_macro", sklearn.metrics.roc_auc_score),
        ("average_precision_macro", sklearn.metrics.average_precision_score),
    ):
        for given in (labels, one_hot):
            found = classification.of_classes(
                name, given, labels, probabilities
            )

            assert found == pytest.approx(
                wanted(one_hot, probabilities, average="macro"), rel=1e-12
            )


def test_areas_are_a_mean_over_the_classes_that_have_one():
    labels, probabilities = np.array([[1, 0, 0], [0, 0, 1]]), np.eye(2, 3)
    find = functools.partial(classification.of_classes, "roc_auc_macro")

    # Of the second class there is no pair; the third is wrong.
    assert find(labels, labels, probabilities) == (1 + 0.5) / 2
    assert math.isnan(find(labels * 0, labels, probabilities))
