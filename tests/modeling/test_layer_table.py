"""What every layer must do, whatever it computes.

One row a layer: how to make it, and what to call it with.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.attention import AttentionSublayer
from albert_tf.modeling.embeddings import Embeddings
from albert_tf.modeling.encoder import Encoder
from albert_tf.modeling.feed_forward import FeedForwardSublayer
from albert_tf.modeling.heads import MaskedLmHead, SentenceOrderHead
from albert_tf.modeling.layer_norm import LayerNorm
from albert_tf.modeling.pretraining_model import PretrainingModel


@dataclasses.dataclass(frozen=True)
class Row:
    make: Callable[..., Any]
    inputs: tuple[Any, ...]


def _floats(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype("float32")


_IDS = np.array([[1, 12, 0, 5, 6], [3, 4, 12, 0, 0]], "int32")
_SEGMENTS = np.array([[0, 0, 0, 1, 1], [0, 1, 1, 0, 0]], "int32")
_MASK = np.array([[1] * 5, [1] * 3 + [0] * 2], "int32")
_POSITIONS = np.array([[1, 2, 4], [2, 0, 0]], "int32")
_KEYS = _MASK[:, None, None, :]
_BATCH = {
    "input_ids": _IDS,
    "input_mask": _MASK,
    "segment_ids": _SEGMENTS,
    "masked_lm_positions": _POSITIONS,
}
_TABLE = {
    "layer_norm": Row(
        lambda config, **kw: LayerNorm(config.hidden_size, dtype=kw["dtype"]),
        (_floats(2, 5, 8),),
    ),
    "embeddings": Row(Embeddings, (_IDS, _SEGMENTS)),
    "attention": Row(AttentionSublayer, (_floats(2, 5, 8), _KEYS)),
    "feed_forward": Row(FeedForwardSublayer, (_floats(2, 5, 8),)),
    "encoder": Row(Encoder, (_floats(2, 5, 4), _KEYS)),
    "masked_lm_head": Row(
        MaskedLmHead, (_floats(2, 5, 8), _POSITIONS, _floats(13, 4))
    ),
    "sentence_order_head": Row(SentenceOrderHead, (_floats(2, 8),)),
    "albert_model": Row(AlbertModel, (_BATCH,)),
    "pretraining_model": Row(PretrainingModel, (_BATCH,)),
}


@pytest.fixture(params=_TABLE)
def row(request):
    return _TABLE[request.param]


def _make(row, config, dtype="float32"):
    layer = row.make(config, seed=0, dtype=dtype)
    if not layer.built:
        layer.build()
    return layer


def _tensors(outputs):
    return [np.asarray(x, "float32") for x in tf.nest.flatten(outputs)]


def _assert_near(actual, expected, tolerance):
    for ours, theirs in zip(_tensors(actual), _tensors(expected), strict=True):
        assert np.isfinite(ours).all()
        assert np.abs(ours - theirs).max() <= tolerance * np.abs(theirs).max()


@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "xla"])
def test_graph_and_xla_equal_eager(row, tiny_config, jit_compile):
    layer = _make(row, tiny_config)
    compiled = tf.function(layer, jit_compile=jit_compile)

    _assert_near(compiled(*row.inputs), layer(*row.inputs), 1e-5)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("mixed_bfloat16", 0.1), ("mixed_float16", 0.02)]
)
def test_mixed_precision_is_near_and_keeps_float32_weights(
    row, tiny_config, dtype, tolerance
):
    exact = _make(row, tiny_config)
    mixed = _make(row, tiny_config, dtype)

    assert {w.dtype for w in mixed.weights} == {"float32"}
    _assert_near(mixed(*row.inputs), exact(*row.inputs), tolerance)


def test_every_weight_gets_a_gradient(row, tiny_config):
    layer = _make(row, tiny_config)
    with tf.GradientTape() as tape:
        outputs = tf.nest.flatten(layer(*row.inputs))
        # Not the plain sum: that of a normalised row does not depend on it.
        loss = sum(tf.reduce_sum(x * _floats(*x.shape)) for x in outputs)

    gradients = tape.gradient(loss, [w.value for w in layer.trainable_weights])

    for weight, gradient in zip(
        layer.trainable_weights, gradients, strict=True
    ):
        assert gradient is not None, weight.path
        gradient = tf.convert_to_tensor(gradient)
        # Softmax does not see what all keys have in common.
        if not weight.path.endswith("key/bias"):
            assert np.abs(gradient).max() > 1e-6, weight.path


@pytest.mark.parametrize("name", ["albert_model", "pretraining_model"])
@pytest.mark.parametrize("strategy", ["all", "attention", "ffn", "none"])
def test_saved_weights_are_read_back(name, strategy, tiny_config, tmp_path):
    config = dataclasses.replace(tiny_config, parameter_sharing=strategy)
    path = str(tmp_path / "model.weights.h5")
    row = _TABLE[name]
    saved = row.make(config, seed=1)
    saved.save_weights(path)

    read = row.make(config, seed=2)
    read.load_weights(path)

    for ours, theirs in zip(read.weights, saved.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    _assert_near(read(*row.inputs), saved(*row.inputs), 1e-7)


def test_dropout_runs_in_graph_and_xla(tiny_config):
    config = dataclasses.replace(
        tiny_config, hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.2
    )
    model = PretrainingModel(config)

    for jit_compile in (False, True):
        run = tf.function(model, jit_compile=jit_compile)
        first, again, other = (
            run(_BATCH, training=True, seed=tf.constant(seed))
            for seed in ([1, 2], [1, 2], [1, 3])
        )
        _assert_near(first, again, 0)
        logits = [np.asarray(x["masked_lm_logits"]) for x in (first, other)]
        assert (logits[0] != logits[1]).any()
