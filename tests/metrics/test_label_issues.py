"""Labels that are probably wrong."""

import numpy as np

from albert_tf.metrics import label_issues


def test_a_label_is_doubtful_if_a_likelier_class_reaches_its_threshold():
    labels = np.array([0, 0, 0, 1, 1, 1])
    probabilities = np.array(
        [
            [0.9, 0.1, 0],
            [0.1, 0.9, 0],  # above .7, the mean of the rows labelled 1
            [0.4, 0.6, 0],  # likelier, but below it
            [0.3, 0.7, 0],
            [0.5, 0.5, 0],  # above the other threshold, and equally likely
            [0.1, 0.9, 0],
        ]
    )

    rows, likelier = label_issues.find(labels, probabilities)

    assert rows.tolist() == [1]
    assert likelier.tolist() == [1]


def test_the_least_probable_label_comes_first():
    labels = np.array([0] * 8 + [1] * 8)
    own = np.array([0.9] * 6 + [0.15, 0.1] + [0.9] * 7 + [0.12])
    probabilities = np.stack([own, 1 - own], axis=1)
    probabilities[8:] = probabilities[8:, ::-1]

    rows, likelier = label_issues.find(labels, probabilities)

    assert rows.tolist() == [7, 15, 6]
    assert likelier.tolist() == [1, 0, 1]


def test_a_class_without_rows_is_never_the_likelier_one():
    # Else its threshold would be 0, which every row reaches.
    labels = np.array([0, 0, 1])
    probabilities = np.array([[0.2, 0.1, 0.7]] * 3)

    rows, likelier = label_issues.find(labels, probabilities)

    assert rows.tolist() == [2]
    assert likelier.tolist() == [0]
