import json
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


def _flags(command):
    return dict(
        argument.removeprefix("--").partition("=")[::2]
        for argument in command[2:]
    )


def test_both_texts_are_written_once(tmp_path, monkeypatch, capsys):
    train = [["This is to train on.", "So is this."], ["And this."]]
    parts = (train, [["Held out."]])
    monkeypatch.setattr(run.corpus, "train_and_held_out", lambda: parts)
    facts = run.write_corpus(tmp_path / "new")
    monkeypatch.setattr(run.corpus, "train_and_held_out", None)

    again = run.write_corpus(tmp_path / "new")

    train = (tmp_path / "new" / "train.txt").read_text(encoding="utf-8")
    held_out = (tmp_path / "new" / "held_out.txt").read_text(encoding="utf-8")
    assert train == "This is to train on.\nSo is this.\n\nAnd this.\n"
    assert held_out == "Held out.\n"
    assert facts["Training text"] == "2 docstrings, 3 sentences, 10 words"
    assert again == facts
    printed = capsys.readouterr().out
    assert printed.count("Held-out text: 1 docstrings, 1 sentences") == 2
    assert printed.count("Kept from an earlier demo") == 1


def test_fresh_removes_what_a_demo_makes_and_nothing_else(tmp_path):
    (tmp_path / "classifier" / "best").mkdir(parents=True)
    for name in ("vocabulary.model", "report.html", "thesis.tex"):
        (tmp_path / name).touch()

    run.remove_results(tmp_path)
    run.remove_results(tmp_path / "not_there")

    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_commands_are_shown_as_a_user_may_type_them(
    commands, capsys, monkeypatch, tmp_path
):
    monkeypatch.setattr(sys, "executable", str(ROOT / ".venv/bin/python"))
    script = "build_vocab.py"

    monkeypatch.chdir(ROOT)
    command = run.call(script, input_file="a b.txt", n=3, on=True)
    monkeypatch.chdir(tmp_path)
    elsewhere = run.call(script)

    flags = "'--input_file=a b.txt' --n=3 --on"
    assert command == f".venv/bin/python {script} {flags}"
    assert elsewhere == f"{ROOT}/.venv/bin/python {ROOT}/{script}"
    assert capsys.readouterr().out == f"$ {command}\n$ {elsewhere}\n"
    assert commands == [shlex.split(command), shlex.split(elsewhere)]


def test_a_script_that_fails_ends_the_demo_with_its_code(monkeypatch):
    failed = subprocess.CompletedProcess([], returncode=7)
    monkeypatch.setattr(run.subprocess, "run", lambda *_, **__: failed)

    with pytest.raises(SystemExit, match="7"):
        run.call("build_vocab.py")


@pytest.mark.parametrize("phase", [run.SHORT, run.LONG])
def test_a_phase_trains_on_one_text_and_is_scored_on_the_other(
    phase, tmp_path, commands
):
    run.build_vocabulary(tmp_path)
    run.build_records(tmp_path, phase)
    run.pretrain(tmp_path, phase, 40)

    vocabulary, train, held_out, pretraining = map(_flags, commands)
    assert vocabulary["input_file"] == str(tmp_path / "train.txt")
    assert train["input_file"] == str(tmp_path / "train.txt")
    assert held_out["input_file"] == str(tmp_path / "held_out.txt")
    assert pretraining["input_file"] == train["output_file"]
    assert pretraining["eval_file"] == held_out["output_file"]
    for name in ("max_seq_length", "max_predictions_per_seq"):
        assert pretraining[name] == train[name]
    config = pathlib.Path(pretraining["albert_config_file"])
    assert json.loads(config.read_text()) == run.MODEL.to_dict()


def test_each_model_starts_from_the_one_before(tmp_path, commands):
    (tmp_path / "classifier").mkdir()
    (tmp_path / "classifier" / "eval_results.json").write_text(
        '{"accuracy": 0.955}'
    )

    run.pretrain(tmp_path, run.SHORT, 40)
    start = tmp_path / "pretraining_short"
    run.pretrain(tmp_path, run.LONG, 40, init_checkpoint=start)
    run.convert(tmp_path)
    accuracy = run.fine_tune(tmp_path, 40)
    run.export(tmp_path)

    short, long, there, back, classifier, *exports = map(_flags, commands)
    assert long["init_checkpoint"] == short["output_dir"]
    assert there["input_path"] == long["output_dir"]
    assert back["input_path"] == there["output_path"]
    assert "verify" in there.keys() & back.keys()
    assert classifier["init_checkpoint"] == long["output_dir"]
    train_file = pathlib.Path(classifier["train_file"]).read_text("utf-8")
    assert train_file.startswith("sentence\tlabel\n")
    assert accuracy == "95.5% of 200 held-out reviews"
    assert [(e["init_checkpoint"], e["task"]) for e in exports] == [
        (long["output_dir"], "encoder"),
        (classifier["output_dir"], "classifier"),
    ]


def test_results_of_an_earlier_demo_are_kept(tmp_path, commands, capsys):
    (tmp_path / "vocabulary.model").touch()
    for name in ("huggingface", "round_trip"):
        (tmp_path / name).mkdir()
    for name in ("encoder", "classifier"):
        (tmp_path / "exported" / name).mkdir(parents=True)

    run.build_vocabulary(tmp_path)
    run.convert(tmp_path)
    run.export(tmp_path)

    assert not commands
    assert capsys.readouterr().out.count("Kept from an earlier demo") == 5


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
