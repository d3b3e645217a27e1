"""The example of docs/new_head.md: trained, and used by commands."""

import importlib
import importlib.metadata
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401

import albert_tf
from albert_tf.predict import __main__ as predict

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "new_head.md").read_text(encoding="utf-8")
MODULE, TRAINING = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = [
    shlex.split(line.replace("\\\n", ""))
    for line in re.findall(r"^\$ python ((?:.*\\\n)*.*)", PAGE, re.MULTILINE)
]
SMALL = {"num_train_steps": 50, "max_seq_length": 16, "train_batch_size": 4}


@pytest.fixture(scope="module")
def folder(base, tmp_path_factory):
    """The folder in which the page is followed, after its training."""
    folder = tmp_path_factory.mktemp("new_head")
    (folder / "mood.py").write_text(MODULE)
    shutil.copytree(base, folder / "albert_base")
    rows = (
        f"{i} {'cat ' * (i % 5)},{i % 5 / 5},{i % 3 / 3}" for i in range(99)
    )
    table = "\n".join(["text,valence,arousal", *rows, ""])
    (folder / "moods.csv").write_text(table)
    (folder / "new.csv").write_text("text\na cat\na dog\n")
    before = os.getcwd()
    sys.path.insert(0, str(folder))
    os.chdir(folder)
    finetune = albert_tf.finetune
    try:
        albert_tf.finetune = lambda spec, **given: finetune(
            spec, **given | SMALL
        )
        names = {}
        exec(TRAINING, names)  # noqa: S102
        yield folder, names["result"]
    finally:
        albert_tf.finetune = finetune
        os.chdir(before)
        sys.path.remove(str(folder))
        del sys.modules["mood"]


def test_it_takes_40_lines():
    assert MODULE.count("\n") <= 40


def test_its_run_has_all_that_a_task_has(folder):
    path, result = folder
    lines = (path / "moods" / "predictions.jsonl").read_text().splitlines()
    evaluation = json.loads((path / "moods" / "eval_results.json").read_text())

    # The labels of the array `labels` are compared with chance.
    assert {"near", "near_baseline", "loss"} <= evaluation.keys()
    assert {"near_interval_low", "near_interval_high"} <= evaluation.keys()
    assert [[*json.loads(line)] for line in lines] == [
        ["id", "valence", "arousal"]
    ] * 2
    assert [*result.predictor.predict("a cat")] == ["valence", "arousal"]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_its_commands_run(command, folder, capfd):
    path, result = folder
    if not command[0].startswith("-"):
        command = [str(ROOT / command[0]), *command[1:]]

    subprocess.run(
        [sys.executable, *command],
        cwd=path,
        env={**os.environ, "PYTHONPATH": f"{path}{os.pathsep}{ROOT}"},
        check=True,
    )

    out, _ = capfd.readouterr()
    if "albert_tf.predict" in command:
        expected = result.predictor.predict("What a day!")
        assert json.loads(out) == pytest.approx(expected, abs=1e-5)
    elif any(word.startswith("--verify") for word in command):
        assert "unverified" not in out
        assert "logits differs by at most" in out
    else:
        [version] = (path / "served").glob("[0-9]*")
        serve = tf.saved_model.load(str(version)).signatures["serving_default"]
        found = serve(text_a=tf.constant(["a cat"]), text_b=tf.constant([""]))
        answer = {name: float(x.numpy()[0]) for name, x in found.items()}
        expected = result.predictor.predict("a cat")
        assert answer == pytest.approx(expected, abs=1e-5)


@pytest.fixture
def installed(monkeypatch):
    """Makes `mood` an installed package's head."""
    point = importlib.metadata.EntryPoint(
        "mood", "mood:SPEC", "albert_tf.heads"
    )

    def entry_points(group, name):
        return [point] * ((group, name) == (point.group, point.name))

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)


def test_the_head_of_an_installed_package_is_found_by_its_name(
    folder, installed
):
    path, result = folder

    predictor = albert_tf.load_predictor(path / "moods")

    expected = result.predictor.predict("a cat")
    assert predictor.predict("a cat") == expected
    model = albert_tf.load_model(path / "moods", head="mood")
    assert model.head_name == "mood"


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (
            "nowhere:SPEC",
            "be imported from nowhere:SPEC .ModuleNotFound",
        ),
        ("mood:Moods", "AttributeError: module 'mood' has no attribute"),
        ("mood:np", "mood:np is no `HeadSpec`"),
        (":SPEC", "cannot be imported from :SPEC"),
        ("moods", "`head` must be one of encoder, .*'moods'"),
    ],
)
def test_another_name_is_refused_in_one_line(head, words, folder, capsys):
    path, _ = folder

    code = predict.main([str(path / "moods"), "a cat", f"--head={head}"])

    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert re.search(words, err)
