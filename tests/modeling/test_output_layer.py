import numpy as np

from albert_tf.modeling.output_layer import OutputLayer


def test_weights_are_stored_by_output():
    layer = OutputLayer(3, hidden_size=8, seed=0, name="head")
    inputs = np.random.default_rng(0).standard_normal((2, 5, 8)).astype("f")
    layer.output_bias.assign([1, -1, 2])

    logits = layer(inputs)

    weights = np.asarray(layer.output_weights)
    assert weights.shape == (3, 8)
    np.testing.assert_allclose(
        logits, inputs @ weights.T + [1, -1, 2], rtol=1e-5
    )


def test_first_values_are_those_of_the_original_whatever_the_config():
    layer = OutputLayer(500, hidden_size=80, seed=0, name="head")

    # A normal distribution of deviation 0.02, cut at two deviations.
    deviation = np.asarray(layer.output_weights).std()
    assert abs(deviation - 0.02 * 0.8796) < 3e-4


def test_logits_are_float32_in_any_precision():
    layer = OutputLayer(
        2, hidden_size=8, seed=0, dtype="mixed_bfloat16", name="head"
    )

    assert layer(np.ones((1, 8), "f")).dtype == "float32"
