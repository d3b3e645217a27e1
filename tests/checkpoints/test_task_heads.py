"""The heads of the tasks through every format, and from task to task.

Transformers is no dependency. ALBERT_TF_PEER_PYTHON names a Python that has
it, with torch; without it that test is skipped.
"""

import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

from albert_tf.checkpoints import conversion, load, tf1, variable_names
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.conversion_config import ConversionJob
from albert_tf.config import AlbertConfig
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.modeling.sequence_models import (
    ClassifierModel,
    MultipleChoiceModel,
)
from albert_tf.modeling.span_models import BeamSpanModel, SpanModel

_PARITY = pathlib.Path(__file__).resolve().parents[1] / "parity"


def _classifier(config, seed=0):
    return ClassifierModel(config, num_labels=3, seed=seed)


def _regression(config, seed=0):
    return ClassifierModel(config, num_labels=1, seed=seed)


_MODELS = {
    "classifier": _classifier,
    "regression": _regression,
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


def _weights(model):
    named = variable_names.variables_by_tf1_name(model.weights)
    return {name: np.asarray(variable) for name, variable in named.items()}


def _heads(arrays):
    return {n: a for n, a in arrays.items() if variable_names.is_head(n)}


def _encoder(arrays):
    return {n: a for n, a in arrays.items() if not variable_names.is_head(n)}


def _assert_same(ours, theirs):
    assert set(ours) == set(theirs)
    for name, array in theirs.items():
        np.testing.assert_array_equal(ours[name], array, err_msg=name)


def _randomised(model):
    """Gives every variable values that no two others have."""
    rng = np.random.default_rng(0)
    for variable in model.weights:
        if variable.dtype == "float32":
            variable.assign(0.5 * rng.standard_normal(variable.shape, "f"))
    return model


def _write(folder, model):
    folder.mkdir()
    source = Checkpoint(arrays=_weights(model), config=model.config)
    tf1.write_released(str(folder), source)
    return folder


@pytest.fixture(params=_MODELS)
def name(request):
    return request.param


@pytest.fixture
def model(name, tiny_config):
    return _randomised(_MODELS[name](tiny_config))


def test_a_head_has_the_names_and_shapes_of_the_original(name, model):
    heads = _heads(_weights(model))

    shapes = {variable: array.shape for variable, array in heads.items()}
    assert shapes == _TF1_HEADS[name]
    for variable, array in heads.items():
        wanted = variable_names.shape_of(variable, model.config)
        assert wanted in (array.shape, (None, *array.shape[1:]))


@pytest.mark.parametrize("output_format", ["tf1", "keras"])
def test_a_model_goes_out_and_in(
    name, model, tiny_config, tmp_path, output_format
):
    google = _write(tmp_path / "google", model)
    summary = conversion.run(
        ConversionJob(
            input_path=str(google),
            output_path=str(tmp_path / "out"),
            output_format=output_format,
            verify=True,
        )
    )
    other = _MODELS[name](tiny_config, seed=2)

    assert load.load_checkpoint(other, tmp_path / "out") == []

    assert summary.left_out == ()
    assert set(summary.differences.values()) == {0.0}
    _assert_same(_weights(other), _weights(model))


_THEIR_CLASSES = {
    "classifier": ["AlbertForSequenceClassification"],
    "regression": [
        "AlbertForSequenceClassification",
        "AlbertForMultipleChoice",
    ],
    "multiple_choice": [
        "AlbertForSequenceClassification",
        "AlbertForMultipleChoice",
    ],
    "spans": ["AlbertForQuestionAnswering"],
    "beams": ["AlbertModel"],
}


def test_hugging_face_gets_the_head_it_has_a_class_for(
    name, model, tiny_config, tmp_path
):
    summary = conversion.run(
        ConversionJob(
            input_path=str(_write(tmp_path / "google", model)),
            output_path=str(tmp_path / "theirs"),
            output_format="huggingface",
            verify=True,
        )
    )
    other = _MODELS[name](tiny_config, seed=2)
    made = _weights(other)

    load.load_checkpoint(
        other, tmp_path / "theirs", allow_new_heads=name == "beams"
    )

    config = json.loads((tmp_path / "theirs" / "config.json").read_text())
    assert config["architectures"] == _THEIR_CLASSES[name]
    wanted = _weights(model)
    if name == "beams":
        assert set(summary.left_out) == set(_TF1_HEADS[name])
        wanted = _encoder(wanted) | _heads(made)
    _assert_same(_weights(other), wanted)


def test_a_pretrained_encoder_takes_a_new_head(
    name, tiny_config, prefix, arrays
):
    model = _MODELS[name](tiny_config, seed=2)
    head = _heads(_weights(model))

    with pytest.raises(ValueError, match="a checkpoint that has this head"):
        load.load_checkpoint(model, prefix)
    unused = load.load_checkpoint(model, prefix, allow_new_heads=True)

    assert unused == sorted(_heads(arrays))
    _assert_same(_weights(model), _encoder(arrays) | head)


@pytest.mark.parametrize(
    "other", ["regression", "spans", "beams", "pretrained"]
)
def test_the_head_of_another_task_is_left_out_and_listed(
    tiny_config, tmp_path, other
):
    mnli = _randomised(_classifier(tiny_config))
    folder = _write(tmp_path / "mnli", mnli)
    models = _MODELS | {"pretrained": PretrainingModel}
    model = models[other](tiny_config, seed=2)
    head = _heads(_weights(model))

    with pytest.raises(ValueError, match="a checkpoint that has this head"):
        load.load_checkpoint(model, folder)
    unused = load.load_checkpoint(model, folder, allow_new_heads=True)

    assert unused == ["output_bias", "output_weights"]
    _assert_same(_weights(model), _encoder(_weights(mnli)) | head)


def test_a_classifier_starts_from_a_reader_that_may_decline(
    tiny_config, tmp_path
):
    reader = _randomised(BeamSpanModel(tiny_config))
    folder = _write(tmp_path / "squad", reader)
    model = _classifier(tiny_config, seed=2)

    unused = load.load_checkpoint(model, folder, allow_new_heads=True)

    assert unused == sorted(_TF1_HEADS["beams"])
    np.testing.assert_array_equal(
        _weights(model)["bert/pooler/dense/kernel"],
        _weights(reader)["bert/pooler/dense/kernel"],
    )


def test_half_a_head_is_refused_even_where_new_heads_are_allowed(
    tiny_config, tmp_path
):
    arrays = _weights(BeamSpanModel(tiny_config))
    del arrays["answer_class/dense_1/kernel"]
    tf1.write(tmp_path / "model", arrays)

    with pytest.raises(ValueError, match="lacks 1.*answer_class/dense_1"):
        load.load_checkpoint(
            BeamSpanModel(tiny_config), tmp_path, allow_new_heads=True
        )


# Beside transformers.

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


def _ask_transformers(folder, batch, tmp_path):
    python = os.environ.get("ALBERT_TF_PEER_PYTHON")
    if not python:
        pytest.skip("ALBERT_TF_PEER_PYTHON names no Python with transformers")
    names = {
        "input_ids": "input_ids",
        "input_mask": "attention_mask",
        "segment_ids": "token_type_ids",
    }
    question, answers = tmp_path / "question.npz", tmp_path / "answers.npz"
    np.savez(question, **{names[name]: batch[name] for name in names})
    done = subprocess.run(
        [python, "-c", _PEER, str(folder), str(question), str(answers)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with np.load(answers) as file:
        return dict(file)


_RECORDED = {
    "classifier": "classifier",
    "regression": "regression",
    "multiple_choice": "race",
    "spans": "squad_v1",
}


@pytest.mark.parametrize("name", _RECORDED)
def test_transformers_gives_our_logits(name, tmp_path):
    folder = _PARITY / "model_base"
    config = AlbertConfig.from_json_file(folder / "albert_config.json")
    model = _MODELS[name](config)
    load.load_checkpoint(model, folder, allow_new_heads=True)
    with np.load(_PARITY / "heads" / f"{_RECORDED[name]}.npz") as file:
        golden = dict(file)
    named = variable_names.variables_by_tf1_name(model.weights)
    for variable in _heads(named):
        named[variable].assign(golden[f"var/{variable}"])
    conversion.run(
        ConversionJob(
            input_path=str(_write(tmp_path / "google", model)),
            output_path=str(tmp_path / "theirs"),
            output_format="huggingface",
        )
    )
    # The choices of the first question, where there are any.
    batch = {
        key: golden[key].reshape(-1, 24)[:4]
        for key in ("input_ids", "input_mask", "segment_ids")
    }

    found = _ask_transformers(tmp_path / "theirs", batch, tmp_path)

    if name == "multiple_choice":
        batch = {key: array[None] for key, array in batch.items()}
    kind = _THEIR_CLASSES[name][name == "multiple_choice"]
    for output, ours in model(batch).items():
        theirs = found[f"{kind}/{output}"]
        difference = np.abs(np.asarray(ours) - theirs).max()
        assert difference <= 1e-5 * np.abs(theirs).max()
