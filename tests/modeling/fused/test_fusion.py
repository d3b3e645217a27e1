"""Compiled operations have the values and gradients of the plain ones."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling import dropout, fused
from albert_tf.modeling import operations as operations_lib
from albert_tf.modeling.fused import fusion as fusion_lib
from albert_tf.modeling.fused import kernels
from tests import fusing

# The plain operations round after every one in bfloat16.
TOLERANCES = {"float32": 3e-6, "bfloat16": 0.03}


def attend(operations, query, key, value, rate=0.0):
    mask = np.array([[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    # In bfloat16, not so large that probabilities are 0 or 1.
    size = 1 if query.dtype == "float32" else 3
    return operations.attend(
        query / size,
        key / size,
        value,
        mask[:, None, None],
        drop=functools.partial(dropout.dropout, rate=rate, dropout_index=0),
        seed=[1, 2],
    )


def add_and_normalize(operations, first, second, gamma, beta):
    return operations.add_and_normalize(first, second, gamma=gamma, beta=beta)


def cross_entropy(operations, logits):
    labels = np.array([[0, 7, 3, 3, 1], [2, 2, 0, 5, 6], [4, 0, 7, 1, 1]])
    return operations.cross_entropy(logits, labels)


def add_several(operations, *addends):
    is_plain = operations is operations_lib.PLAIN
    return (operations_lib if is_plain else operations).add(*addends)


def linear(operations, *inputs, activation=keras.activations.linear):
    return operations.linear(*inputs, activation=activation)


OPERATIONS = {
    "cross entropy": (cross_entropy, [(3, 5, 8)]),
    "sum": (add_several, [(3, 5, 8), (3, 5, 8), (5, 8), (8,)]),
    "linear": (linear, [(3, 5, 8), (8, 4), (4,)]),
    "linear of vectors": (linear, [(3, 8), (8, 4), (4,)]),
    "linear with gelu": (
        functools.partial(linear, activation=operations_lib.gelu),
        [(3, 5, 8), (8, 4), (4,)],
    ),
    "linear with gelu by erf": (
        functools.partial(linear, activation=operations_lib.gelu_erf),
        [(3, 5, 8), (8, 4), (4,)],
    ),
    "linear without a bias": (linear, [(3, 5, 8), (8, 4)]),
    "attention": (attend, [(3, 2, 4, 16)] * 3),
    "attention with dropout": (
        functools.partial(attend, rate=0.4),
        [(3, 2, 4, 16)] * 3,
    ),
    "layer norm": (add_and_normalize, [(3, 5, 8), (3, 5, 8), (8,), (8,)]),
}


def values_and_gradients(operation, inputs, upstream, operations):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        output = operation(operations, *inputs)
    return [output, *tape.gradient(output, inputs, upstream)]


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(
    ("name", "softmax"),
    [
        *((name, "compiled") for name in OPERATIONS),
        ("attention with dropout", "of the back end"),
    ],
)
def test_values_and_gradients_are_those_of_the_plain_operation(
    name, dtype, softmax, monkeypatch
):
    monkeypatch.setattr(
        kernels, "has_float32_softmax", lambda _: softmax != "compiled"
    )
    operation, shapes = OPERATIONS[name]
    rng = np.random.default_rng(0)
    inputs = [
        tf.constant(
            3 * rng.normal(size=shape),
            # Vectors are float32 in every precision.
            dtype if len(shape) > 1 else "float32",
        )
        for shape in shapes
    ]
    output = operation(operations_lib.PLAIN, *inputs)
    upstream = tf.constant(rng.normal(size=output.shape), output.dtype)

    plain, compiled = (
        values_and_gradients(operation, inputs, upstream, operations)
        for operations in (operations_lib.PLAIN, fusing.FusesAll(dtype=dtype))
    )

    for ours, theirs in zip(compiled, plain, strict=True):
        assert ours.dtype == theirs.dtype
        ours, theirs = (tf.cast(x, tf.float32) for x in (ours, theirs))
        size = np.abs(theirs).max()
        np.testing.assert_allclose(
            ours, theirs, rtol=0, atol=size * TOLERANCES[dtype]
        )


def test_a_softmax_that_rounds_at_every_step_is_not_used(monkeypatch):
    def rounding(inputs):
        powers = tf.exp(inputs)
        return powers / tf.reduce_sum(powers, -1, keepdims=True)

    def exact(inputs):
        return tf.cast(tf.nn.softmax(tf.cast(inputs, "float32")), inputs.dtype)

    has_float32_softmax = kernels.has_float32_softmax.__wrapped__
    for dtype in ("bfloat16", "float16"):
        monkeypatch.setattr(kernels.ops, "softmax", rounding)
        assert not has_float32_softmax(dtype)
        monkeypatch.setattr(kernels.ops, "softmax", exact)
        assert has_float32_softmax(dtype)


def test_sequences_may_be_empty():
    outputs = operations_lib.PLAIN.add_and_normalize(
        tf.ones([2, 0, 8]), tf.ones([0, 8]), gamma=tf.ones(8), beta=tf.ones(8)
    )

    assert outputs.shape == (2, 0, 8)


def test_small_operations_are_plain(monkeypatch):
    monkeypatch.setattr(fusion_lib, "SMALLEST_SIZE", 7)
    compiled = []

    def compiler(function):
        compiled.append(function)
        return function

    operations = fused.Kernels(compiler)
    vector = {"gamma": tf.ones(1), "beta": tf.ones(1)}
    normalize = functools.partial(operations.add_and_normalize, **vector)
    normalize(tf.ones([2, 3]))
    assert not compiled
    tf.function(normalize).get_concrete_function(tf.TensorSpec([None, 1]))
    for _ in range(3):
        normalize(tf.ones([2, 4]))
    assert len(compiled) == 1  # the gradient when it is needed
