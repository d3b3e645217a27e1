"""A graph that is no longer used takes its gradients with it."""

import gc

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import ops as framework

from tests import fusing


def test_tensorflow_forgets_a_gradient_with_its_graph():
    def names():
        registered = framework.gradient_registry.list()
        return {name for name in registered if name.startswith("CustomGrad")}

    @tf.function
    def gradient(values):
        with tf.GradientTape() as tape:
            tape.watch(values)
            total = operations.add(values, values)
        return tape.gradient(total, values)

    operations, before = fusing.FusesAll(), names()
    np.testing.assert_array_equal(gradient(tf.ones([2, 3])), np.full([2, 3], 2))
    assert names() > before
    del gradient
    gc.collect()

    assert names() <= before
