"""What all models with the head of a task have in common.

Their losses and gradients are tested beside each model.
"""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling.pretraining_model import PretrainingModel
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


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (ClassifierModel, {"num_labels": 0}, "`num_labels` must be a whole"),
        *(
            (make, {"dropout_prob": rate}, "`dropout_prob` must be.*below 1")
            for make in (_classifier, MultipleChoiceModel, BeamSpanModel)
            for rate in (-0.1, 1.0)
        ),
        (BeamSpanModel, {"start_n_top": 0}, "`start_n_top` must be.*least 1"),
        (BeamSpanModel, {"end_n_top": 0}, "`end_n_top` must be.*at least 1"),
        (PretrainingModel, {"objectives": ()}, "one or more of mlm, sop"),
        (PretrainingModel, {"objectives": ("mlm", "nsp")}, "one or more"),
    ],
)
def test_arguments_out_of_range_are_errors(
    tiny_config, make, arguments, message
):
    with pytest.raises(ValueError, match=message):
        make(tiny_config, **arguments)


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
