import math

import numpy as np
import pytest

from albert_tf.modeling import fused


def test_gelu_is_the_tanh_form():
    x = 1.5
    expected = (
        0.5
        * x
        * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    )

    result = fused.gelu(np.array([x], "float32"))

    np.testing.assert_allclose(result, [expected], rtol=1e-6)


@pytest.mark.parametrize(
    ("inputs", "gamma", "beta"),
    [
        ([[1, 2, 3], [10, 20, 60]], [1, 2, 3], [0.5, 0, -1]),
        # An epsilon of 1e-6 would give 0.1.
        ([[1e-4, -1e-4]], [1, 1], [0, 0]),
    ],
)
def test_rows_get_mean_beta_and_deviation_gamma(inputs, gamma, beta):
    inputs, gamma, beta = (np.float32(x) for x in (inputs, gamma, beta))
    deviation = inputs.std(axis=-1, keepdims=True)  # biased: divides by 3
    mean = inputs.mean(axis=-1, keepdims=True)

    result = fused.add_and_normalize(inputs, gamma=gamma, beta=beta)

    expected = (inputs - mean) / deviation * gamma + beta
    np.testing.assert_allclose(result, expected, rtol=1e-4)


def test_a_constant_row_becomes_beta():
    result = fused.add_and_normalize(
        np.full((1, 4), 3.0, "float32"),
        gamma=np.float32(2),
        beta=np.float32(0.5),
    )

    np.testing.assert_allclose(result, np.full((1, 4), 0.5))
