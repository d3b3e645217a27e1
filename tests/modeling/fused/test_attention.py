"""Attention in one kernel has the numbers of the formula, on every engine."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.fused import (
    FlashAttention,
    attention,
    computing_with,
)
from albert_tf.modeling.operations import PLAIN
from tests import tiny

_ROOT = pathlib.Path(__file__).resolve().parents[3]
_PROGRAM = """
import sys
import keras
import numpy as np
import albert_tf
from albert_tf.modeling import fused, operations

class Counted(fused.FlashAttention):
    num_kernels = 0

    def attend(self, *args, drop, seed=None):
        Counted.num_kernels += seed is None
        return super().attend(*args, drop=drop, seed=seed)

found = {}
batch = {
    "input_ids": np.arange(16).reshape(2, 8).astype("int32"),
    "input_mask": np.array([[1] * 8, [1] * 5 + [0] * 3], "int32"),
}
# Most weights have one shape: JAX compiles the initial values of each shape.
config = albert_tf.AlbertConfig(
    vocab_size=16, embedding_size=16, hidden_size=16, num_hidden_layers=2,
    num_attention_heads=2, intermediate_size=16, initializer_range=0.4,
    max_position_embeddings=16, hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0)
for name, used in (("plain", operations.PLAIN), ("flash", Counted())):
    model = albert_tf.ClassifierModel(config, num_labels=2, seed=1)
    before = [variable.numpy() for variable in model.trainable_variables]
    with fused.computing_with(model, used):
        found[f"{name}/logits"] = model.predict(batch, verbose=0)["logits"]
        # With a rate of 1, the weights change by their gradients.
        model.compile(keras.optimizers.SGD(1.0), loss={"logits": "mse"})
        model.train_on_batch(batch, {"logits": np.array([[3, 1], [2, 0.5]])})
    after = [variable.numpy() for variable in model.trainable_variables]
    found[f"{name}/gradients"] = np.concatenate(
        [np.ravel(a - b) for a, b in zip(after, before)])
assert Counted.num_kernels >= 4
assert "tensorflow" not in sys.modules
np.savez(sys.argv[1], **found)
"""


@pytest.mark.parametrize(
    "engine", ["jax", pytest.param("torch", marks=pytest.mark.slow)]
)
def test_logits_and_gradients_beside_padding(engine, tmp_path):
    python = sys.executable
    if engine == "jax":
        pytest.importorskip("jax", reason="needs the development extra (jax)")
    elif not (python := os.environ.get("ALBERT_TF_PEER_PYTHON")):
        pytest.skip("ALBERT_TF_PEER_PYTHON names no Python with PyTorch")
    path = tmp_path / "found.npz"
    subprocess.run(
        [python, "-c", _PROGRAM, path],
        env=os.environ
        | {
            "KERAS_BACKEND": engine,
            "JAX_PLATFORMS": "cpu",
            # Compiles in less time than the tiny models could make up for.
            "XLA_FLAGS": "--xla_backend_optimization_level=0",
        },
        cwd=_ROOT,
        check=True,
    )

    found = np.load(path)
    for key in ("logits", "gradients"):
        wanted = found[f"plain/{key}"]
        change = np.abs(found[f"flash/{key}"] - wanted).max()
        assert change <= 1e-5 * np.abs(wanted).max(), key


def _outputs(operations, rate=0.0, **options):
    config = tiny.config(attention_probs_dropout_prob=rate)
    model = AlbertModel(config, seed=1)
    with computing_with(model, operations):
        return model(model.inputs_of(tiny.batch()), **options)


def test_some_positions_alone():
    options = {"output_positions": tf.constant([[0, 4, 2], [0, 1, 1]])}

    wanted = _outputs(PLAIN, **options)["sequence_output"]
    found = _outputs(FlashAttention(), **options)["sequence_output"]

    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_a_mask_with_a_row_for_each_query():
    heads = [tiny.floats(2, 3, 5, 4) * scale for scale in (1, 2, 3)]
    mask = np.tril(np.ones((2, 1, 5, 5), "int32"))

    wanted, found = (
        operations.attend(*heads, mask, drop=lambda values, seed: values)
        for operations in (PLAIN, FlashAttention())
    )

    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_dropped_probabilities_are_those_of_the_formula():
    options = {"training": True, "seed": tf.constant([1, 2])}

    wanted = _outputs(PLAIN, 0.5, **options)
    found = _outputs(FlashAttention(), 0.5, **options)

    without = _outputs(PLAIN, **options)
    for name, values in wanted.items():
        np.testing.assert_array_equal(found[name], values)
    assert (without["pooled_output"] != wanted["pooled_output"]).numpy().any()


def test_training_without_dropped_probabilities_has_the_kernel(monkeypatch):
    kernel, calls = attention.ops.dot_product_attention, []

    def counted(*heads, mask):
        calls.append(mask.shape)
        return kernel(*heads, mask=mask)

    monkeypatch.setattr(attention.ops, "dot_product_attention", counted)
    _outputs(FlashAttention(), training=True, seed=tf.constant([1, 2]))

    assert calls == [(2, 1, 5, 5)] * tiny.config().num_hidden_layers
