"""The compiled parts: values and gradients are those of the plain ones."""

import functools
import threading

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling import attention, feed_forward, kernels, layers, losses

compile_whole = functools.partial(
    tf.function, jit_compile=True, autograph=False
)
# The plain parts round after every operation in bfloat16.
TOLERANCES = {"float32": 3e-6, "bfloat16": 0.03}


def attend(query, key, value, *, rate=0.0):
    mask = np.array([[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    # In bfloat16, not so large that probabilities are 0 or 1.
    size = 1 if query.dtype == "float32" else 3
    return attention.attend(
        query / size,
        key / size,
        value,
        mask[:, None, None],
        rate=rate,
        seed=[1, 2],
    )


@pytest.fixture(autouse=True)
def any_size(monkeypatch):
    monkeypatch.setattr(kernels, "SMALLEST_SIZE", 0)


def normalize_sum(first, second, gamma, beta):
    return layers.normalize([first, second], gamma, beta)


def cross_entropy(logits):
    labels = np.array([[0, 7, 3, 3, 1], [2, 2, 0, 5, 6], [4, 0, 7, 1, 1]])
    return losses.cross_entropy(logits, labels)


PARTS = {
    "cross entropy": (cross_entropy, [(3, 5, 8)]),
    "sum": (kernels.add, [(3, 5, 8), (3, 5, 8), (5, 8), (8,)]),
    "gelu": (feed_forward.gelu, [(3, 5, 8)]),
    "gelu with a bias": (feed_forward.gelu, [(3, 5, 8), (8,)]),
    "attention": (attend, [(3, 2, 4, 16)] * 3),
    "attention with dropout": (
        functools.partial(attend, rate=0.4),
        [(3, 2, 4, 16)] * 3,
    ),
    "layer norm": (normalize_sum, [(3, 5, 8), (3, 5, 8), (8,), (8,)]),
}


def values_and_gradients(part, inputs, upstream, *settings):
    with kernels.compiled_by(*settings), tf.GradientTape() as tape:
        tape.watch(inputs)
        output = part(*inputs)
    return [output, *tape.gradient(output, inputs, upstream)]


@pytest.mark.parametrize("softmax_dtypes", [(), ["bfloat16"]])
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("name", PARTS)
def test_a_compiled_part_has_the_values_and_gradients_of_the_plain_one(
    name, dtype, softmax_dtypes
):
    part, shapes = PARTS[name]
    rng = np.random.default_rng(0)
    inputs = [
        tf.constant(
            3 * rng.normal(size=shape),
            # Scale and shift are float32 in every precision.
            dtype if len(shape) > 1 else "float32",
        )
        for shape in shapes
    ]
    output = part(*inputs)
    upstream = tf.constant(rng.normal(size=output.shape), output.dtype)

    plain, compiled = (
        values_and_gradients(part, inputs, upstream, *settings)
        for settings in ([None], [compile_whole, softmax_dtypes])
    )

    for ours, theirs in zip(compiled, plain, strict=True):
        assert ours.dtype == theirs.dtype
        ours, theirs = (tf.cast(x, tf.float32) for x in (ours, theirs))
        size = np.abs(theirs).max()
        np.testing.assert_allclose(
            ours, theirs, rtol=0, atol=size * TOLERANCES[dtype]
        )


@pytest.mark.parametrize("softmax_dtypes", [(), ["bfloat16"]])
def test_gradients_of_attention_are_exact_beside_an_offset(softmax_dtypes):
    rng = np.random.default_rng(0)
    query, key, value, upstream = rng.normal(size=(4, 2, 3, 64, 32))
    arrays = query, key + 3, value + 3, upstream
    mask = np.ones((2, 1, 1, 64))

    def gradients(dtype, *settings):
        *inputs, upstream = (tf.constant(array, dtype) for array in arrays)
        part = functools.partial(attention.attend, attention_mask=mask)
        return values_and_gradients(part, inputs, upstream, *settings)

    exact = gradients("float32", None)
    plain = gradients("bfloat16", None)
    compiled = gradients("bfloat16", compile_whole, softmax_dtypes)

    for ours, theirs, true in zip(compiled, plain, exact, strict=True):
        error, allowed = (
            np.linalg.norm(tf.cast(one, "float32") - true)
            for one in (ours, theirs)
        )
        assert error < 1.2 * allowed


def test_a_single_key_has_no_gradient():
    rng = np.random.default_rng(0)
    inputs = [
        tf.constant(array, "bfloat16")
        for array in rng.normal(size=(3, 2, 3, 4, 32))
    ]
    part = functools.partial(
        attention.attend, attention_mask=np.eye(4)[None, None]
    )

    _, query, key, _ = values_and_gradients(
        part, inputs, tf.ones_like(inputs[0]), compile_whole
    )

    assert not np.any(query) and not np.any(key)


@pytest.mark.parametrize("label", [-1, 8, 2**32 + 1])
def test_a_label_that_is_no_class_has_no_loss_and_no_gradient(label):
    logits, labels = tf.zeros([2, 8]), tf.constant([1, label], tf.int64)

    loss, gradient = values_and_gradients(
        lambda logits: losses.cross_entropy(logits, labels),
        [logits],
        tf.ones([2]),
        compile_whole,
    )

    np.testing.assert_allclose(loss, [np.log(8), np.nan], rtol=1e-6)
    assert np.isfinite(gradient[0]).all()
    assert np.isnan(gradient[1]).all()


def test_a_label_for_each_row_is_needed():
    with (
        kernels.compiled_by(compile_whole),
        pytest.raises(ValueError, match="shape"),
    ):
        losses.cross_entropy(tf.zeros([2, 8]), tf.constant([1]))


@pytest.mark.parametrize("offset", [0, 1000, 10_000])
def test_the_cross_entropy_is_exact_beside_an_offset(offset):
    logits = offset + np.array([[0, 1, 3], [2, 0, 0]], "float32")
    shifted = (logits - offset).astype("float64")
    total = np.log(np.exp(shifted).sum(axis=-1))
    expected = np.exp(shifted - total[:, None])
    expected[[0, 1], [2, 1]] -= 1

    loss, gradient = values_and_gradients(
        lambda logits: losses.cross_entropy(logits, [2, 1]),
        [tf.constant(logits)],
        tf.ones([2]),
        compile_whole,
    )

    np.testing.assert_allclose(loss, total - [3, 0], rtol=1e-6)
    np.testing.assert_allclose(gradient, expected, atol=1e-7)


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
    assert kernels.add(tf.ones([2, 0, 8]), tf.ones([0, 8])).shape == (2, 0, 8)


def test_small_parts_are_plain(monkeypatch):
    monkeypatch.setattr(kernels, "SMALLEST_SIZE", 7)
    called = []

    def compiler(function):
        called.append(function)
        return function

    with kernels.compiled_by(compiler):
        feed_forward.gelu(tf.ones([2, 3]))
        assert not called
        tf.function(feed_forward.gelu).get_concrete_function(
            tf.TensorSpec([None, 1])
        )
    assert called


def test_each_part_is_compiled_once_in_a_block_and_not_outside():
    compiled = []

    def compiler(function):
        compiled.append(function)
        return function

    inputs = tf.ones([2, 3])
    feed_forward.gelu(inputs)
    with kernels.compiled_by(compiler):
        for _ in range(3):
            feed_forward.gelu(inputs)
        # Of another thread, which may train another model.
        thread = threading.Thread(target=feed_forward.gelu, args=(inputs,))
        thread.start()
        thread.join()
    feed_forward.gelu(inputs)

    assert len(compiled) == 1  # the gradient when it is needed
