import math

import numpy as np
import pytest

from albert_tf import config
from albert_tf.modeling import activations


def test_gelu_is_the_tanh_form():
    x = 1.5
    expected = (
        0.5
        * x
        * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    )

    result = activations.activation("gelu")(np.array([x], "float32"))

    np.testing.assert_allclose(result, [expected], rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("relu", [0.0, 2.0]), ("tanh", np.tanh([-1, 2])), ("linear", [-1.0, 2.0])],
)
def test_other_activations(name, expected):
    result = activations.activation(name)(np.array([-1, 2], "float32"))

    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_every_name_that_a_config_accepts_has_a_function():
    for name in config.ACTIVATIONS:
        assert callable(activations.activation(name))
