import numpy as np

from albert_tf.modeling import losses

_WEIGHTS = np.array([1, 1, 0], "f")


def test_rows_of_weight_zero_do_not_count():
    logits = np.array([[0, 0], [3, 1], [9, 0]], "f")
    labels = np.array([0, 1, 1], "int32")

    sums = losses.cross_entropy_sums(logits, labels, _WEIGHTS)

    wanted = np.log(2) + np.log(1 + np.e**2)
    np.testing.assert_allclose(sums.loss, wanted, rtol=1e-6)
    # The largest of two equal logits is the first.
    assert (float(sums.weight), float(sums.correct)) == (2, 1)


def test_regression_adds_squared_errors():
    logits = np.array([[1], [3], [9]], "f")
    labels = np.array([0.5, 5, 1], "f")

    sums = losses.regression_sums(logits, labels, _WEIGHTS)

    assert (float(sums.loss), float(sums.weight)) == (4.25, 2)


def test_several_labels_are_independent_questions():
    logits = np.array([[2, -1], [0, 0], [3, 3]], "f")
    labels = np.array([[1, 1], [0, 1], [0, 0]], "f")

    sums = losses.multi_label_sums(logits, labels, _WEIGHTS)

    by_label = np.log1p(np.exp(-logits * (2 * labels - 1))).mean(axis=1)
    wanted = float((_WEIGHTS * by_label).sum())
    np.testing.assert_allclose(sums.loss, wanted, rtol=1e-5)
    # Half of each row is right: a logit of 0 says no.
    is_right = (logits > 0) == (labels == 1)
    assert float(sums.correct) == (_WEIGHTS * is_right.mean(axis=1)).sum()
    assert float(sums.weight) == _WEIGHTS.sum()


def test_a_span_is_correct_if_both_its_ends_are():
    start = np.array([[5, 0, 0]] * 3, "f")
    end = np.array([[0, 5, 0], [0, 0, 5], [0, 5, 0]], "f")
    zeros, ones = np.zeros(3, "int32"), np.ones(3, "int32")
    outputs = {"start_logits": start, "end_logits": end}

    sums = losses.span_sums(outputs, zeros, ones, _WEIGHTS)

    right, wrong = np.log(1 + 2 * np.exp(-5)), np.log(np.exp(5) + 2)
    wanted = (3 * right + wrong) / 2
    np.testing.assert_allclose(sums.loss, wanted, rtol=1e-5)
    assert (float(sums.weight), float(sums.correct)) == (2, 1)
