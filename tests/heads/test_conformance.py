"""Every head after three steps of training: its folder, answers and formats.

Python, the command, LiteRT and ONNX give the same answers. A format stores the
head, or says what it leaves out. `rows.py` has the table.
"""

import dataclasses
import io
import json
import sys

import numpy as np
import pytest

import albert_tf
from albert_tf import registry
from albert_tf.checkpoints import discovery
from albert_tf.checkpoints.heads import ENCODER
from albert_tf.predict import __main__ as predict
from tests.checkpoints.weights import check_same, convert
from tests.heads.rows import CONFIG, batch_of, near


def test_its_folder_says_which_head_it_is(trained):
    source = discovery.open(trained.path)

    assert source.metadata.head == trained.name
    assert source.step == 3
    model = albert_tf.load_model(trained.path, head=trained.spec.head)
    assert type(model) is type(trained.predictor.model)
    # Texts differ, and so do their answers.
    assert trained.answers[0] != near(trained.answers[-1])


def test_the_command_gives_the_answers_of_python(trained, capsys, monkeypatch):
    lines = [
        one if isinstance(one, str) else json.dumps(one)
        for one in trained.row.inputs
    ]
    content = io.BytesIO("\n".join(lines).encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(content))

    code = predict.main([trained.path])

    out, err = capsys.readouterr()
    if not trained.is_known:
        assert code == 1
        assert f"has the head {trained.name}, which is none of" in err
        return
    found = [json.loads(line) for line in out.splitlines()]
    assert code == 0, err
    assert found == near(trained.answers)


@pytest.mark.parametrize("name", registry.ENGINES)
def test_a_runtime_gives_the_answers_of_python(name, trained, tmp_path):
    if name == "onnx":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("tf2onnx")
    if name not in trained.spec.runtimes:
        with pytest.raises(ValueError, match=f"--format={name} is for"):
            trained.export(tmp_path, format=name)
        return
    path = trained.export(tmp_path, format=name).path

    # For LiteRT, the export of a pretraining has the encoder alone.
    expected, head = trained.answers, trained.name
    if name == "litert":
        head = trained.spec.litert_head or head
    if head != trained.name:
        expected = albert_tf.load_predictor(trained.path, head=head).predict(
            trained.row.inputs
        )
    found = albert_tf.load_predictor(path, head=trained.head)
    assert found.predict(trained.row.inputs) == near(expected)
    if not trained.is_known:
        with pytest.raises(ValueError, match=trained.name):
            albert_tf.load_predictor(path)


@pytest.mark.parametrize("name", registry.CHECKPOINT_WRITERS)
def test_a_format_stores_the_head_or_lists_arrays_left_out(
    name, trained, tmp_path
):
    there, back = tmp_path / "there", tmp_path / "back"
    source = discovery.open(trained.path)

    summary = convert(trained.path, there, name, verify=True)

    if name == "huggingface":
        config = json.loads((there / "config.json").read_text())
        has_class = (
            trained.spec.head if name in trained.row.formats else ENCODER
        )
        assert config["architectures"] == [has_class.transformers]
    assert max(summary.differences.values()) <= 1e-5
    is_unverified = name in ("tf1", "keras") and not trained.is_known
    kinds = {note.kind for note in summary.notes}
    assert ("unverified" in kinds) == is_unverified
    left_out = {*summary.left_out} & {*source.weights}
    if name not in ("tf1", "keras", *trained.row.formats):
        assert left_out
        assert {*discovery.open(there).heads} < {*source.heads}
        return
    assert not left_out
    convert(there, back, "keras")
    found = discovery.open(back)
    # KerasHub does not store the deviation of initial weights.
    deviation = {"initializer_range": CONFIG.initializer_range}
    assert dataclasses.replace(found.config, **deviation) == source.config
    check_same(found.weights, source.weights)
    if trained.name != "encoder":
        assert found.metadata.head == source.metadata.head
    assert found.metadata.labels == source.metadata.labels
    tokenizers = found.tokenizer, source.tokenizer
    assert len({one.fingerprint for one in tokenizers}) == 1


def test_models_answer_together_with_a_mean_where_there_is_one(trained):
    paths = [trained.path] * 2
    if not trained.row.has_mean:
        with pytest.raises(ValueError, match="its answers cannot be averaged"):
            albert_tf.load_predictor(paths, head=trained.head)
        return

    together = albert_tf.load_predictor(paths, head=trained.head)

    # The mean of equal models is the answer of each.
    assert together.predict(trained.row.inputs) == near(trained.answers, 1e-3)


def test_int8_gives_nearly_the_same(trained):
    model = albert_tf.load_model(trained.path, head=trained.spec.head)
    batch = batch_of(model, trained.predictor.tokenizer)
    full = {name: np.asarray(one) for name, one in model(batch).items()}

    model.quantize("int8")

    small = {name: np.asarray(one) for name, one in model(batch).items()}
    for name, values in full.items():
        if np.issubdtype(values.dtype, np.floating):
            difference = np.abs(small[name] - values).max()
            assert 0 < difference < 0.1 * np.abs(values).max(), name
