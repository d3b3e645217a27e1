import json
import os
import pathlib
import shlex
import subprocess
import sys

import pytest

import demo

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def small_corpus(monkeypatch):
    parts = ([["This is to train on.", "So is this."]], [["Held out."]])
    monkeypatch.setattr(demo.demo_corpus, "train_and_held_out", lambda: parts)


@pytest.fixture
def commands(monkeypatch):
    """Commands that the demo would run; they are not run."""
    seen = []

    def run(command, *, check):
        seen.append(command)
        return subprocess.CompletedProcess(command, returncode=0)

    monkeypatch.setattr(demo.subprocess, "run", run)
    return seen


def _flag(command, name):
    (value,) = [
        argument.removeprefix(f"--{name}=")
        for argument in command
        if argument.startswith(f"--{name}=")
    ]
    return value


def test_both_texts_are_written(tmp_path, small_corpus):
    paths = demo.Paths(tmp_path / "new")

    facts = demo.write_corpus(paths)

    train = pathlib.Path(paths.train_text).read_text(encoding="utf-8")
    held_out = pathlib.Path(paths.held_out_text).read_text(encoding="utf-8")
    assert train == "This is to train on.\nSo is this.\n"
    assert held_out == "Held out.\n"
    assert facts["Training text"] == "1 topics, 2 sentences, 8 words"


def test_the_texts_of_an_earlier_demo_are_found_equal(tmp_path, small_corpus):
    paths = demo.Paths(tmp_path)

    assert demo.write_corpus(paths) == demo.write_corpus(paths)


def test_another_corpus_in_the_folder_is_an_error(tmp_path, small_corpus):
    paths = demo.Paths(tmp_path)
    pathlib.Path(paths.train_text).write_text("Other.\n", encoding="utf-8")

    with pytest.raises(ValueError, match=r"another corpus.*Pass --fresh"):
        demo.write_corpus(paths)


def test_fresh_removes_what_a_demo_makes_and_nothing_else(tmp_path):
    paths = demo.Paths(tmp_path)
    for path in (paths.records, paths.run):
        os.makedirs(path)
    for path in (paths.spm_model, paths.train_records, paths.report):
        pathlib.Path(path).touch()
    other = tmp_path / "thesis.tex"
    other.touch()

    paths.remove_all()

    assert list(tmp_path.iterdir()) == [other]


def test_fresh_of_an_empty_folder_is_fine(tmp_path):
    demo.Paths(tmp_path / "not_there").remove_all()

    assert not list(tmp_path.iterdir())


def test_commands_are_echoed_as_a_user_may_type_them(
    commands, capsys, monkeypatch
):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "executable", str(ROOT / ".venv/bin/python"))

    command = demo.call("build_vocab.py", input_file="a b.txt", n=3, on=True)

    assert command == (
        ".venv/bin/python build_vocab.py '--input_file=a b.txt' --n=3 --on"
    )
    assert capsys.readouterr().out == f"$ {command}\n"
    assert shlex.split(command) == commands[0]


def test_commands_work_from_another_folder(commands, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    demo.call("build_vocab.py")

    assert all(os.path.exists(path) for path in commands[0])


def test_a_script_that_fails_ends_the_demo_with_its_code(monkeypatch):
    failed = subprocess.CompletedProcess([], returncode=7)
    monkeypatch.setattr(demo.subprocess, "run", lambda *_, **__: failed)

    with pytest.raises(SystemExit, match="7"):
        demo.call("build_vocab.py")


def test_a_vocabulary_that_is_there_is_kept(tmp_path, commands, capsys):
    paths = demo.Paths(tmp_path)
    pathlib.Path(paths.spm_model).touch()

    demo.build_vocabulary(paths)

    assert not commands
    assert "is there already" in capsys.readouterr().out


def test_the_vocabulary_is_made_of_the_training_text_only(tmp_path, commands):
    paths = demo.Paths(tmp_path)

    demo.build_vocabulary(paths)

    (command,) = commands
    assert _flag(command, "input_file") == paths.train_text


def test_the_model_trains_on_one_text_and_is_scored_on_the_other(
    tmp_path, commands
):
    paths = demo.Paths(tmp_path)

    demo.build_records(paths)
    demo.pretrain(paths, num_train_steps=40)

    train, held_out, pretraining = commands
    assert _flag(train, "input_file") == paths.train_text
    assert _flag(held_out, "input_file") == paths.held_out_text
    assert _flag(pretraining, "input_file") == _flag(train, "output_file")
    assert _flag(pretraining, "eval_file") == _flag(held_out, "output_file")
    config = json.loads(pathlib.Path(paths.config).read_text())
    assert _flag(pretraining, "albert_config_file") == paths.config
    assert config["hidden_size"] == 128


@pytest.mark.slow
def test_the_whole_demo_learns_resumes_and_reports(tmp_path):
    command = [
        sys.executable,
        str(ROOT / "demo.py"),
        f"--output_dir={tmp_path}",
        "--num_train_steps=120",
    ]
    for _ in range(2):
        result = subprocess.run(
            command, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stderr
        assert (tmp_path / "report.html").exists()

    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    losses = [
        values["eval_masked_lm_loss"]
        for values in map(json.loads, lines)
        if "eval_masked_lm_loss" in values
    ]
    assert losses[-1] < losses[0] - 1.0


def test_the_model_goes_to_another_format_and_back_verified(tmp_path, commands):
    paths = demo.Paths(tmp_path)

    demo.convert(paths)

    out, back = commands
    assert _flag(out, "input_path") == paths.run
    assert _flag(back, "input_path") == _flag(out, "output_path")
    assert "--verify" in out
    assert "--verify" in back


def test_the_classifier_starts_from_the_pretrained_model(tmp_path, commands):
    paths = demo.Paths(tmp_path)

    demo.fine_tune(paths, num_train_steps=40)

    (command,) = commands
    assert _flag(command, "init_checkpoint") == paths.run
    with open(_flag(command, "train_file"), encoding="utf-8") as file:
        assert file.readline() == "sentence\tlabel\n"


def test_both_models_are_exported_once(tmp_path, commands, capsys):
    paths = demo.Paths(tmp_path)

    demo.export(paths)
    for command in list(commands):
        os.makedirs(_flag(command, "export_dir"))
    demo.export(paths)

    assert [_flag(command, "task") for command in commands] == [
        "encoder",
        "classifier",
    ]
    assert capsys.readouterr().out.count("is there already") == 2
