"""Attention within a window is attention under a mask of the same shape."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.fused import computing_with
from albert_tf.modeling.sequence_models import (
    ClassifierModel,
    MultipleChoiceModel,
)
from albert_tf.modeling.span_models import SpanModel
from tests import tiny

_LENGTH = 23
_FIELDS = {"max_position_embeddings": 64, "initializer_range": 0.2}


def _batch(length=_LENGTH):
    rng = np.random.default_rng(0)
    lengths = np.array([length, length - 7, 3])[:, None]
    segment_ids = np.zeros((3, length), "int32")
    segment_ids[:, 6:] = 1
    return {
        "input_ids": rng.integers(1, tiny.VOCAB_SIZE, (3, length), "int32"),
        "input_mask": (np.arange(length) < lengths).astype("int32"),
        "segment_ids": segment_ids,
    }


def _models(window, global_segment=None, **fields):
    fields = _FIELDS | fields
    full = AlbertModel(tiny.config(**fields), seed=1)
    return full, AlbertModel(
        tiny.config(attention_window=window, **fields),
        global_segment=global_segment,
        seed=1,
    )


def _mask(batch, window, global_segment):
    """Returns what may be attended to, `[B, 1, S, S]`."""
    is_token = batch["input_mask"] == 1
    position = np.arange(is_token.shape[1])
    is_marked = (position == 0) | (batch["segment_ids"] == global_segment)
    is_marked &= is_token
    is_global = is_marked & (np.cumsum(is_marked, axis=1) <= window)
    is_near = np.abs(position[:, None] - position) <= window
    mask = is_near | is_global[:, None] | is_global[:, :, None]
    return (mask & is_token[:, None]).astype("int32")[:, None]


@pytest.mark.parametrize(
    ("window", "global_segment"),
    [(1, None), (4, None), (5, 1), (8, 0), (23, 1), (40, 0)],
)
def test_vectors_and_gradients_are_those_of_a_mask(
    window, global_segment, operations
):
    full, model = _models(window, global_segment)
    batch = _batch()
    mask = _mask(batch, window, global_segment)
    full.attention_mask = lambda *_: mask
    is_token = batch["input_mask"][..., None].astype("float32")
    weights = np.random.default_rng(1).normal(size=(3, _LENGTH, 1))
    results = []
    for one in (full, model):
        with computing_with(one, operations), tf.GradientTape() as tape:
            outputs = one(batch)
            total = tf.reduce_sum(
                outputs["sequence_output"] ** 3 * weights * is_token
            )
        gradients = tape.gradient(
            total, [v.value for v in one.trainable_variables[:-2]]
        )
        results.append(
            (
                outputs["sequence_output"] * is_token,
                [tf.convert_to_tensor(g) for g in gradients],
            )
        )

    (expected, expected_gradients), (vectors, gradients) = results
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    for ours, theirs in zip(gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(
            ours, theirs, atol=1e-5 * max(1, np.abs(theirs).max())
        )


def test_it_can_be_compiled_by_xla():
    _, model = _models(6)
    compiled = tf.function(model, jit_compile=True, autograph=False)
    expected = model(_batch())["sequence_output"]
    np.testing.assert_allclose(
        compiled(_batch())["sequence_output"], expected, atol=1e-5
    )


@pytest.mark.parametrize(
    ("make", "global_segment"),
    [
        (SpanModel, 0),
        (MultipleChoiceModel, 1),
        (functools.partial(ClassifierModel, num_labels=3), None),
    ],
)
def test_the_question_is_global(make, global_segment):
    model = make(tiny.config(attention_window=4, **_FIELDS))
    assert model.albert.global_segment == global_segment


def test_dropout_of_global_tokens_is_of_its_own():
    fields = _FIELDS | {"attention_probs_dropout_prob": 0.5}
    model = AlbertModel(tiny.config(attention_window=4, **fields), seed=1)
    first, again, other = (
        np.array(model(_batch(), training=True, seed=seed)["pooled_output"])
        for seed in ([1, 2], [1, 2], [3, 4])
    )
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)


def test_what_openvino_computes_wrongly_is_refused(tmp_path):
    _, model = _models(4)
    with pytest.raises(ValueError, match="OpenVINO computes other numbers"):
        model.export(str(tmp_path / "model.xml"), format="openvino")
