"""What all models with the head of a task have in common."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.sequence_models import (
    ClassifierModel,
    MultipleChoiceModel,
)
from albert_tf.modeling.span_models import BeamSpanModel, SpanModel

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_INPUTS = ("input_ids", "input_mask", "segment_ids", "p_mask")


def _classifier(config, **arguments):
    return ClassifierModel(config, num_labels=3, **arguments)


# By the name of the recorded numbers.
_MODELS = {
    "classifier": _classifier,
    "race": MultipleChoiceModel,
    "squad_v1": SpanModel,
    "squad_v2": BeamSpanModel,
    "squad_v2_short_paragraph": BeamSpanModel,
}


def _batch(recorded, name):
    batch = {
        key: recorded.batch[key] for key in _INPUTS if key in recorded.batch
    }
    if name == "race":
        return {key: array.reshape(2, 4, 24) for key, array in batch.items()}
    return batch


def _recorded_outputs(recorded):
    """Returns the recorded outputs by name: those of inference."""
    names = ("logits", "start_logits", "end_logits")
    found = {n: recorded.numbers[n] for n in names if n in recorded.numbers}
    for key in recorded.numbers.files:
        if key.startswith("inference/"):
            found[key.removeprefix("inference/")] = recorded.numbers[key]
    return found


def _assert_close(outputs, wanted):
    assert set(outputs) == set(wanted)
    for name, array in wanted.items():
        found = np.asarray(outputs[name])
        if name.endswith("_index"):
            np.testing.assert_array_equal(found, array, err_msg=name)
            continue
        assert found.dtype == "float32"
        difference = np.abs(found - array).max()
        assert difference <= 1e-5 * np.abs(array).max(), name


@pytest.fixture(params=_MODELS)
def name(request):
    return request.param


def test_a_compiled_graph_gives_the_recorded_outputs(recorded_head, name):
    recorded = recorded_head(name)
    model = recorded.load(_MODELS[name](recorded.config))
    batch = _batch(recorded, name)
    # As the pipeline hands it over: the lengths of the batch are not known.
    signature = {
        key: tf.TensorSpec([None] * array.ndim, array.dtype)
        for key, array in batch.items()
    }

    @tf.function(jit_compile=True, input_signature=[signature])
    def compiled(inputs):
        return model(inputs)

    _assert_close(compiled(batch), _recorded_outputs(recorded))


def test_outputs_are_float32_in_any_precision(recorded_head, name):
    recorded = recorded_head(name)
    batch = _batch(recorded, name)
    exact = recorded.load(_MODELS[name](recorded.config))
    coarse = _MODELS[name](recorded.config, dtype="mixed_bfloat16")
    recorded.load(coarse)

    outputs = coarse(batch)

    for key, wanted in exact(batch).items():
        if key.endswith("_index"):
            continue
        wanted, found = np.asarray(wanted), np.asarray(outputs[key])
        assert found.dtype == "float32"
        # Excluded positions, where paragraphs are short, are so in both.
        allowed = wanted > -1e29
        np.testing.assert_array_equal(found > -1e29, allowed)
        difference = np.abs(found - wanted)[allowed].max()
        assert difference <= 0.1 * np.abs(wanted[allowed]).max(), key


@pytest.mark.parametrize("name", ["classifier", "race", "squad_v1", "squad_v2"])
def test_gradients_are_finite_in_half_precision(recorded_head, name):
    recorded = recorded_head(name)
    model = _MODELS[name](recorded.config, dtype="mixed_bfloat16")
    recorded.load(model)
    batch = _batch(recorded, name)
    if name.startswith("squad_v2"):
        batch["start_positions"] = recorded.batch["start_positions"]

    @tf.function(jit_compile=True)
    def gradients():
        with tf.GradientTape() as tape:
            outputs = model(batch, training=True, seed=tf.constant([1, 2]))
            # What is excluded is -1e30.
            total = tf.add_n(
                [
                    tf.reduce_sum(tf.where(value > -1e29, value, 0))
                    for value in outputs.values()
                ]
            )
        return tape.gradient(
            total,
            [variable.value for variable in model.trainable_variables],
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )

    found = [tf.convert_to_tensor(gradient) for gradient in gradients()]

    assert all(np.isfinite(gradient).all() for gradient in found)
    assert any(np.abs(gradient).max() > 0 for gradient in found)


def test_the_encoder_starts_as_the_bare_model_of_the_same_seed(
    tiny_config, name
):
    model = _MODELS[name](tiny_config, seed=3)

    encoder = AlbertModel(tiny_config, seed=3)

    found = {v.path.partition("albert/")[2]: v for v in model.weights}
    for variable in encoder.trainable_weights:
        key = variable.path.removeprefix("albert/")
        np.testing.assert_array_equal(found[key], variable)


@pytest.mark.parametrize("dropout_prob", [-0.1, 1.0])
@pytest.mark.parametrize(
    "make", [_classifier, MultipleChoiceModel, BeamSpanModel]
)
def test_an_impossible_dropout_is_refused(tiny_config, make, dropout_prob):
    with pytest.raises(ValueError, match="`dropout_prob` must be at least 0"):
        make(tiny_config, dropout_prob=dropout_prob)


_JAX_PROGRAM = """
import sys
import numpy as np
from albert_tf.checkpoints import variable_names
from albert_tf.config import AlbertConfig
from albert_tf.modeling.span_models import BeamSpanModel
from albert_tf.modeling.sequence_models import ClassifierModel
from albert_tf.modeling.sequence_models import MultipleChoiceModel
from albert_tf.modeling.span_models import SpanModel

folder, results, *names = sys.argv[1:]
config = AlbertConfig.from_json_file(folder + "/config.json")
makers = {
    "classifier": lambda config: ClassifierModel(config, num_labels=3),
    "race": MultipleChoiceModel,
    "squad_v1": SpanModel,
    "squad_v2": BeamSpanModel,
    "squad_v2_short_paragraph": BeamSpanModel,
}
found = {}
for name in names:
    model = makers[name](config)
    arrays = np.load(f"{folder}/{name}.weights.npz")
    named = variable_names.variables_by_tf1_name(model.weights)
    for path, variable in named.items():
        variable.assign(arrays[path])
    batch = dict(np.load(f"{folder}/{name}.batch.npz"))
    for key, value in model(batch).items():
        found[f"{name}/{key}"] = np.asarray(value)
np.savez(results, **found)
"""


def test_the_jax_back_end_gives_the_recorded_outputs(recorded_head, tmp_path):
    pytest.importorskip("jax", reason="needs the development extra (jax)")
    all_recorded = {name: recorded_head(name) for name in _MODELS}
    for name, recorded in all_recorded.items():
        recorded.config.to_json_file(tmp_path / "config.json")
        np.savez(tmp_path / f"{name}.weights.npz", **recorded.weights)
        np.savez(tmp_path / f"{name}.batch.npz", **_batch(recorded, name))
    results = str(tmp_path / "results.npz")

    subprocess.run(
        [sys.executable, "-c", _JAX_PROGRAM, str(tmp_path), results, *_MODELS],
        env=os.environ | {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"},
        cwd=_ROOT,
        check=True,
    )

    found = np.load(results)
    for name, recorded in all_recorded.items():
        _assert_close(
            {
                key.removeprefix(f"{name}/"): found[key]
                for key in found.files
                if key.startswith(f"{name}/")
            },
            _recorded_outputs(recorded),
        )
