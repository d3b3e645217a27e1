import functools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling import fused
from albert_tf.modeling.fused import fusion as fusion_lib
from tests import fusing, tiny


def drop_nothing(probabilities, seed):
    return probabilities


attend = functools.partial(fused.attend, drop=drop_nothing)


def gradients(mask, arrays, dtype, fusion):
    *inputs, upstream = (tf.constant(array, dtype) for array in arrays)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        output = attend(*inputs, attention_mask=mask, fusion=fusion)
    return [output, *tape.gradient(output, inputs, upstream)]


def test_a_mask_may_differ_from_query_to_query():
    value = tiny.floats(1, 2, 3, 4)
    mask = np.eye(3, dtype="int32")[None, None]

    result = np.asarray(attend(value, value, value, mask))

    np.testing.assert_allclose(result, value, atol=1e-6)


@pytest.mark.parametrize("is_exact", [False, True])
def test_gradients_are_exact_beside_an_offset(is_exact, monkeypatch):
    monkeypatch.setattr(fusion_lib, "has_float32_softmax", lambda _: is_exact)
    rng = np.random.default_rng(0)
    query, key, value, upstream = rng.normal(size=(4, 2, 3, 64, 32))
    arrays = query, key + 3, value + 3, upstream
    mask = np.ones((2, 1, 1, 64))

    exact, plain, compiled = (
        gradients(mask, arrays, dtype, fusion)
        for dtype, fusion in (
            ("float32", None),
            ("bfloat16", None),
            ("bfloat16", fusing.FusesAll(dtype="bfloat16")),
        )
    )

    for ours, theirs, true in zip(compiled, plain, exact, strict=True):
        error, allowed = (
            np.linalg.norm(tf.cast(one, "float32") - true)
            for one in (ours, theirs)
        )
        assert error < 1.2 * allowed


def test_a_single_key_has_no_gradient():
    rng = np.random.default_rng(0)
    arrays = [*rng.normal(size=(3, 2, 3, 4, 32)), np.ones((2, 3, 4, 32))]
    mask = np.eye(4)[None, None]

    _, query, key, _ = gradients(mask, arrays, "bfloat16", fusing.FusesAll())

    assert not np.any(query) and not np.any(key)
