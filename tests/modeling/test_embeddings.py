import numpy as np
import pytest

from albert_tf.modeling import embeddings
from tests import tiny


@pytest.fixture
def layer(tiny_config):
    layer = embeddings.Embeddings(tiny_config, seed=1)
    layer.build()
    return layer


def test_refuses_a_sequence_longer_than_the_positions(layer):
    ids = np.zeros((1, 8), "int32")

    with pytest.raises(
        ValueError, match="max_position_embeddings=7.*of 8 tokens"
    ):
        layer(ids, ids)


def test_values_are_dropped_after_the_normalisation():
    config = tiny.config(hidden_dropout_prob=0.5)
    layer = embeddings.Embeddings(config, seed=1)
    layer.build()
    ids = np.array([[7, 0, 12]])

    kept = np.asarray(layer(ids, np.zeros_like(ids)))
    dropped = np.asarray(layer(ids, np.zeros_like(ids), seed=[1, 2]))

    is_dropped = dropped == 0
    assert 0 < is_dropped.sum() < is_dropped.size
    np.testing.assert_allclose(dropped[~is_dropped], 2 * kept[~is_dropped])
