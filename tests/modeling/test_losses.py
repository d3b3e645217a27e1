import numpy as np
import pytest

from albert_tf.modeling import losses

# Probabilities 1/4 and 3/4, or even.
_UNEVEN = [0.0, np.log(3)]
_EVEN = [5.0, 5.0]


def test_cross_entropy_is_minus_the_log_probability():
    logits = np.array([[_UNEVEN, _EVEN]], "float32")

    result = losses.cross_entropy(logits, np.array([[1, 0]]))

    np.testing.assert_allclose(result, [[np.log(4 / 3), np.log(2)]], rtol=1e-6)


def test_masked_lm_sums_weigh_losses_and_hits():
    logits = np.array([[_UNEVEN, _UNEVEN, _UNEVEN]], "float32")
    ids = np.array([[1, 0, 1]])
    weights = np.array([[1, 1, 0]], "float32")

    sums = losses.masked_lm_sums(logits, ids, weights)

    np.testing.assert_allclose(sums.loss, np.log(4 / 3) + np.log(4), rtol=1e-6)
    assert float(sums.weight) == 2
    assert float(sums.correct) == 1


def test_a_batch_without_targets_has_loss_zero():
    logits = np.array([[_UNEVEN]], "float32")

    sums = losses.masked_lm_sums(logits, np.array([[1]]), np.array([[0.0]]))

    assert float(sums.loss / (sums.weight + losses.MASKED_LM_EPSILON)) == 0


def test_parts_of_a_batch_add_up():
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((4, 3, 5)).astype("float32")
    ids = rng.integers(0, 5, (4, 3))
    weights = np.array([[1, 1, 1], [1, 0, 0], [1, 1, 0], [0, 0, 0]], "f")

    whole = losses.masked_lm_sums(logits, ids, weights)
    parts = [
        losses.masked_lm_sums(logits[rows], ids[rows], weights[rows])
        for rows in (slice(0, 1), slice(1, 4))
    ]

    np.testing.assert_allclose(np.sum(parts, axis=0), whole, rtol=1e-6)


@pytest.mark.parametrize("shape", [(2,), (2, 1)])
def test_sentence_order_labels_may_have_a_second_axis(shape):
    logits = np.array([_UNEVEN, _EVEN], "float32")
    labels = np.array([1, 0]).reshape(shape)

    sums = losses.sentence_order_sums(logits, labels)

    np.testing.assert_allclose(sums.loss, np.log(4 / 3) + np.log(2), rtol=1e-6)
    assert float(sums.weight) == 2


def test_rows_that_fill_up_a_batch_count_nothing():
    logits = np.array([_UNEVEN, _EVEN], "float32")

    sums = losses.sentence_order_sums(
        logits, np.array([1, 0]), np.array([1.0, 0.0])
    )

    np.testing.assert_allclose(sums, [np.log(4 / 3), 1, 1], rtol=1e-6)


def test_half_precision_logits_give_float32_losses():
    logits = np.array([_UNEVEN], "float16")

    sums = losses.sentence_order_sums(logits, np.array([1]))

    assert [x.dtype for x in sums] == ["float32"] * 3
