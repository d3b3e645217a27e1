import numpy as np
import pytest

from albert_tf.modeling import losses

# Probabilities 1/4 and 3/4, or even.
_UNEVEN = [0.0, np.log(3)]
_EVEN = [5.0, 5.0]
_WEIGHTS = np.array([1, 1, 0], "f")


def test_parts_of_a_batch_add_up():
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((4, 3, 5)).astype("float32")
    ids = rng.integers(0, 5, (4, 3))
    weights = np.array([[1, 1, 1], [1, 0, 0], [1, 1, 0], [0, 0, 0]], "f")

    whole = losses.weighted_sums(logits, ids, weights)
    parts = [
        losses.weighted_sums(logits[rows], ids[rows], weights[rows])
        for rows in (slice(0, 1), slice(1, 4))
    ]

    np.testing.assert_allclose(np.sum(parts, axis=0), whole, rtol=1e-6)


@pytest.mark.parametrize("shape", [(2,), (2, 1)])
def test_sentence_order_labels_may_have_a_second_axis(shape):
    logits = np.array([_UNEVEN, _EVEN], "float32")
    labels = np.array([1, 0]).reshape(shape)

    sums = losses.sentence_order_sums(logits, labels, np.ones(2, "f"))

    np.testing.assert_allclose(sums.loss, np.log(4 / 3) + np.log(2), rtol=1e-6)
    assert float(sums.weight) == 2


def test_half_precision_logits_give_float32_losses():
    logits = np.array([_UNEVEN], "float16")

    sums = losses.sentence_order_sums(logits, np.array([1]), _WEIGHTS[:1])

    assert [x.dtype for x in sums[:3]] == ["float32"] * 3


def test_rows_of_weight_zero_do_not_count():
    logits = np.array([[0, 0], [3, 1], [9, 0]], "f")
    labels = np.array([0, 1, 1], "int32")

    sums = losses.weighted_sums(logits, labels, _WEIGHTS)

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


def test_answerability_weighs_as_much_as_one_end():
    log_probs = np.log(np.full((3, 4), 0.25, "f"))
    labels = {
        "start_positions": np.zeros(3, "int32"),
        "end_positions": np.zeros(3, "int32"),
        "is_impossible": np.array([1, 0, 1], "f"),
    }
    outputs = {
        "start_log_probs": log_probs,
        "end_log_probs": log_probs,
        "cls_logits": np.array([2, 2, 0], "f"),
    }

    sums = losses.beam_span_sums(outputs, labels, _WEIGHTS)

    yes, no = np.log(1 + np.exp(-2)), np.log(1 + np.exp(2))
    wanted = 2 * np.log(4) + (yes + no) / 2
    np.testing.assert_allclose(sums.loss, wanted, rtol=1e-5)
    # A positive logit says that there is no answer.
    assert (float(sums.weight), float(sums.answerable_correct)) == (2, 1)
