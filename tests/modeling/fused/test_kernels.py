import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling.fused import kernels
from albert_tf.modeling.operations import PLAIN
from tests import fusing

# Attention.


def drop_nothing(probabilities, seed):
    return probabilities


def gradients(mask, arrays, dtype, operations):
    *inputs, upstream = (tf.constant(array, dtype) for array in arrays)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        output = operations.attend(*inputs, mask, drop=drop_nothing)
    return [output, *tape.gradient(output, inputs, upstream)]


@pytest.mark.parametrize("is_exact", [False, True])
def test_gradients_are_exact_beside_an_offset(is_exact, monkeypatch):
    monkeypatch.setattr(kernels, "has_float32_softmax", lambda _: is_exact)
    rng = np.random.default_rng(0)
    query, key, value, upstream = rng.normal(size=(4, 2, 3, 64, 32))
    arrays = query, key + 3, value + 3, upstream
    mask = np.ones((2, 1, 1, 64))

    exact, plain, compiled = (
        gradients(mask, arrays, dtype, operations)
        for dtype, operations in (
            ("float32", PLAIN),
            ("bfloat16", PLAIN),
            ("bfloat16", fusing.FusesAll(dtype="bfloat16")),
        )
    )

    for ours, theirs, true in zip(compiled, plain, exact, strict=True):
        error, allowed = (
            np.linalg.norm(tf.cast(one, "float32") - true)
            for one in (ours, theirs)
        )
        assert error < 1.2 * allowed


def test_a_single_key_has_no_gradient():
    rng = np.random.default_rng(0)
    arrays = [*rng.normal(size=(3, 2, 3, 4, 32)), np.ones((2, 3, 4, 32))]
    mask = np.eye(4)[None, None]

    _, query, key, _ = gradients(mask, arrays, "bfloat16", fusing.FusesAll())

    assert not np.any(query) and not np.any(key)


# Cross entropy.


def loss_and_gradient(logits, labels):
    logits = tf.constant(logits, "float32")
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = fusing.FusesAll().cross_entropy(logits, labels)
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
