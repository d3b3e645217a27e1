"""Exported models in ONNX Runtime, LiteRT and OpenVINO, at many shapes."""

import functools
import itertools

import numpy as np
import pytest

from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.modeling.sequence_models import (
    ClassifierModel,
    MultipleChoiceModel,
)
from albert_tf.modeling.span_models import SpanModel
from tests import tiny

# Converters use what NumPy deprecates.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

# Their extras are not among those of the tests.
_MODULES = {
    "onnx": ["onnxruntime", "tf2onnx"],
    "litert": ["ai_edge_litert.interpreter"],
    "openvino": ["openvino"],
}
_FILES = {"onnx": "model.onnx", "litert": "m.tflite", "openvino": "model.xml"}
_SHAPES = [*itertools.product([1, 2, 3, 5], [1, 4, 7, 16, 31])]


def _batch(model, batch_size, length):
    rng = np.random.default_rng([batch_size, length])
    shape = (batch_size, length)
    if model.input_rank == 3:
        shape = (batch_size, 3, length)
    lengths = rng.integers(1, length + 1, (*shape[:-1], 1))
    batch = {
        "input_ids": rng.integers(0, tiny.VOCAB_SIZE, shape),
        "input_mask": np.arange(length) < lengths,
        "segment_ids": rng.integers(0, 2, shape),
        "masked_lm_positions": rng.integers(0, length, (batch_size, 2)),
    }
    return {name: batch[name].astype("int32") for name in model.input_specs()}


def _onnx(path):
    import onnxruntime

    session = onnxruntime.InferenceSession(path)
    names = [output.name for output in session.get_outputs()]
    return lambda batch: dict(
        zip(names, session.run(names, batch), strict=True)
    )


def _litert(path):
    from ai_edge_litert.interpreter import Interpreter

    run = Interpreter(path).get_signature_runner()
    return lambda batch: run(**batch)


def _openvino(path):
    import openvino

    precision = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(path, "CPU", precision)

    def run(batch):
        outputs = compiled(batch)
        return {
            name: values
            for output, values in outputs.items()
            for name in output.names
        }

    return run


_RUNTIMES = {"onnx": _onnx, "litert": _litert, "openvino": _openvino}


@pytest.mark.slow
@pytest.mark.parametrize("runtime", _RUNTIMES)
@pytest.mark.parametrize(
    "make",
    [
        AlbertModel,
        PretrainingModel,
        functools.partial(ClassifierModel, num_labels=3),
        MultipleChoiceModel,
        SpanModel,
    ],
)
@pytest.mark.parametrize("fields", [{}, {"attention_window": 5}])
def test_an_exported_model_runs_at_any_shape(make, fields, runtime, tmp_path):
    for module in _MODULES[runtime]:
        pytest.importorskip(module)
    # With the biases at 0, converters leave out additions, too.
    fields = {"max_position_embeddings": 32, "initializer_range": 0.2} | fields
    if runtime == "openvino":  # refused
        fields["attention_window"] = 0
    model = make(tiny.config(**fields))
    path = str(tmp_path / _FILES[runtime])

    model.export(path, format=runtime, verbose=False)

    run = _RUNTIMES[runtime](path)
    for shape in _SHAPES:
        batch = _batch(model, *shape)
        found = run(batch)
        for name, values in model(batch).items():
            np.testing.assert_allclose(found[name], values, atol=1e-5)


@pytest.mark.parametrize("activation", ["gelu", "gelu_erf"])
def test_an_onnx_file_runs_at_other_shapes_than_it_was_exported_at(
    activation, tmp_path
):
    for module in _MODULES["onnx"]:
        pytest.importorskip(module)
    model = AlbertModel(tiny.config(num_hidden_layers=1, hidden_act=activation))
    path = str(tmp_path / "model.onnx")

    model.export(path, format="onnx", verbose=False)

    run = _onnx(path)
    for shape in [(2, 7), (3, 5)]:
        batch = _batch(model, *shape)
        outputs = run(batch)
        for name, expected in model(batch).items():
            np.testing.assert_allclose(outputs[name], expected, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("runtime", _RUNTIMES)
def test_the_shared_block_is_stored_once(runtime, tmp_path):
    for module in _MODULES[runtime]:
        pytest.importorskip(module)
    model = AlbertModel(tiny.config(hidden_size=128, intermediate_size=512))

    path = tmp_path / _FILES[runtime]
    model.export(str(path), format=runtime, verbose=False)

    size = sum(file.stat().st_size for file in tmp_path.glob("*.*"))
    num_bytes = 4 * model.count_params()
    assert num_bytes < size * 1.05 < 1.5 * num_bytes


@pytest.mark.parametrize(
    ("format", "dtype", "message"),
    [
        ("onnx", "mixed_bfloat16", "onnx must be float32.*mixed_bfloat16"),
        ("litert", "int8", "litert must be .*: int8_from_float32"),
        ("openvino", "int8", "openvino must be .*: int8_from_float32"),
    ],
)
def test_a_precision_that_a_format_has_not_is_refused(
    format, dtype, message, tmp_path
):
    policy = "float32" if dtype == "int8" else dtype
    model = AlbertModel(tiny.config(), dtype=policy)
    if dtype == "int8":
        model.quantize(dtype)

    with pytest.raises(ValueError, match=message):
        model.export(str(tmp_path / "model"), format=format)
    assert not [*tmp_path.iterdir()]


def test_litert_needs_none_of_the_operations_of_tensorflow(tmp_path):
    model = AlbertModel(tiny.config(num_hidden_layers=1))
    path = tmp_path / "model.tflite"

    model.export(str(path), format="litert", verbose=False)

    assert b"Flex" not in path.read_bytes()
