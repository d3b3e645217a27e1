"""Layers that are called several times; `test_step` has more."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling import fused, layers
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.feed_forward import FeedForwardSublayer
from tests import fusing, tiny


def _linear(dtype="float32"):
    layer = layers.Linear(64, activation="tanh", dtype=dtype)
    layer.build((None, 64))
    return layer


def _inputs(dtype="float32"):
    return tf.cast(tf.random.stateless_normal([2, 64], [1, 2]), dtype)


def _calls(layer, num_calls, recompute):
    kernels = fused.Kernels(recompute=recompute)
    return kernels.calls([layer], [0] * num_calls)


@pytest.mark.parametrize("make_kernels", [fused.Kernels, fusing.FusesAll])
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_gradients_of_many_calls_are_added_in_float32(
    dtype, recompute, make_kernels
):
    layer, num_calls = _linear(dtype), 24
    inputs = _inputs(layer.compute_dtype)
    weights = [variable.value for variable in layer.trainable_variables]

    def gradients():
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            kernels = make_kernels(recompute=recompute)
            calls = kernels.calls([layer], [0] * num_calls)
            outputs = [call(inputs * (i + 1)) for i, call in enumerate(calls)]
            loss = tf.add_n([tf.reduce_sum(x**2) for x in outputs])
        return tape.gradient(loss, [inputs, *weights])

    wanted = [np.zeros(weight.shape, "float64") for weight in weights]
    plain = []
    for i in range(num_calls):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = tf.reduce_sum(layer(inputs * (i + 1)) ** 2)
        of_inputs, *found = tape.gradient(loss, [inputs, *weights])
        plain.append(tf.cast(of_inputs, tf.float32))
        for total, one in zip(wanted, found, strict=True):
            total += np.asarray(one)

    of_inputs, *got = gradients()

    plain = tf.add_n(plain)
    size = np.abs(plain).max()
    np.testing.assert_allclose(
        tf.cast(of_inputs, tf.float32), plain, rtol=0, atol=0.01 * size
    )
    for one, other in zip(got, wanted, strict=True):
        assert one.dtype == "float32"
        size = np.abs(other).max()
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6 * size)


@pytest.mark.parametrize("recompute", [False, True])
def test_a_matrix_is_cast_once(recompute):
    layer = _linear("mixed_bfloat16")

    @tf.function(autograph=False)
    def run(hidden):
        for call in _calls(layer, 5, recompute=recompute):
            hidden = call(hidden)
        return hidden

    graph = run.get_concrete_function(_inputs("bfloat16")).graph
    num_casts = [
        operation.type == "Cast" and operation.outputs[0].shape == (64, 64)
        for operation in graph.get_operations()
    ]

    # The last of the calls that are recomputed has a copy of its own.
    assert sum(num_casts) == 1 + recompute


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_losses_that_a_layer_adds_are_those_of_plain_calls(dtype, recompute):
    batch = tiny.batch()
    outputs = []

    def gradient(dtype, recompute):
        model = AlbertModel(tiny.config(initializer_range=0.1), dtype=dtype)
        [sublayer] = model.encoder.feed_forward_sublayers
        sublayer.intermediate.activity_regularizer = keras.regularizers.L2(0.01)
        kernels = fused.Kernels(recompute=recompute)
        with fused.computing_with(model, kernels):
            with tf.GradientTape() as tape:
                model(batch)
                outputs.append([float(loss) for loss in model.losses])
                loss = tf.add_n([tf.cast(x, tf.float32) for x in model.losses])
            return tape.gradient(loss, sublayer.intermediate.kernel.value)

    found, wanted = gradient(dtype, recompute), gradient("float32", False)

    assert len(outputs[0]) == 3
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=0.02)
    size = np.abs(wanted).max()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=0.05 * size)


@pytest.mark.parametrize("recompute", [False, True])
def test_a_part_of_another_precision_has_its_weights_in_full(recompute):
    layer = FeedForwardSublayer(
        tiny.config(hidden_size=64), seed=1, dtype="mixed_bfloat16"
    )
    layer.build((None, None, 64))
    layer.intermediate.dtype_policy = "float32"
    seen = []
    layer.intermediate.activation = lambda x: seen.append(x) or x
    inputs = _inputs("bfloat16")[None]

    for call in _calls(layer, 2, recompute=recompute):
        call(inputs)

    wanted = tf.cast(inputs[0], tf.float32) @ layer.intermediate.kernel.value
    for found in seen:
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)


def test_what_is_recomputed_is_called_again_for_its_gradient():
    layer, seen = _linear(), []
    layer.activation = lambda x: seen.append(x) or tf.tanh(x)
    hidden = _inputs()
    with tf.GradientTape() as tape:
        for call in _calls(layer, 3, recompute=True):
            hidden = call(hidden)
        loss = tf.reduce_sum(hidden)
    assert len(seen) == 3

    tape.gradient(loss, layer.kernel.value)

    assert len(seen) == 6


_PEAKS = """
import os, resource
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras, tensorflow as tf
from albert_tf.modeling.fused import Kernels

layer = keras.layers.Dense(2048)  # Of 16 MiB.
layer.build((None, 2048))
weights = [variable.value for variable in layer.trainable_variables]

@tf.function
def gradients(num_calls):
    hidden = tf.ones((1, 2048))
    with tf.GradientTape() as tape:
        for call in Kernels(recompute=True).calls([layer], [0] * num_calls):
            hidden = call(hidden)
    return tape.gradient(hidden, weights)

for num_calls in (4, 24):
    gradients(num_calls)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_calls():
    process = subprocess.run(
        [sys.executable, "-c", _PEAKS],
        capture_output=True,
        check=True,
        text=True,
    )

    few, many = (int(line) / 1024 for line in process.stdout.splitlines())

    assert many - few < 100  # 20 gradients more would be 320 MiB.
