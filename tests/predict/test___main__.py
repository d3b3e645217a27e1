"""The command that answers texts."""

import io
import json
import subprocess
import sys

import pytest

import albert_tf
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.predict import __main__ as predict
from tests.exported_models import write_checkpoint
from tests.inference.test_predictor import CONFIG


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_spm_model):
    model = albert_tf.ClassifierModel(CONFIG, num_labels=2)
    path = tmp_path_factory.mktemp("classifier")
    write_checkpoint(
        path,
        model,
        vocabulary=str(tiny_spm_model),
        metadata=Metadata(labels=("ham", "grün")),
    )
    return str(path)


@pytest.fixture
def run(folder, capsys, monkeypatch):
    def start(*texts, lines="", path=folder):
        monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
        code = predict.main([path, *texts])
        out, err = capsys.readouterr()
        return code, [*map(json.loads, out.splitlines())], err

    return start


def test_texts_on_the_command_line_are_one_input(run, folder):
    predictor = albert_tf.load_predictor(folder)

    assert run("A house.") == (0, [predictor.predict("A house.")], "")
    assert run("a", "b") == (0, [predictor.predict(("a", "b"))], "")


def test_lines_are_texts_or_json(run, folder):
    predictor = albert_tf.load_predictor(folder)
    lines = 'A house.\n["a", "b"]\n{"text_a": "a"}\n[MASK] x\n\n'

    code, answers, _ = run(lines=lines)

    assert code == 0
    inputs = ["A house.", ("a", "b"), "a", "[MASK] x", ""]
    assert answers == predictor.predict(inputs)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"path": "nowhere"}, "error: There is no checkpoint 'nowhere'"),
        ({"lines": "{x\n"}, "error: Line 1 is not JSON"),
        ({"lines": '{"x": 1}\n'}, "error: Input 0 must have text_a"),
    ],
)
def test_what_cannot_be_is_one_line(changes, message, run):
    code, answers, err = run(**changes)

    assert (code, answers) == (1, [])
    assert err.startswith(message)
    assert err.count("\n") == 1


def test_help_does_not_import_tensorflow():
    code = (
        "import sys\nimport albert_tf.predict.__main__ as p\n"
        "try: p.main(['--help'])\n"
        "except SystemExit: print('tensorflow' in sys.modules)"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True
    )

    assert "standard input" in done.stdout
    assert done.stdout.endswith("False\n")


def test_vectors_are_lists(run):
    code, [answer], _ = run("a", "--head=encoder")

    assert code == 0
    assert len(answer["vector"]) == 16
