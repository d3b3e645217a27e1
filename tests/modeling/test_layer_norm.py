import numpy as np

from albert_tf.modeling import layer_norm


def test_rows_get_mean_beta_and_deviation_gamma():
    inputs = np.array([[1, 2, 3], [10, 20, 60]], "float32")
    gamma = np.array([1, 2, 3], "float32")
    beta = np.array([0.5, 0, -1], "float32")
    deviation = inputs.std(axis=-1, keepdims=True)  # biased: divides by 3
    mean = inputs.mean(axis=-1, keepdims=True)

    result = layer_norm.layer_norm(inputs, gamma, beta)

    expected = (inputs - mean) / deviation * gamma + beta
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_epsilon_does_not_move_rows_of_small_variance():
    inputs = np.array([[1e-4, -1e-4]], "float32")

    result = layer_norm.layer_norm(inputs, np.float32(1), np.float32(0))

    # An epsilon of 1e-6 would give 0.1.
    np.testing.assert_allclose(result, [[1, -1]], rtol=1e-3)


def test_a_constant_row_becomes_beta():
    inputs = np.full((1, 4), 3.0, "float32")

    result = layer_norm.layer_norm(inputs, np.float32(2), np.float32(0.5))

    np.testing.assert_allclose(result, np.full((1, 4), 0.5))


def test_arithmetic_is_float32_in_mixed_precision():
    # In float16 the squares of these would overflow.
    layer = layer_norm.LayerNorm(2, dtype="mixed_float16")
    layer.build()

    result = layer(np.array([[1000, -1000]], "float16"))

    assert layer.gamma.dtype == "float32"
    assert result.dtype == "float16"
    np.testing.assert_allclose(result, [[1, -1]], rtol=1e-3)
