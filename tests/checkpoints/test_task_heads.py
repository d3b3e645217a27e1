"""The heads of the tasks in every format, and from task to task."""

import functools
import json

import numpy as np
import pytest

from albert_tf.checkpoints import load, tf1, variable_names
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.modeling.sequence_models import (
    ClassifierModel,
    MultipleChoiceModel,
)
from albert_tf.modeling.span_models import BeamSpanModel, SpanModel
from tests.checkpoints.weights import (
    PARITY,
    ask_transformers,
    check_close,
    check_same,
    convert,
    weights_of,
)


def _sequence(num_labels):
    return functools.partial(ClassifierModel, num_labels=num_labels)


_MODELS = {
    "classifier": _sequence(3),
    "regression": _sequence(1),
    "multiple_choice": MultipleChoiceModel,
    "spans": SpanModel,
    "beams": BeamSpanModel,
}
# Names of the head's variables in Google's checkpoints, and their shapes for
# H = 8.
_LINEAR = {"output_weights": (1, 8), "output_bias": (1,)}
_TF1_HEADS = {
    "classifier": {"output_weights": (3, 8), "output_bias": (3,)},
    "regression": _LINEAR,
    "multiple_choice": _LINEAR,
    "spans": {
        "cls/squad/output_weights": (2, 8),
        "cls/squad/output_bias": (2,),
    },
    "beams": {
        "start_logits/dense/kernel": (8, 1),
        "start_logits/dense/bias": (1,),
        "end_logits/dense_0/kernel": (16, 8),
        "end_logits/dense_0/bias": (8,),
        "end_logits/LayerNorm/gamma": (8,),
        "end_logits/LayerNorm/beta": (8,),
        "end_logits/dense_1/kernel": (8, 1),
        "end_logits/dense_1/bias": (1,),
        "answer_class/dense_0/kernel": (16, 8),
        "answer_class/dense_0/bias": (8,),
        "answer_class/dense_1/kernel": (8, 1),
    },
}


def _heads(arrays):
    return {n: a for n, a in arrays.items() if variable_names.head_of(n)}


def _encoder(arrays):
    return {n: a for n, a in arrays.items() if not variable_names.head_of(n)}


def _randomised(model):
    """Gives all variables different values."""
    rng = np.random.default_rng(0)
    for variable in model.weights:
        if variable.dtype == "float32":
            variable.assign(0.5 * rng.standard_normal(variable.shape, "f"))
    return model


def _write(folder, model):
    folder.mkdir()
    source = Checkpoint(arrays=weights_of(model), config=model.config)
    tf1.write_released(str(folder), source)
    return folder


def _convert(folder, model, output_format, **fields):
    """Writes a model, and converts it to a folder beside; returns both."""
    path = _write(folder / "google", model)
    summary = convert(path, folder / "out", output_format, **fields)
    return folder / "out", summary


@pytest.fixture(params=_MODELS)
def name(request):
    return request.param


@pytest.fixture
def model(name, tiny_config):
    return _randomised(_MODELS[name](tiny_config))


def test_a_head_has_the_names_and_shapes_of_the_original(name, model):
    heads = _heads(weights_of(model))

    shapes = {variable: array.shape for variable, array in heads.items()}
    assert shapes == _TF1_HEADS[name]


_SEQUENCE = "AlbertForSequenceClassification"
_THEIR_CLASSES = {
    "classifier": [_SEQUENCE],
    "regression": [_SEQUENCE, "AlbertForMultipleChoice"],
    "multiple_choice": [_SEQUENCE, "AlbertForMultipleChoice"],
    "spans": ["AlbertForQuestionAnswering"],
    "beams": ["AlbertModel"],
}


def test_hugging_face_gets_the_head_it_has_a_class_for(
    name, model, tiny_config, tmp_path
):
    folder, summary = _convert(tmp_path, model, "huggingface", verify=True)
    other = _MODELS[name](tiny_config, seed=2)
    made = weights_of(other)

    load.load_checkpoint(other, folder, allow_new_heads=name == "beams")

    config = json.loads((folder / "config.json").read_text())
    assert config["architectures"] == _THEIR_CLASSES[name]
    wanted = weights_of(model)
    if name == "beams":
        assert set(summary.left_out) == set(_TF1_HEADS[name])
        wanted = _encoder(wanted) | _heads(made)
    check_same(weights_of(other), wanted)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("pretrained", "classifier"),
        ("pretrained", "beams"),
        ("classifier", "regression"),
        ("classifier", "spans"),
        ("beams", "pretrained"),
    ],
)
def test_a_new_head_must_be_allowed_and_the_old_one_is_listed(
    tiny_config, tmp_path, first, second
):
    models = _MODELS | {"pretrained": PretrainingModel}
    trained = _randomised(models[first](tiny_config))
    folder = _write(tmp_path / "trained", trained)
    model = models[second](tiny_config, seed=2)
    head = _heads(weights_of(model))

    with pytest.raises(ValueError, match="Use a checkpoint that has this head"):
        load.load_checkpoint(model, folder)
    unused = load.load_checkpoint(model, folder, allow_new_heads=True)

    assert unused == sorted(_heads(weights_of(trained)))
    check_same(weights_of(model), _encoder(weights_of(trained)) | head)


# Compared with transformers.

_PEER = """
import sys
import numpy, torch, transformers

folder, batch, answers = sys.argv[1:]
batch = dict(numpy.load(batch))
batch = {name: torch.tensor(a, dtype=torch.long) for name, a in batch.items()}
found = {}
for kind in transformers.AutoConfig.from_pretrained(folder).architectures:
    model, told = getattr(transformers, kind).from_pretrained(
        folder, output_loading_info=True)
    assert not told["missing_keys"], told
    assert not told["mismatched_keys"], told
    rows = batch
    if kind == "AlbertForMultipleChoice":
        # One question, whose choices are the rows.
        rows = {name: array[None] for name, array in batch.items()}
    with torch.no_grad():
        out = model.eval()(**rows)
    found |= {f"{kind}/{k}": v.numpy() for k, v in out.items()}
numpy.savez(answers, **found)
"""


_RECORDED = {
    "classifier": "classifier",
    "regression": "regression",
    "multiple_choice": "race",
    "spans": "squad_v1",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", _RECORDED)
def test_transformers_gives_our_logits(name, tmp_path):
    folder = PARITY / "model_base"
    config = AlbertConfig.from_json_file(folder / "albert_config.json")
    model = _MODELS[name](config)
    load.load_checkpoint(model, folder, allow_new_heads=True)
    with np.load(PARITY / "heads" / f"{_RECORDED[name]}.npz") as file:
        golden = dict(file)
    named = variable_names.variables_by_tf1_name(model.weights)
    for variable in _heads(named):
        named[variable].assign(golden[f"var/{variable}"])
    converted, _ = _convert(tmp_path, model, "huggingface")
    # The choices of the first question, where there are any.
    batch = {
        key: golden[key].reshape(-1, 24)[:4]
        for key in ("input_ids", "input_mask", "segment_ids")
    }

    found = ask_transformers(_PEER, converted, batch=batch, folder=tmp_path)

    if name == "multiple_choice":
        batch = {key: array[None] for key, array in batch.items()}
    kind = _THEIR_CLASSES[name][name == "multiple_choice"]
    for output, ours in model(batch).items():
        check_close(ours, found[f"{kind}/{output}"], output)
