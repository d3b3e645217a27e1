import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling import embeddings, layer_norm
from tests import tiny


@pytest.fixture
def layer(tiny_config):
    layer = embeddings.Embeddings(tiny_config, seed=1)
    layer.build()
    return layer


def test_sums_word_segment_and_position_then_normalises(layer):
    ids, segments = np.array([[7, 0, 12]]), np.array([[0, 1, 1]])
    word = np.asarray(layer.word_embeddings)[ids]
    segment = np.asarray(layer.token_type_embeddings)[segments]
    position = np.asarray(layer.position_embeddings)[:3]

    result = layer(ids, segments)

    expected = layer_norm.layer_norm(
        word + segment + position, np.float32(1), np.float32(0)
    )
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_refuses_a_sequence_longer_than_the_positions(layer):
    ids = np.zeros((1, 8), "int32")

    with pytest.raises(
        ValueError, match="max_position_embeddings=7.*of 8 tokens"
    ):
        layer(ids, ids)


def test_the_length_may_be_unknown_in_a_graph(layer):
    signature = tf.TensorSpec([None, None], "int32")
    embed = tf.function(
        lambda ids: layer(ids, tf.zeros_like(ids)), input_signature=[signature]
    )
    ids = np.array([[7, 0, 12]], "int32")

    np.testing.assert_allclose(
        embed(ids), layer(ids, np.zeros_like(ids)), rtol=1e-6
    )


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
