"""Layers that are computed again for their gradient; `test_step` has more."""

import subprocess
import sys

import keras
import numpy as np
import tensorflow as tf

from albert_tf.modeling.recomputation import Recomputed


class _Counted(keras.layers.Dense):
    """Counts its calls."""

    num_calls = 0

    def call(self, inputs):
        self.num_calls += 1
        return keras.ops.tanh(super().call(inputs))


def _gradients(layer, inputs, call):
    variables = [variable.value for variable in layer.trainable_variables]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        loss = tf.reduce_sum(call(call(call(inputs))) ** 2)
    before = layer.num_calls
    gradients = tape.gradient(loss, [inputs, *variables])
    return gradients, layer.num_calls - before


def test_a_layer_called_again_and_again_has_the_sum_of_its_gradients():
    layer = _Counted(4)
    layer.build((None, 4))
    inputs = tf.random.stateless_normal([2, 4], [1, 2])

    wanted, num_calls = _gradients(layer, inputs, layer)
    got, num_more_calls = _gradients(layer, inputs, Recomputed(layer))

    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    assert (num_calls, num_more_calls) == (0, 3)


_PEAKS = """
import os, resource
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras, tensorflow as tf
from albert_tf.modeling.recomputation import Recomputed

layer = keras.layers.Dense(2048)  # Of 16 MiB.
layer.build((None, 2048))
weights = [variable.value for variable in layer.trainable_variables]

@tf.function
def gradients(num_calls):
    call, hidden = Recomputed(layer), tf.ones((1, 2048))
    with tf.GradientTape() as tape:
        for _ in range(num_calls):
            hidden = call(hidden)
    return tape.gradient(hidden, weights)

for num_calls in (4, 24):
    gradients(num_calls)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_number_of_calls():
    process = subprocess.run(
        [sys.executable, "-c", _PEAKS],
        capture_output=True,
        check=True,
        text=True,
    )

    few, many = (int(line) / 1024 for line in process.stdout.splitlines())

    assert many - few < 100  # 20 gradients more would be 320 MiB.
