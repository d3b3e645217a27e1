"""Other engines of Keras: numbers of the original, and answers of every head.

Each runs in a process of its own, which must not import TensorFlow.
"""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

import albert_tf
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.modeling.pretraining_model import PretrainingModel
from tests.exported_models import TINY_CONFIG, write_checkpoint
from tests.modeling.recorded import PRETRAINED, Recorded

_ROOT = pathlib.Path(__file__).resolve().parents[2]
# `make test-slow` names one that really has no TensorFlow.
_JAX_PYTHON = os.environ.get("ALBERT_TF_JAX_PYTHON", sys.executable)
# The model of each record: a public class, and arguments of it.
_RECORDED = {
    **{name: ("PretrainingModel", {}) for name in PRETRAINED},
    "classifier": ("ClassifierModel", {"num_labels": 3}),
    "race": ("MultipleChoiceModel", {}),
    "squad_v1": ("SpanModel", {}),
    "squad_v2": ("BeamSpanModel", {}),
}
_CONFIG = dataclasses.replace(TINY_CONFIG, initializer_range=0.5)
_QUESTION = {"question": "Who sat?", "context": "The cat sat. " * 9}
_TEXTS = ["A house.", ("The cat.", "It sat."), "snow " * 99]
_BEAMS = {"start_n_top": 9, "end_n_top": 9}
# A model of each head, and inputs of its predictor.
_HEADS = {
    "classifier": (
        lambda: albert_tf.ClassifierModel(_CONFIG, num_labels=2),
        _TEXTS,
    ),
    "multiple_choice": (
        lambda: albert_tf.MultipleChoiceModel(_CONFIG),
        [
            dict(article="It snows.", question="Does it?", options=["a", other])
            for other in ("no", "yes it does")
        ],
    ),
    "span": (lambda: albert_tf.SpanModel(_CONFIG), [_QUESTION]),
    "beam_span": (
        # Some windows are shorter than its beams.
        lambda: albert_tf.BeamSpanModel(_CONFIG, **_BEAMS),
        [_QUESTION, {"question": "a", "context": "b"}],
    ),
    "token_classifier": (
        lambda: albert_tf.TokenClassifierModel(_CONFIG, num_labels=3),
        ["The cat sat on the mat."],
    ),
    "pretraining": (
        lambda: PretrainingModel(_CONFIG),
        ["The [MASK] sat[MASK].", ("The cat.", "It sat.")],
    ),
    "encoder": (lambda: albert_tf.AlbertModel(_CONFIG), _TEXTS),
}
_LABELS = {"classifier": ("a", "b"), "token_classifier": ("O", "B-x", "I-x")}
_PROGRAM = """
import json, sys
import numpy as np
import albert_tf
from albert_tf.checkpoints import variable_names
from albert_tf.devices import engine
from albert_tf.optimization import optimizers

folder, recorded, heads = sys.argv[1:]
found, answers = {}, {}
for name, (kind, arguments) in json.loads(recorded).items():
    config = albert_tf.AlbertConfig.from_json_file(f"{folder}/{name}.json")
    model = getattr(albert_tf, kind)(config, **arguments)
    arrays = np.load(f"{folder}/{name}.weights.npz")
    named = variable_names.variables_by_tf1_name(model.weights)
    for path, variable in named.items():
        variable.assign(arrays[path])
    batch = dict(np.load(f"{folder}/{name}.batch.npz"))
    for one in (model, model.albert)[: 1 + (kind == "PretrainingModel")]:
        run = engine.compiled(lambda b: one(one.inputs_of(b)), one, batch)
        found |= {f"{name}/{key}": x for key, x in run(batch).items()}
for head, inputs in json.loads(heads).items():
    inputs = [tuple(x) if isinstance(x, list) else x for x in inputs]
    predictor = albert_tf.load_predictor(f"{folder}/{head}", head=head)
    answers[head] = predictor.predict(inputs)
    if head in ("classifier", "span"):
        pair = albert_tf.load_predictor([f"{folder}/{head}"] * 2)
        answers[f"two of {head}"] = pair.predict(inputs)
assert "tensorflow" not in sys.modules
# Keras' own training, which asks TensorFlow for its types; and its files.
model = albert_tf.load_model(f"{folder}/classifier")
model.compile(optimizers.AlbertAdamW(1e-3), loss={"logits": "mse"})
batch, labels = {"input_ids": np.ones((4, 8), "int32")}, np.zeros((4, 2))
before = model.evaluate(batch, {"logits": labels}, verbose=0)
model.fit(batch, {"logits": labels}, epochs=5, verbose=0)
assert model.evaluate(batch, {"logits": labels}, verbose=0) < before
model.save(f"{folder}/model.keras")
found["saved/logits"] = model.predict(batch, verbose=0)["logits"]
model.albert.enable_lora(2)
model.quantize("int8")
assert np.isfinite(model.predict(batch, verbose=0)["logits"]).all()
np.savez(f"{folder}/results.npz", **found)
with open(f"{folder}/answers.json", "w") as file:
    json.dump(answers, file, default=lambda array: array.tolist())
"""


@pytest.fixture(
    scope="module",
    params=["jax", pytest.param("torch", marks=pytest.mark.slow)],
)
def results(request, tmp_path_factory, tiny_spm_model):
    """The outputs of the recorded models on an engine, and a folder."""
    python = _JAX_PYTHON
    if request.param == "jax":
        pytest.importorskip("jax", reason="needs the development extra (jax)")
    elif not (python := os.environ.get("ALBERT_TF_PEER_PYTHON")):
        pytest.skip("ALBERT_TF_PEER_PYTHON names no Python with PyTorch")
    folder = tmp_path_factory.mktemp(request.param)
    for name in _RECORDED:
        recorded = Recorded(name)
        batch = recorded.batch if name in PRETRAINED else recorded.inputs
        recorded.config.to_json_file(folder / f"{name}.json")
        np.savez(folder / f"{name}.weights.npz", **recorded.weights)
        np.savez(folder / f"{name}.batch.npz", **batch)
    for head, (make_model, _) in _HEADS.items():
        write_checkpoint(
            folder / head,
            make_model(),
            vocabulary=str(tiny_spm_model),
            metadata=Metadata(
                labels=_LABELS.get(head),
                settings=_BEAMS if head == "beam_span" else None,
            ),
        )
    inputs = {head: inputs for head, (_, inputs) in _HEADS.items()}
    subprocess.run(
        [
            *(python, "-c", _PROGRAM, folder),
            *map(json.dumps, (_RECORDED, inputs)),
        ],
        env=os.environ
        | {
            "KERAS_BACKEND": request.param,
            "JAX_PLATFORMS": "cpu",
            # Compiles in less time than the tiny models could make up for.
            "XLA_FLAGS": "--xla_backend_optimization_level=0",
        },
        cwd=_ROOT,
        check=True,
    )
    outputs = {}
    for key, array in np.load(folder / "results.npz").items():
        name, _, output = key.partition("/")
        outputs.setdefault(name, {})[output] = array
    return folder, outputs


@pytest.mark.parametrize("name", [n for n in _RECORDED if n not in PRETRAINED])
def test_the_models_of_tasks_give_the_recorded_outputs(name, results):
    Recorded(name).assert_outputs(results[1][name])


@pytest.mark.parametrize("name", PRETRAINED)
def test_pretraining_gives_the_recorded_outputs_and_our_logits(name, results):
    recorded, outputs = Recorded(name), results[1][name]

    for key in ("embedding_output", "sequence_output", "pooled_output"):
        recorded.assert_close(outputs[key], key)
    model = recorded.load(PretrainingModel(recorded.config))
    for key, logits in model(model.inputs_of(recorded.batch)).items():
        difference = np.abs(outputs[key] - np.asarray(logits)).max()
        assert difference <= 1e-5 * np.abs(logits).max(), key


def _assert_close(answers, expected):
    """Compares answers; numbers may differ by rounding."""
    keras.tree.assert_same_structure(answers, expected)
    leaves = (keras.tree.flatten(tree) for tree in (answers, expected))
    for leaf, expected_leaf in zip(*leaves, strict=True):
        if isinstance(expected_leaf, float):
            expected_leaf = pytest.approx(expected_leaf, rel=1e-5, abs=1e-5)
        assert leaf == expected_leaf


@pytest.mark.parametrize("head", _HEADS)
def test_every_head_answers_alike(head, results):
    folder, _ = results
    answers = json.loads((folder / "answers.json").read_text())

    predictor = albert_tf.load_predictor(folder / head, head=head)
    predicted = predictor.predict(_HEADS[head][1])

    plain = json.dumps(predicted, default=lambda array: array.tolist())
    _assert_close(answers[head], json.loads(plain))
    # Two equal models answer together as one.
    together = answers.get(f"two of {head}", answers[head])
    _assert_close(together, json.loads(plain))


def test_a_file_that_another_engine_saved_is_read(results):
    folder, outputs = results

    model = albert_tf.load_model(folder / "model.keras")

    found = model({"input_ids": np.ones((4, 8), "int32")})["logits"]
    np.testing.assert_allclose(found, outputs["saved"]["logits"], atol=1e-5)


@pytest.mark.slow
def test_commands_work_where_there_is_no_tensorflow(results, tmp_path):
    folder, _ = results
    program = (
        "import runpy, sys; path = sys.argv.pop(1); "
        "absent = ('tensorflow', 'tensorflow_text', 'keras_hub'); "
        "sys.modules.update(dict.fromkeys(absent)); "
        "run = runpy.run_path if '/' in path else runpy.run_module; "
        "run(path, run_name='__main__')"
    )
    converted = tmp_path / "converted"

    def run(*arguments):
        return subprocess.run(
            [_JAX_PYTHON, "-c", program, *arguments],
            env=os.environ | {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"},
            cwd=_ROOT,
            capture_output=True,
            text=True,
        )

    convert = run(
        "./convert_checkpoint.py",
        f"--input_path={folder}/classifier",
        f"--output_path={converted}",
        "--output_format=huggingface",
    )
    assert convert.returncode == 0, convert.stderr
    predict = run("albert_tf.predict", str(converted), "A house.")
    assert predict.returncode == 0, predict.stderr
    answers = json.loads((folder / "answers.json").read_text())
    _assert_close(json.loads(predict.stdout), answers["classifier"][0])
