"""Training on the JAX back end: dropout and gradients."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from tests.modeling.recorded import Recorded

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_PROGRAM = """
import functools, sys
import jax
import jax.numpy as jnp
import numpy as np
import albert_tf
from albert_tf.modeling import fused, operations
from albert_tf.modeling.fused import fusion as fusion_lib

@functools.partial(jax.jit, static_argnums=0)
def run(model, trained, others, batch, seed):
    options = {"training": seed is not None, "seed": seed}
    return model.stateless_call(trained, others, batch, **options)[0]

def call(model, batch, seed=None):
    trained = [variable.value for variable in model.trainable_variables]
    others = [variable.value for variable in model.non_trainable_variables]
    return run(model, trained, others, model.inputs_of(batch), seed)

(folder,) = sys.argv[1:]
config = albert_tf.AlbertConfig.from_json_file(f"{folder}/config.json")
model = albert_tf.PretrainingModel(config)
batch = dict(np.load(f"{folder}/batch.npz"))
found = {}
for key, change in (("first", 0), ("again", 0), ("other", 1)):
    dropped = call(model, batch, np.array([1, 2], "int32") + change)
    found[f"dropped/{key}"] = dropped["sentence_order_logits"]

# Gradients, recomputed and compiled, beside plain ones in float32.
fusion_lib.SMALLEST_SIZE = 0
config = albert_tf.AlbertConfig(
    vocab_size=20, embedding_size=8, hidden_size=32, num_hidden_layers=2,
    num_attention_heads=2, intermediate_size=64, initializer_range=0.2,
    hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
batch = {"input_ids": np.arange(1, 17).reshape(2, 8).astype("int32")}

def gradient(dtype, kernels):
    model = albert_tf.AlbertModel(config, dtype=dtype, seed=1)
    others = [variable.value for variable in model.non_trainable_variables]

    def loss(trained, seed):
        outputs, _ = model.stateless_call(trained, others, batch, seed=seed)
        # Any vectors and labels will do.
        logits, labels = outputs["sequence_output"], batch["input_ids"]
        return jnp.sum(
            outputs["pooled_output"][:, :4].astype("float32")
        ) + jnp.sum(kernels.cross_entropy(logits, labels))

    trained = [variable.value for variable in model.trainable_variables]
    seed = jnp.array([1, 2], "uint32")
    with fused.computing_with(model, kernels):
        gradients = jax.jit(jax.grad(loss))(trained, seed)
    assert {one.dtype for one in gradients} == {np.dtype("float32")}
    return np.concatenate([np.ravel(one) for one in gradients])

wanted = gradient("float32", operations.PLAIN)
for dtype in ("float32", "mixed_bfloat16"):
    kernels = fused.Kernels(jax.jit, recompute=True)
    change = gradient(dtype, kernels) - wanted
    size = np.linalg.norm(change) / np.linalg.norm(wanted)
    found[f"gradients/{dtype}"] = size
np.savez(f"{folder}/results.npz", **found)
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What `_PROGRAM` found: arrays by name."""
    pytest.importorskip("jax", reason="needs the development extra (jax)")
    folder = tmp_path_factory.mktemp("jax")
    recorded = Recorded("model_groups")
    recorded.config.to_json_file(folder / "config.json")
    np.savez(folder / "batch.npz", **recorded.batch)
    subprocess.run(
        [sys.executable, "-c", _PROGRAM, folder],
        env=os.environ
        | {
            "KERAS_BACKEND": "jax",
            "JAX_PLATFORMS": "cpu",
            # Compiles in less time than the tiny models could make up for.
            "XLA_FLAGS": "--xla_backend_optimization_level=0",
        },
        cwd=_ROOT,
        check=True,
    )
    return dict(np.load(folder / "results.npz"))


def test_the_seed_decides_what_a_compiled_call_drops(found):
    first = found["dropped/first"]
    np.testing.assert_array_equal(first, found["dropped/again"])
    assert (first != found["dropped/other"]).any()


def test_gradients_in_every_precision_recomputed_or_compiled_or_not(found):
    assert found["gradients/float32"] < 1e-5
    assert found["gradients/mixed_bfloat16"] < 0.05
