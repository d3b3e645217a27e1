"""Killed runs and builds that are started again end with the same result."""

import json
import random
import signal
import time

import pytest

KILL, TERMINATE = signal.SIGKILL, signal.SIGTERM
KILLED = -KILL
NUM_STEPS = 200
LONGEST_PAUSE = 0.2

# Small blocks, so that a small corpus has some for each output file.
SMALL_BLOCKS = """
from albert_tf.data import corpus
corpus.BLOCK_CHARACTERS = 20_000
"""


@pytest.fixture
def start_run(start_script, pretraining_flags, tmp_path):
    """Starts a run in a folder by its name."""

    def start(name):
        return start_script(
            "run_pretraining.py",
            *pretraining_flags,
            "--log_steps=7",
            "--save_checkpoints_steps=20",
            f"--num_train_steps={NUM_STEPS}",
            f"--output_dir={name}",
            folder=tmp_path,
        )

    return start


def wait_for_log(folder, step):
    """Waits until the log of a run has come to a step."""
    log = folder / "metrics.jsonl"
    while True:
        # The last line may be half written.
        lines = log.read_text().split("\n")[:-1] if log.exists() else []
        if lines and json.loads(lines[-1])["step"] >= step:
            return
        time.sleep(0.01)


# `test_run_pretraining.py` has a quicker one.
@pytest.mark.slow
def test_a_run_that_is_killed_at_any_moment_ends_as_an_unbroken_one(
    start_run, logged, tmp_path
):
    signals = [KILL, TERMINATE, KILL, KILL]
    unbroken = start_run("unbroken").wait()
    assert unbroken.returncode == 0, unbroken.stderr

    story = []
    # One moment in each part of the run, from its start to near its end.
    for part, number in enumerate(signals):
        moment = int((part + random.random()) / len(signals) * NUM_STEPS * 0.8)
        pause = random.uniform(0, LONGEST_PAUSE)
        story.append(f"{number.name} {pause:.3f} s after step {moment}")
        command = start_run("killed")
        wait_for_log(tmp_path / "killed", moment)
        time.sleep(pause)
        command.kill(number)
        done = command.wait()
        story.append(done.stderr)
        assert done.returncode == (3 if number is TERMINATE else KILLED), story
        if number is TERMINATE:
            assert "a checkpoint is saved" in done.stderr, story
    # A run that was killed early has saved nothing yet.
    saved = any((tmp_path / "killed" / "checkpoints").glob("step-*"))
    last = start_run("killed").wait()

    assert last.returncode == 0, (story, last.stderr)
    resumes = "Resuming from killed/checkpoints/step-" in last.stderr
    assert resumes == saved, story
    assert last.stdout == unbroken.stdout
    killed_log = logged(tmp_path / "killed" / "metrics.jsonl")
    unbroken_log = logged(tmp_path / "unbroken" / "metrics.jsonl")
    assert killed_log == unbroken_log, story
    assert killed_log[-1]["step"] == NUM_STEPS
    results = [
        (tmp_path / name / "eval_results.json").read_bytes()
        for name in ("killed", "unbroken")
    ]
    assert results[0] == results[1]


def test_a_killed_build_keeps_its_finished_files_and_ends_as_an_unbroken_one(
    start_script, tiny_corpus, tiny_spm_model, tmp_path
):
    text = tiny_corpus.read_text("utf-8")
    (tmp_path / "corpus.txt").write_text(f"{text}\n" * 40, "utf-8")
    names = ["a", "b", "c", "d"]

    def start(name):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        return start_script(
            "create_pretraining_data.py",
            "--input_file=../corpus.txt",
            f"--output_file={','.join(names)}",
            f"--spm_model_file={tiny_spm_model}",
            "--max_seq_length=32",
            "--max_predictions_per_seq=5",
            folder=folder,
            before=SMALL_BLOCKS,
        )

    unbroken = start("unbroken").wait()
    assert unbroken.returncode == 0, unbroken.stderr
    command = start("killed")
    while not (tmp_path / "killed" / "b").exists():
        time.sleep(0.01)
    command.kill()
    assert command.wait().returncode == KILLED

    again = start("killed").wait()

    assert again.returncode == 0, again.stderr
    assert "a is finished; it is kept" in again.stdout
    assert "d is finished; it is kept" not in again.stdout
    assert contents(tmp_path / "killed") == contents(tmp_path / "unbroken")
    assert set(contents(tmp_path / "killed")) == {
        name + end for name in names for end in ("", ".index", ".json")
    }


def contents(folder):
    """The files, without a lock that a kill may leave."""
    return {path.name: path.read_bytes() for path in folder.glob("[!.]*")}
