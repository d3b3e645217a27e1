"""Labels that are probably wrong."""

import numpy as np

from albert_tf.metrics import label_issues


def of_two(own_of_0, own_of_1):
    """Labels and probabilities of two classes, by the label's own."""
    labels = np.repeat([0, 1], [len(own_of_0), len(own_of_1)])
    own = np.array([*own_of_0, *own_of_1])
    probabilities = np.stack([own, 1 - own], axis=1)
    probabilities[labels == 1] = probabilities[labels == 1, ::-1]
    return labels, probabilities


def test_rows_that_reach_another_class_are_doubtful_worst_first():
    # The thresholds are .7 and .74.
    labels, probabilities = of_two([0.9, 0.1, 0.9, 0.9], [0.9] * 4 + [0.1])
    probabilities[8] = [0.95, 0.05]

    rows, likelier = label_issues.find(labels, probabilities)

    assert rows.tolist() == [8, 1]
    assert likelier.tolist() == [0, 1]


def test_rows_that_reach_no_threshold_are_doubted_in_proportion():
    # Of label 0, the threshold is .583: three rows reach it, and one reaches
    # the other's, .9. So 6 * 1 / 4 of its labels are wrong, rounded to 2.
    of_0 = [0.9, 0.9, 0.9, 0.1, 0.35, 0.34]
    labels, probabilities = of_two(of_0, [0.9] * 4)

    rows, _ = label_issues.find(labels, probabilities)

    assert rows.tolist() == [3, 5]


def test_an_own_label_that_is_likeliest_is_not_doubtful():
    labels = np.array([0, 0, 0, 1, 1, 1])
    # The second row reaches the threshold of the other class, .3, alone.
    probabilities = np.array(
        [[0.9, 0.1], [0.6, 0.4], [0.9, 0.1]] + [[0.7, 0.3]] * 3
    )

    rows, _ = label_issues.find(labels, probabilities)

    assert rows.size == 0


def test_a_class_without_rows_is_never_the_likelier_one():
    # Else its threshold would be 0, which every row reaches.
    labels = np.array([0, 0, 1])
    probabilities = np.array([[0.2, 0.1, 0.7]] * 3)

    rows, likelier = label_issues.find(labels, probabilities)

    assert rows.tolist() == [2]
    assert likelier.tolist() == [0]
