"""Logits that stand for the mean of probabilities."""

import numpy as np
import pytest
import scipy.special
from keras import ops

from albert_tf.tasks import ensemble

_RNG = np.random.default_rng(0)
LOGITS = [_RNG.normal(size=(2, 5), scale=9).astype("float32") for _ in "abc"]


def tensors(arrays):
    return [ops.convert_to_tensor(array) for array in arrays]


def test_the_softmax_is_the_mean():
    found = ensemble.softmax_logits(tensors(LOGITS))
    same = ensemble.softmax_logits(tensors(LOGITS[:1] * 2))

    mean = np.mean([scipy.special.softmax(x, axis=-1) for x in LOGITS], axis=0)
    np.testing.assert_allclose(
        scipy.special.softmax(found, axis=-1), mean, rtol=1e-4
    )
    np.testing.assert_allclose(same, LOGITS[0], rtol=1e-5, atol=1e-5)


def test_padding_has_no_probability():
    mask = np.array([[1, 1, 1, 0, 0], [1] * 5], "int32")

    found = ensemble.softmax_logits(tensors(LOGITS), *tensors([mask]))

    short = ensemble.softmax_logits(tensors(x[:1, :3] for x in LOGITS))
    np.testing.assert_allclose(found[:1, :3], short, rtol=1e-5)
    assert np.all(np.asarray(found)[0, 3:] < -1e8)


@pytest.mark.parametrize("scale", [0.1, 2])
def test_the_sigmoid_is_the_mean(scale):
    logits = [scale * x for x in LOGITS]

    found = ensemble.sigmoid_logits(tensors(logits))

    shares = [scipy.special.expit(x.astype(float)) for x in logits]
    np.testing.assert_allclose(
        found,
        scipy.special.logit(np.mean(shares, axis=0)),
        rtol=1e-4,
        atol=1e-4,
    )
