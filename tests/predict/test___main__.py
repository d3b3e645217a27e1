"""The command that answers texts."""

import io
import json
import sys
import types

import pytest

import albert_tf
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.inference import predictor
from albert_tf.predict import __main__ as predict
from tests.exported_models import write_checkpoint
from tests.inference.test_predictor import CONFIG


@pytest.fixture(scope="module")
def write(tiny_spm_model):
    """Writes a classifier with two labels; returns its folder."""

    def write_classifier(folder, **options):
        write_checkpoint(
            folder,
            albert_tf.ClassifierModel(CONFIG, num_labels=2, **options),
            vocabulary=str(tiny_spm_model),
            metadata=Metadata(labels=("ham", "grün")),
        )
        return str(folder)

    return write_classifier


@pytest.fixture(scope="module")
def folder(write, tmp_path_factory):
    return write(tmp_path_factory.mktemp("classifier"))


@pytest.fixture
def run(folder, capsys, monkeypatch):
    def start(*texts, lines="", path=folder):
        content = lines.encode("utf-8", "surrogateescape")
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        code = predict.main([path, *texts])
        out, err = capsys.readouterr()
        return code, [*map(json.loads, out.split("\n")[:-1])], err

    return start


def test_texts_on_the_command_line_are_one_input(run, folder):
    answer = albert_tf.load_predictor(folder, max_seq_length=8).predict

    flag = "--max_seq_length=8"
    # It is longer than the limit.
    text = "A house. " * 9
    assert run(text, flag) == (0, [answer(text)], "")
    # Flags may stand anywhere.
    for arguments in (("a", flag, "b"), (flag, "a", "b")):
        assert run(*arguments) == (0, [answer(("a", "b"))], "")


def test_lines_are_texts_or_json(run, folder):
    answer = albert_tf.load_predictor(folder).predict
    lines = '\ufeff{"text_a": "a"}\n["a", "b"]\r\nA house.\n[MASK] x\n\n'

    code, answers, _ = run(lines=lines)

    assert code == 0
    inputs = ["a", ("a", "b"), "A house.", "[MASK] x", ""]
    assert answers == answer(inputs)


def test_a_line_that_cannot_be_answered_costs_no_other_answer(run, folder):
    lines = '[1]\nA house.\n{x\n{"x": 1}\n\udcff\nThe end.\n'

    code, answers, err = run(lines=lines)

    answer = albert_tf.load_predictor(folder).predict
    # Each is answered alone, which decides the last bits.
    assert answers[1] == answer("A house.") and answers[5] == answer("The end.")
    errors = [answers[i].pop("error") for i in (0, 2, 3, 4)]
    assert answers[0] == {}
    assert errors[0] == "Line 1: must have text_a, text_b. Received: (1,)."
    assert errors[1].startswith("Line 3: It is not JSON:")
    assert errors[2].startswith("Line 4: must have text_a.")
    assert errors[3].startswith("Line 5: 'utf-8' codec can't decode")
    assert (code, err) == (1, f"error: 4 lines have no answer. {errors[0]}\n")


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("label", ["grün", "\x7f\x85\x9f"])
def test_every_answer_is_json(encoding, label, monkeypatch):
    made = types.SimpleNamespace(predict=lambda _: {"prediction": label})
    monkeypatch.setattr(predictor, "load_predictor", lambda *_, **__: made)
    out = io.TextIOWrapper(io.BytesIO(), encoding)
    monkeypatch.setattr(sys, "stdout", out)

    predict.main(["run", "a"])

    out.flush()
    line = out.buffer.getvalue().decode(encoding)
    assert json.loads(line) == {"prediction": label}
    assert (label in line) == (label == "grün" and encoding == "utf-8")


@pytest.mark.parametrize(
    ("texts", "path", "message"),
    [
        ([], "nowhere", "error: There is no checkpoint"),
        (["a", "b", "c"], None, "error: Input 0 must have text_a"),
    ],
)
def test_what_cannot_be_is_one_line(texts, path, message, run, folder):
    code, answers, err = run(*texts, path=path or folder)

    assert (code, answers) == (1, [])
    assert err.startswith(message)
    assert err.count("\n") == 1


def test_vectors_are_lists(run):
    code, [answer], _ = run("a", "--head=encoder")

    assert code == 0
    assert len(answer["vector"]) == 16


def test_several_runs_answer_together(run, folder, tmp_path, write):
    paths = [folder, write(tmp_path, seed=9)]

    code, [answer], _ = run("a", f"--with={tmp_path}")

    assert (code, answer) == (0, albert_tf.load_predictor(paths).predict("a"))
    assert answer != albert_tf.load_predictor(folder).predict("a")
