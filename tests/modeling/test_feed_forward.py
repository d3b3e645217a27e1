import numpy as np
import pytest

from albert_tf.modeling import feed_forward, layer_norm
from tests import tiny


@pytest.fixture
def hidden():
    return np.random.default_rng(0).standard_normal((2, 5, 8)).astype("f")


def test_two_linear_layers_residual_and_normalisation(hidden):
    config = tiny.config(hidden_act="relu")
    layer = feed_forward.FeedForwardSublayer(config, seed=0)
    layer.build()
    layer.intermediate.bias.assign(np.arange(6) / 10)
    layer.output_projection.bias.assign(np.arange(8) / 10)

    result = layer(hidden)

    inner = hidden @ layer.intermediate.kernel.numpy() + np.arange(6) / 10
    output = np.maximum(inner, 0) @ layer.output_projection.kernel.numpy()
    output += np.arange(8) / 10
    expected = layer_norm.layer_norm(
        hidden + output, np.float32(1), np.float32(0)
    )
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_the_output_is_dropped_before_the_residual_sum(hidden):
    config = tiny.config(hidden_dropout_prob=0.999)
    layer = feed_forward.FeedForwardSublayer(config, seed=0)
    layer.build()

    result = layer(hidden[:1, :1], seed=[1, 2])

    # All 8 values dropped: the residual alone is normalised.
    expected = layer_norm.layer_norm(
        hidden[:1, :1], np.float32(1), np.float32(0)
    )
    np.testing.assert_allclose(result, expected, rtol=1e-5)
