import json
import os
import pathlib
import shlex
import subprocess
import sys

import pytest

from demo import run

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def commands(monkeypatch):
    """Commands that the demo would run; they are not run."""
    seen = []

    def record(command, *, check):
        seen.append(command)
        return subprocess.CompletedProcess(command, returncode=0)

    monkeypatch.setattr(run.subprocess, "run", record)
    return seen


def _flag(command, name):
    (value,) = [
        argument.removeprefix(f"--{name}=")
        for argument in command
        if argument.startswith(f"--{name}=")
    ]
    return value


def test_both_texts_are_written_once(tmp_path, monkeypatch, capsys):
    parts = ([["This is to train on.", "So is this."]], [["Held out."]])
    monkeypatch.setattr(run.corpus, "train_and_held_out", lambda: parts)
    facts = run.write_corpus(tmp_path / "new")
    monkeypatch.setattr(run.corpus, "train_and_held_out", None)

    again = run.write_corpus(tmp_path / "new")

    train = (tmp_path / "new" / "train.txt").read_text(encoding="utf-8")
    held_out = (tmp_path / "new" / "held_out.txt").read_text(encoding="utf-8")
    assert train == "This is to train on.\nSo is this.\n"
    assert held_out == "Held out.\n"
    assert facts["Training text"] == "1 docstrings, 2 sentences, 8 words"
    assert again == facts
    printed = capsys.readouterr().out
    assert printed.count("Held-out text: 1 docstrings, 1 sentences") == 2
    assert printed.count("Kept from an earlier demo") == 1


def test_fresh_removes_what_a_demo_makes_and_nothing_else(tmp_path):
    for phase in (run.SHORT, run.LONG):
        run.run_folder(tmp_path, phase).mkdir()
    for name in ("vocabulary.model", "report.html", "thesis.tex"):
        (tmp_path / name).touch()

    run.remove_results(tmp_path)
    run.remove_results(tmp_path / "not_there")

    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_commands_are_shown_as_a_user_may_type_them(
    commands, capsys, monkeypatch
):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "executable", str(ROOT / ".venv/bin/python"))

    command = run.call("build_vocab.py", input_file="a b.txt", n=3, on=True)

    assert command == (
        ".venv/bin/python build_vocab.py '--input_file=a b.txt' --n=3 --on"
    )
    assert capsys.readouterr().out == f"$ {command}\n"
    assert shlex.split(command) == commands[0]


def test_commands_work_from_another_folder(commands, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    run.call("build_vocab.py")

    assert all(os.path.exists(path) for path in commands[0])


def test_a_script_that_fails_ends_the_demo_with_its_code(monkeypatch):
    failed = subprocess.CompletedProcess([], returncode=7)
    monkeypatch.setattr(run.subprocess, "run", lambda *_, **__: failed)

    with pytest.raises(SystemExit, match="7"):
        run.call("build_vocab.py")


def test_the_vocabulary_is_made_once_from_the_training_text(
    tmp_path, commands, capsys
):
    run.build_vocabulary(tmp_path)
    (tmp_path / "vocabulary.model").touch()
    run.build_vocabulary(tmp_path)

    (command,) = commands
    assert _flag(command, "input_file") == str(tmp_path / "train.txt")
    assert "Kept from an earlier demo" in capsys.readouterr().out


@pytest.mark.parametrize("phase", [run.SHORT, run.LONG])
def test_a_phase_trains_on_one_text_and_is_scored_on_the_other(
    phase, tmp_path, commands
):
    run.build_records(tmp_path, phase)
    run.pretrain(tmp_path, phase, 40)

    train, held_out, pretraining = commands
    assert _flag(train, "input_file") == str(tmp_path / "train.txt")
    assert _flag(held_out, "input_file") == str(tmp_path / "held_out.txt")
    assert _flag(pretraining, "input_file") == _flag(train, "output_file")
    assert _flag(pretraining, "eval_file") == _flag(held_out, "output_file")
    for name in ("max_seq_length", "max_predictions_per_seq"):
        assert _flag(pretraining, name) == _flag(train, name)
    config = pathlib.Path(_flag(pretraining, "albert_config_file"))
    assert json.loads(config.read_text()) == run.MODEL.to_dict()


def test_each_model_starts_from_the_one_before(tmp_path, commands):
    (tmp_path / "classifier").mkdir()
    (tmp_path / "classifier" / "eval_results.json").write_text(
        '{"accuracy": 0.955}'
    )

    run.pretrain(tmp_path, run.SHORT, 40)
    run.pretrain(tmp_path, run.LONG, 40, after=run.SHORT)
    run.convert(tmp_path)
    accuracy = run.fine_tune(tmp_path, 40)

    short, long, there, back, fine_tuning = commands
    assert _flag(long, "init_checkpoint") == _flag(short, "output_dir")
    assert "--allow_new_heads" in long
    assert _flag(there, "input_path") == _flag(long, "output_dir")
    assert _flag(back, "input_path") == _flag(there, "output_path")
    assert "--verify" in there
    assert "--verify" in back
    assert _flag(fine_tuning, "init_checkpoint") == _flag(long, "output_dir")
    with open(_flag(fine_tuning, "train_file"), encoding="utf-8") as file:
        assert file.readline() == "sentence\tlabel\n"
    assert accuracy == "95.5% of 200 held-out reviews"


def test_both_models_are_exported_once(tmp_path, commands, capsys):
    run.export(tmp_path)
    for command in list(commands):
        os.makedirs(_flag(command, "export_dir"))
    run.export(tmp_path)

    tasks = [_flag(command, "task") for command in commands]
    assert tasks == ["encoder", "classifier"]
    assert capsys.readouterr().out.count("Kept from an earlier demo") == 2


@pytest.mark.slow
def test_the_whole_demo_learns_resumes_and_reports(tmp_path):
    command = [
        *(sys.executable, "-m", "demo.run", f"--output_dir={tmp_path}"),
        *("--num_train_steps=240", "--num_finetuning_steps=20"),
    ]
    for _ in range(2):
        result = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=ROOT
        )
        assert result.returncode == 0, result.stderr

    assert set(run.RESULTS) == {path.name for path in tmp_path.iterdir()}
    log = (tmp_path / "pretraining_short" / "metrics.jsonl").read_text()
    losses = [
        values["eval_masked_lm_loss"]
        for values in map(json.loads, log.splitlines())
        if "eval_masked_lm_loss" in values
    ]
    assert losses[-1] < losses[0] - 1.0
