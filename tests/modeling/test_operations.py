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


def test_a_key_without_attention_has_none_however_high_its_score():
    # A score of 1000, against 0.
    query = np.full((1, 1, 1, 1), 10, "float32")
    key = np.array([[[[100], [0]]]], "float32")
    value = np.array([[[[3], [7]]]], "float32")
    mask = np.array([[[[0, 1]]]], "int32")

    result = PLAIN.attend(
        query, key, value, mask, drop=lambda probabilities, seed: probabilities
    )

    np.testing.assert_array_equal(result, [[[[7.0]]]])
