import math

import numpy as np
import pytest

from albert_tf import config
from albert_tf.modeling import feed_forward
from albert_tf.modeling.operations import PLAIN
from tests import tiny


def test_every_name_that_a_config_accepts_has_a_function():
    assert set(feed_forward.ACTIVATIONS) == set(config.ACTIVATIONS)


def test_the_output_is_dropped_before_the_residual_sum():
    hidden = tiny.floats(1, 1, 8)
    shape = tiny.config(hidden_dropout_prob=0.999)
    layer = feed_forward.FeedForwardSublayer(shape, seed=0)
    layer.build()

    result = layer(hidden, seed=[1, 2])

    # All 8 values dropped: the residual alone is normalised.
    expected = PLAIN.add_and_normalize(
        hidden, gamma=np.float32(1), beta=np.float32(0)
    )
    np.testing.assert_allclose(result, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("relu", [0.0, 2.0]),
        ("silu", [x / (1 + math.exp(-x)) for x in (-1, 2)]),
        ("tanh", np.tanh([-1, 2])),
        ("linear", [-1.0, 2.0]),
        # x times the normal distribution; the tanh form gives 1.954598.
        ("gelu_erf", [x * (1 + math.erf(x / 2**0.5)) / 2 for x in (-1, 2)]),
    ],
)
def test_other_activations(name, expected):
    result = feed_forward.ACTIVATIONS[name](np.array([-1, 2], "float32"))

    np.testing.assert_allclose(result, expected, rtol=1e-6)
