import json
import pathlib
import shlex
import subprocess
import sys
import types

import pytest

from albert_tf import files
from albert_tf.cli import program
from demo import report, run, serving

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def commands(monkeypatch):
    """Commands that the demo would run; they are not run."""
    seen = []

    def record(command, *, check, env):
        assert program.IS_CALLED in env
        seen.append(command)
        return subprocess.CompletedProcess(command, returncode=0)

    monkeypatch.setattr(run.subprocess, "run", record)
    return seen


def _flags(command):
    return dict(
        argument.removeprefix("--").partition("=")[::2]
        for argument in command[2:]
    )


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
    root, other = tmp_path / ("ä b" * 50), tmp_path / "other"
    root.mkdir()
    other.mkdir()
    monkeypatch.setattr(run, "ROOT", root)
    monkeypatch.setattr(sys, "executable", str(root / ".venv/bin/python"))
    script = "build_vocab.py"

    monkeypatch.chdir(root)
    command = run.call(script, input_file="a b.txt", n=3, on=True)
    shown = capsys.readouterr().out
    monkeypatch.chdir(other)
    elsewhere = run.call(script)
    shown_elsewhere = capsys.readouterr().out

    flags = "'--input_file=a b.txt' --n=3 --on"
    assert command == f".venv/bin/python {script} {flags}"
    assert shown == f"$ {command}\n"
    paths = [
        shlex.quote(str(root / name)) for name in (".venv/bin/python", script)
    ]
    assert elsewhere == " ".join(paths)
    assert shown_elsewhere == f"$ {paths[0]} \\\n      {paths[1]}\n"
    assert commands == [shlex.split(command), shlex.split(elsewhere)]


def test_a_script_that_fails_ends_the_demo_with_its_code(monkeypatch):
    failed = subprocess.CompletedProcess([], returncode=7)
    monkeypatch.setattr(run.subprocess, "run", lambda *_, **__: failed)

    with pytest.raises(SystemExit, match="7"):
        run.call("build_vocab.py")


def write_results(folder, reviews):
    """Writes what the scripts would: scores, and the log of a pretraining."""
    files.write_json(folder / "classifier/eval_results.json", reviews)
    files.write_json(
        folder / "pretraining_long/eval_results.json",
        {"masked_lm_accuracy": 0.25, "sentence_order_accuracy": 0.7},
    )
    lines = [{"eval_masked_lm_accuracy": x} for x in (0.0, 0.1, 0.2)]
    files.write_text(
        folder / "pretraining_short/metrics.jsonl",
        "".join(json.dumps(line) + "\n" for line in lines),
    )


@pytest.fixture
def values(monkeypatch, tmp_path):
    """Flags of a demo whose scripts and models are replaced."""
    train = [["This is to train on.", "So is this."], ["And this."]]
    parts = (train, [["Held out."]])
    monkeypatch.setattr(run.corpus, "train_and_held_out", lambda: parts)
    monkeypatch.setattr(serving, "answers", lambda **_: [("Is it?", "yes")])
    monkeypatch.setattr(
        report, "write", lambda _, **contents: sys.stdout.write(f"{contents}\n")
    )
    write_results(tmp_path, {"accuracy": 0.955, "accuracy_baseline": 0.55})
    tuned = []

    def finetune(task_name, **given):
        tuned.append({"task_name": task_name, **given})
        return types.SimpleNamespace(scores={"accuracy": 0.955})

    monkeypatch.setattr(run.albert_tf, "finetune", finetune, raising=False)
    return types.SimpleNamespace(
        output_dir=str(tmp_path),
        num_train_steps=40,
        num_finetuning_steps=10,
        random_seed=1,
        fresh=False,
        tuned=tuned,
    )


def test_each_step_uses_what_an_earlier_one_wrote(
    values, tmp_path, commands, capsys
):
    run.main(values)

    vocabulary, *records = map(_flags, commands[:5])
    short, long, there, back, *exports = map(_flags, commands[5:])
    [classifier] = values.tuned
    train, held_out = tmp_path / "train.txt", tmp_path / "held_out.txt"
    assert train.read_text("utf-8") == (
        "This is to train on.\nSo is this.\n\nAnd this.\n"
    )
    assert held_out.read_text("utf-8") == "Held out.\n"
    pairs = [tmp_path / "train_sop.txt", tmp_path / "held_out_sop.txt"]
    assert [path.read_text("utf-8") for path in pairs] == [
        "This is to train on.\nSo is this.\n",
        "\n",
    ]
    assert vocabulary["input_file"] == str(train)
    for part, texts, pretraining in (
        (records[:2], [train, held_out], short),
        (records[2:], pairs, long),
    ):
        assert [r["input_file"] for r in part] == [*map(str, texts)]
        assert pretraining["input_file"] == part[0]["output_file"]
        assert pretraining["eval_file"] == part[1]["output_file"]
        for name in ("max_seq_length", "max_predictions_per_seq"):
            assert pretraining[name] == part[0][name] == part[1][name]
    config = files.read_json(short["albert_config_file"])
    assert config == run.MODEL.to_dict()
    assert (short["num_train_steps"], long["num_train_steps"]) == ("30", "10")
    assert long["init_checkpoint"] == short["output_dir"]
    assert there["input_path"] == long["output_dir"]
    assert back["input_path"] == there["output_path"]
    assert "verify" in there.keys() & back.keys()
    assert classifier["init_checkpoint"] == long["output_dir"]
    reviews = files.read_text(classifier["train_file"])
    assert reviews.startswith("sentence\tlabel\n")
    assert [e["init_checkpoint"] for e in exports] == [
        long["output_dir"],
        classifier["output_dir"],
    ]
    printed = capsys.readouterr().out
    for text in (
        "Training text: 2 docstrings, 3 sentences, 10 words\n",
        "'Is it?': yes\n",
        "'Reviews': '95.5% of 200 held-out reviews'",
        "'answers': [('Is it?', 'yes')]",
        "masked words    25.0% (baseline 10.0%)",
        "sentence order  70.0% (baseline 50.0%)",
        "reviews         95.5% (baseline 55.0%)",
    ):
        assert text in printed


def test_a_demo_that_has_learnt_nothing_fails(values, tmp_path, commands):
    write_results(tmp_path, {"accuracy": 0.55, "accuracy_baseline": 0.55})

    with pytest.raises(ValueError, match="Nothing has been learnt of reviews"):
        run.main(values)


def test_a_score_near_its_baseline_may_be_chance(
    values, tmp_path, commands, capsys
):
    write_results(tmp_path, {"accuracy": 0.57, "accuracy_baseline": 0.55})

    run.main(values)

    printed = capsys.readouterr().out
    assert "reviews         57.0% (baseline 55.0%, may be chance)" in printed


def test_results_of_an_earlier_demo_are_kept(
    values, tmp_path, commands, capsys, monkeypatch
):
    run.main(values)
    results = ("vocabulary.model", "huggingface", "round_trip")
    for name in (*results, "exported/encoder", "exported/classifier"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(run.corpus, "train_and_held_out", None)
    del commands[:]
    run.main(values)

    scripts = [pathlib.Path(command[1]).stem for command in commands]
    assert scripts == [
        *["create_pretraining_data"] * 4,
        *["run_pretraining"] * 2,
    ]
    assert capsys.readouterr().out.count("Kept from an earlier demo") == 6


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
        # So few steps may not be enough, and then the demo says for what.
        scores = run.results(tmp_path).items()
        missed = [name for name, (score, base) in scores if score <= base]
        assert result.returncode == bool(missed), result.stderr
        said = f"Nothing has been learnt of {', '.join(missed)}. Try"
        assert (said in result.stderr) == bool(missed)

    assert set(run.RESULTS) == {path.name for path in tmp_path.iterdir()}
    losses = [
        line["eval_masked_lm_loss"]
        for line in files.read_json_lines(
            tmp_path / "pretraining_short/metrics.jsonl"
        )
        if "eval_masked_lm_loss" in line
    ]
    assert losses[-1] < losses[0] - 1.0
