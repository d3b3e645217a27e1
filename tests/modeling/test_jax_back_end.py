"""The models on the JAX back end, in one process: the same recorded numbers."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from albert_tf.modeling.pretraining_model import PretrainingModel
from tests.modeling.recorded import PRETRAINED, Recorded

_ROOT = pathlib.Path(__file__).resolve().parents[2]
# The model of each record: a public class, and arguments of it.
_MODELS = {
    **{name: ("PretrainingModel", {}) for name in PRETRAINED},
    "classifier": ("ClassifierModel", {"num_labels": 3}),
    "race": ("MultipleChoiceModel", {}),
    "squad_v1": ("SpanModel", {}),
    "squad_v2": ("BeamSpanModel", {}),
}
_PROGRAM = """
import functools, json, sys
import jax
import jax.numpy as jnp
import numpy as np
import albert_tf
from albert_tf.checkpoints import variable_names
from albert_tf.modeling import fused
from albert_tf.modeling.fused import fusion as fusion_lib

@functools.partial(jax.jit, static_argnums=0)
def run(model, trained, others, batch, seed):
    options = {"training": seed is not None, "seed": seed}
    return model.stateless_call(trained, others, batch, **options)[0]

def call(model, batch, seed=None):
    trained = [variable.value for variable in model.trainable_variables]
    others = [variable.value for variable in model.non_trainable_variables]
    return run(model, trained, others, model.inputs_of(batch), seed)

folder, models = sys.argv[1:]
found = {}
for name, (kind, arguments) in json.loads(models).items():
    config = albert_tf.AlbertConfig.from_json_file(f"{folder}/{name}.json")
    model = getattr(albert_tf, kind)(config, **arguments)
    arrays = np.load(f"{folder}/{name}.weights.npz")
    named = variable_names.variables_by_tf1_name(model.weights)
    for path, variable in named.items():
        variable.assign(arrays[path])
    batch = dict(np.load(f"{folder}/{name}.batch.npz"))
    outputs = call(model, batch)
    if kind == "PretrainingModel":
        outputs |= call(model.albert, batch)
    if config.hidden_dropout_prob:
        seed = np.array([1, 2], "int32")
        for key, change in (("first", 0), ("again", 0), ("other", 1)):
            dropped = call(model, batch, seed + change)
            outputs[f"dropped/{key}"] = dropped["sentence_order_logits"]
    found |= {f"{name}/{key}": value for key, value in outputs.items()}

# Gradients, recomputed and compiled, beside plain ones in float32.
fusion_lib.SMALLEST_SIZE = 0
config = albert_tf.AlbertConfig(
    vocab_size=20, embedding_size=8, hidden_size=32, num_hidden_layers=2,
    num_attention_heads=2, intermediate_size=64, initializer_range=0.2,
    hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
batch = {"input_ids": np.arange(1, 17).reshape(2, 8).astype("int32")}

def gradient(dtype, recompute, fusion):
    model = albert_tf.AlbertModel(config, dtype=dtype, seed=1)
    others = [variable.value for variable in model.non_trainable_variables]

    def loss(trained, seed):
        outputs, _ = model.stateless_call(
            trained, others, batch, seed=seed, recompute=recompute,
            fusion=fusion)
        # Any vectors and labels will do.
        logits, labels = outputs["sequence_output"], batch["input_ids"]
        return jnp.sum(
            outputs["pooled_output"][:, :4].astype("float32")
        ) + jnp.sum(fused.cross_entropy(logits, labels, fusion))

    trained = [variable.value for variable in model.trainable_variables]
    seed = jnp.array([1, 2], "uint32")
    gradients = jax.jit(jax.grad(loss))(trained, seed)
    assert {one.dtype for one in gradients} == {np.dtype("float32")}
    return np.concatenate([np.ravel(one) for one in gradients])

wanted = gradient("float32", False, None)
for dtype in ("float32", "mixed_bfloat16"):
    change = gradient(dtype, True, fused.Fusion(jax.jit)) - wanted
    size = np.linalg.norm(change) / np.linalg.norm(wanted)
    found[f"gradients/{dtype}"] = size
np.savez(f"{folder}/results.npz", **found)
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The outputs of all models on JAX: arrays by model and name."""
    pytest.importorskip("jax", reason="needs the development extra (jax)")
    folder = tmp_path_factory.mktemp("jax")
    for name in _MODELS:
        recorded = Recorded(name)
        batch = recorded.batch if name in PRETRAINED else recorded.inputs
        recorded.config.to_json_file(folder / f"{name}.json")
        np.savez(folder / f"{name}.weights.npz", **recorded.weights)
        np.savez(folder / f"{name}.batch.npz", **batch)
    subprocess.run(
        [sys.executable, "-c", _PROGRAM, folder, json.dumps(_MODELS)],
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
    results = dict(np.load(folder / "results.npz"))
    return {
        name: {
            key.removeprefix(f"{name}/"): array
            for key, array in results.items()
            if key.startswith(f"{name}/")
        }
        for name in (*_MODELS, "gradients")
    }


@pytest.mark.parametrize("name", [n for n in _MODELS if n not in PRETRAINED])
def test_the_models_of_tasks_give_the_recorded_outputs(found, name):
    Recorded(name).assert_outputs(found[name])


@pytest.mark.parametrize("name", PRETRAINED)
def test_pretraining_gives_the_recorded_outputs_and_our_logits(found, name):
    recorded, outputs = Recorded(name), found[name]

    for key in ("embedding_output", "sequence_output", "pooled_output"):
        recorded.assert_close(outputs[key], key)
    model = recorded.load(PretrainingModel(recorded.config))
    for key, logits in model(model.inputs_of(recorded.batch)).items():
        difference = np.abs(outputs[key] - np.asarray(logits)).max()
        assert difference <= 1e-5 * np.abs(logits).max(), key


def test_the_seed_decides_what_a_compiled_call_drops(found):
    outputs = found["model_groups"]

    first = outputs["dropped/first"]
    np.testing.assert_array_equal(first, outputs["dropped/again"])
    assert (first != outputs["dropped/other"]).any()


def test_gradients_in_every_precision_recomputed_or_compiled_or_not(found):
    changes = found["gradients"]

    assert changes["float32"] < 1e-5
    assert changes["mixed_bfloat16"] < 0.05
