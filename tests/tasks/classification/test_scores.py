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
