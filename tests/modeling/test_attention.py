import numpy as np
import pytest

from albert_tf.modeling import attention
from tests import tiny

_EVERYTHING = np.ones((1, 1, 1, 3), "int32")


def test_heads_are_slices_of_the_vectors():
    layer = attention.AttentionSublayer(tiny.config(num_attention_heads=4))
    vectors = tiny.floats(2, 3, 8)

    heads = layer._split_heads(vectors, vectors.shape)

    np.testing.assert_array_equal(heads[:, 1], vectors[..., 2:4])


@pytest.mark.parametrize(
    "rate", ["attention_probs_dropout_prob", "hidden_dropout_prob"]
)
def test_both_places_drop_values(rate):
    config = tiny.config(**{rate: 0.5})
    layer = attention.AttentionSublayer(config, seed=0)
    layer.build()
    hidden = np.random.default_rng(0).standard_normal((1, 3, 8)).astype("f")

    def run(seed=None, site=0):
        return np.asarray(layer(hidden, _EVERYTHING, seed=seed, site=site))

    assert (run([1, 2]) != run()).any()
    assert (run([1, 2]) != run([1, 2], site=9)).any()
    np.testing.assert_array_equal(run([1, 2]), run([1, 2]))
