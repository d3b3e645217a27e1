import functools
import math

import numpy as np
import pytest
import sklearn.metrics

from albert_tf.tasks.classification import scores


@pytest.mark.parametrize(
    ("labels", "options", "primary_metric", "others"),
    [
        ((), {}, "pearson", {"spearman", "mean_squared_error"}),
        (
            ("a", "b"),
            {},
            "accuracy",
            {"f1", "f1_macro", "roc_auc", "average_precision"},
        ),
        (
            ("a", "b", "c"),
            {},
            "accuracy",
            {"f1_macro", "roc_auc_macro", "average_precision_macro"},
        ),
        (
            ("a", "b"),
            {"multi_label": True},
            "f1_micro",
            {"f1_macro", "accuracy", "roc_auc_macro"},
        ),
    ],
)
def test_scores_follow_from_the_labels(labels, options, primary_metric, others):
    found = scores.names_for(labels, **options)

    assert found[0] == primary_metric
    assert others < set(found)


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
            found = scores.of_classes(name, given, labels, probabilities)

            assert found == pytest.approx(
                wanted(one_hot, probabilities, average="macro"), rel=1e-12
            )


def test_areas_are_a_mean_over_the_classes_that_have_one():
    labels, probabilities = np.array([[1, 0, 0], [0, 0, 1]]), np.eye(2, 3)
    find = functools.partial(scores.of_classes, "roc_auc_macro")

    # Of the second class there is no pair; the third is wrong.
    assert find(labels, labels, probabilities) == (1 + 0.5) / 2
    assert math.isnan(find(labels * 0, labels, probabilities))


def test_a_threshold_lies_between_what_it_divides_best():
    labels = np.array([[1, 0], [1, 0], [0, 0], [1, 0]]).repeat(5, axis=0)
    probabilities = np.array([[0.9], [0.6], [0.3], [0.1]]) * [[1, 1]]
    probabilities = probabilities.repeat(5, axis=0)

    found = scores.best_thresholds(labels, probabilities)

    # All predicted: F1 = 6/7, more than 4/5 of the first two. No label: 1/2.
    assert found == (pytest.approx(0.05), 0.5)
    labels[15:, 0] = 0
    found = scores.best_thresholds(labels, probabilities)
    assert found[0] == pytest.approx(0.45)


def test_of_equally_good_thresholds_the_one_nearest_to_a_half_is_chosen():
    labels = np.array([[1], [0], [1], [0], [0]]).repeat(5, axis=0)
    probabilities = np.array([[0.9], [0.8], [0.7], [0.6], [0.2]])
    probabilities = probabilities.repeat(5, axis=0)

    (found,) = scores.best_thresholds(labels, probabilities)

    # 3 predicted: 4/5; the others are worse: 2/3, 1/2, 2/3, 4/7.
    assert found == pytest.approx(0.65)
    (found,) = scores.best_thresholds(
        np.array([[1], [0], [0], [1]]).repeat(5, axis=0),
        np.array([[0.95], [0.9], [0.8], [0.55]]).repeat(5, axis=0),
    )
    # 1 or all 4 predicted: 2/3 each.
    assert found == pytest.approx(0.275)


def test_on_four_examples_no_threshold_is_chosen():
    labels = np.array([[1], [1], [1], [1], [0], [0]])
    probabilities = np.array([[0.1]] * 4 + [[0.0]] * 2)

    assert scores.best_thresholds(labels, probabilities) == (0.5,)


def test_the_best_threshold_is_the_best_of_all():
    rng = np.random.default_rng(5)
    labels = rng.integers(2, size=(40, 6))
    labels[0] = 1
    probabilities = (rng.integers(12, size=(40, 6)) / 11).astype(np.float32)

    found = scores.best_thresholds(labels, probabilities)

    for own, values, threshold in zip(
        labels.T, probabilities.T, found, strict=True
    ):
        best = max(
            sklearn.metrics.f1_score(own, values >= level)
            for level in np.unique(values)
        )
        assert sklearn.metrics.f1_score(own, values >= threshold) == best
