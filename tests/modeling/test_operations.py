import numpy as np
import pytest

from albert_tf.modeling.operations import PLAIN


@pytest.mark.parametrize(
    ("inputs", "gamma", "beta"),
    [
        ([[1, 2, 3], [10, 20, 60]], [1, 2, 3], [0.5, 0, -1]),
        # An epsilon of 1e-6 would give 0.1.
        ([[1e-4, -1e-4]], [1, 1], [0, 0]),
        ([[3, 3]], [2, 2], [0.5, -1]),
    ],
)
def test_rows_get_mean_beta_and_deviation_gamma(inputs, gamma, beta):
    inputs, gamma, beta = (np.float32(x) for x in (inputs, gamma, beta))
    # Biased: divides by 3. That of a constant row is not 0.
    deviation = np.maximum(inputs.std(axis=-1, keepdims=True), 1e-6)
    mean = inputs.mean(axis=-1, keepdims=True)

    result = PLAIN.add_and_normalize(inputs, gamma=gamma, beta=beta)

    expected = (inputs - mean) / deviation * gamma + beta
    np.testing.assert_allclose(result, expected, rtol=1e-4)
