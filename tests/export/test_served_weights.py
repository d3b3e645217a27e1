import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.export.served_weights import ServedWeights


@pytest.fixture
def layer():
    made = keras.layers.Dense(3)
    made.build((None, 2))
    made.bias.assign([1.001, 2.0, 3.0])
    return made


def test_matrices_are_halved_and_vectors_are_not(layer):
    weights = ServedWeights(layer.weights, precision="bfloat16")

    assert [copy.dtype for copy in weights.copies] == [tf.bfloat16, tf.float32]
    np.testing.assert_array_equal(weights.copies[1], layer.bias)


def test_within_the_scope_the_layer_reads_the_copies(layer):
    weights = ServedWeights(layer.weights, precision="float32")
    values = tf.ones((1, 2))
    expected = layer(values).numpy()
    for variable in layer.weights:
        variable.assign(variable * 0)

    with weights.scope():
        inside = layer(values).numpy()

    np.testing.assert_array_equal(inside, expected)
    assert not layer(values).numpy().any()


def test_a_graph_reads_nothing_else(layer):
    weights = ServedWeights(layer.weights, precision="float32")

    @tf.function(autograph=False)
    def call(values):
        with weights.scope():
            return layer(values)

    graph = call.get_concrete_function(tf.TensorSpec((None, 2))).graph
    assert {v.ref() for v in graph.variables} == {
        copy.ref() for copy in weights.copies
    }
