import numpy as np

from albert_tf.modeling import embeddings
from tests import tiny


def test_values_are_dropped_after_the_normalisation():
    config = tiny.config(hidden_dropout_prob=0.5)
    layer = embeddings.Embeddings(config, seed=1)
    layer.build()
    ids = np.array([[7, 0, 12]])

    exact = np.asarray(layer(ids, np.zeros_like(ids)))
    dropped = np.asarray(layer(ids, np.zeros_like(ids), seed=[1, 2]))

    is_dropped = dropped == 0
    assert 0 < is_dropped.sum() < is_dropped.size
    np.testing.assert_allclose(dropped[~is_dropped], 2 * exact[~is_dropped])
