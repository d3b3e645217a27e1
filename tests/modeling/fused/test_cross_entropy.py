import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling import fused
from tests import fusing


def loss_and_gradient(logits, labels):
    logits = tf.constant(logits, "float32")
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = fused.cross_entropy(logits, labels, fusing.FusesAll())
    return loss, tape.gradient(loss, logits)


@pytest.mark.parametrize("label", [-1, 8, 2**32 + 1])
def test_a_label_that_is_no_class_has_no_loss_and_no_gradient(label):
    labels = tf.constant([1, label], tf.int64)

    loss, gradient = loss_and_gradient(np.zeros([2, 8]), labels)

    np.testing.assert_allclose(loss, [np.log(8), np.nan], rtol=1e-6)
    assert np.isfinite(gradient[0]).all()
    assert np.isnan(gradient[1]).all()


def test_a_label_for_each_row_is_needed():
    with pytest.raises(ValueError, match="shape"):
        loss_and_gradient(np.zeros([2, 8]), tf.constant([1]))


@pytest.mark.parametrize("offset", [0, 1000, 10_000])
def test_it_is_exact_beside_an_offset(offset):
    logits = offset + np.array([[0, 1, 3], [2, 0, 0]], "float32")
    shifted = (logits - offset).astype("float64")
    total = np.log(np.exp(shifted).sum(axis=-1))
    expected = np.exp(shifted - total[:, None])
    expected[[0, 1], [2, 1]] -= 1

    loss, gradient = loss_and_gradient(logits, [2, 1])

    np.testing.assert_allclose(loss, total - [3, 0], rtol=1e-6)
    np.testing.assert_allclose(gradient, expected, atol=1e-7)
