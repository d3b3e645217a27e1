import math

import numpy as np
import pytest

from albert_tf import config
from albert_tf.modeling import feed_forward, layers
from tests import tiny


def test_gelu_is_the_tanh_form():
    x = 1.5
    expected = (
        0.5
        * x
        * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    )

    result = feed_forward.activation("gelu")(np.array([x], "float32"))

    np.testing.assert_allclose(result, [expected], rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("relu", [0.0, 2.0]), ("tanh", np.tanh([-1, 2])), ("linear", [-1.0, 2.0])],
)
def test_other_activations(name, expected):
    result = feed_forward.activation(name)(np.array([-1, 2], "float32"))

    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_every_name_that_a_config_accepts_has_a_function():
    for name in config.ACTIVATIONS:
        assert callable(feed_forward.activation(name))


@pytest.fixture
def hidden():
    return np.random.default_rng(0).standard_normal((2, 5, 8)).astype("f")


def test_the_output_is_dropped_before_the_residual_sum(hidden):
    shape = tiny.config(hidden_dropout_prob=0.999)
    layer = feed_forward.FeedForwardSublayer(shape, seed=0)
    layer.build()

    result = layer(hidden[:1, :1], seed=[1, 2])

    # All 8 values dropped: the residual alone is normalised.
    expected = layers.normalize([hidden[:1, :1]], np.float32(1), np.float32(0))
    np.testing.assert_allclose(result, expected, rtol=1e-5)
