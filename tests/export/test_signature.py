import numpy as np
import pytest
import tensorflow as tf

from albert_tf.export import signature


def trace(function, *specs):
    return tf.function(function, autograph=False).get_concrete_function(*specs)


VALUES = tf.TensorSpec([None], tf.float32)


def test_a_call_into_python_is_refused():
    found = trace(lambda x: tf.numpy_function(np.sin, [x], tf.float32), VALUES)

    with pytest.raises(ValueError, match="'tokens' contains PyFunc, which"):
        signature.check_operations(found, "tokens")


def test_functions_that_the_graph_calls_are_looked_into():
    @tf.function(autograph=False)
    def inner(x):
        return tf.cond(
            tf.reduce_any(x > 0), lambda: tf.math.lgamma(x), lambda: x
        )

    found = trace(lambda x: inner(x), VALUES)

    with pytest.raises(ValueError, match="Lgamma"):
        signature.check_operations(found, "tokens")
