"""Two workers that train together, against one that does it alone."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import numpy as np
import pytest

from tests.training import runs

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKER_TIMEOUT = 500  # seconds, on a machine that is busy
# Sends a signal to its own process after a step.
STOP = """
import os, runpy, signal, sys
step, *sys.argv = sys.argv[1:]
import albert_tf.training.loop
record = albert_tf.training.loop.TrainingLoop._record
def stop(loop, *arguments):
    record(loop, *arguments)
    if loop.state.step == int(step):
        os.kill(os.getpid(), signal.SIGTERM)
albert_tf.training.loop.TrainingLoop._record = stop
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture
def config_flag(workshop, tmp_path):
    """A config without dropout, which replicas draw for themselves."""
    config = json.loads((workshop / "config.json").read_text())
    config |= dict.fromkeys(
        ("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0
    )
    (tmp_path / "config.json").write_text(json.dumps(config))
    return "--albert_config_file=config.json"


# Then the loss of `finetuning_flags` falls steeply, which magnifies the last
# bits of a gradient: one process parts from itself by 7e-5 with other
# micro-batches, in the norm of step 70.
BEFORE_FALL = 50


@pytest.fixture
def finetuning_flags(table_flags, config_flag):
    """Flags of a run with large batches and a low rate.

    At ten times the rate and a third of the batch, one process parts from
    itself by a twentieth where its micro-batches are other ones, so another
    order of sums.
    """
    return (
        *table_flags,
        config_flag,
        "--max_seq_length=32",
        "--dropout_prob=0",
        "--train_batch_size=24",
        "--gradient_accumulation_steps=2",
        "--num_train_steps=80",
        "--num_warmup_steps=20",
        "--learning_rate=0.001",
        "--save_checkpoints_steps=20",
        "--log_steps=10",
        "--num_seeds=2",
    )


def start(script, flags, folder, *, cluster=None, stop_at=None):
    command = [sys.executable, str(ROOT / script), *flags]
    if stop_at:
        command[1:1] = ["-c", STOP, str(stop_at)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    if cluster:
        environment["TF_CONFIG"] = json.dumps(cluster)
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run_alone(script, flags, folder):
    alone = start(script, (*flags, "--output_dir=one"), folder)
    said, _ = alone.communicate(timeout=WORKER_TIMEOUT)
    assert alone.returncode == 0, said


def run_workers(
    script, flags, folder, *, output_dirs=("two", "two"), stop_at=(None, None)
):
    """Runs a command in two processes; returns exit codes and texts."""
    addresses = []
    with socket.socket() as one, socket.socket() as other:
        for free in (one, other):
            free.bind(("127.0.0.1", 0))
            addresses.append(f"127.0.0.1:{free.getsockname()[1]}")
    workers = [
        start(
            script,
            (*flags, f"--output_dir={output_dirs[index]}"),
            folder,
            cluster={
                "cluster": {"worker": addresses},
                "task": {"type": "worker", "index": index},
            },
            stop_at=stop_at[index],
        )
        for index in range(2)
    ]
    said = []
    for worker in workers:
        try:
            said.append(worker.communicate(timeout=WORKER_TIMEOUT)[0])
        except subprocess.TimeoutExpired:
            worker.kill()
            said.append(worker.communicate()[0])
    return [worker.returncode for worker in workers], said


def run_stopped_and_resumed(script, flags, folder, *, step):
    """Runs two workers to the end, the second stopped in between."""
    codes, said = run_workers(script, flags, folder, stop_at=(None, step))
    assert codes == [3, 3], said
    # A signal to the second stops both.
    assert all("a checkpoint is saved" in text for text in said)
    assert not (folder / "two" / "eval_results.json").exists()
    codes, said = run_workers(script, flags, folder)
    assert codes == [0, 0], said
    assert all("accuracy = " in text for text in said)


@pytest.mark.slow
def test_two_workers_pretrain_and_evaluate_like_one(
    pretraining_flags, config_flag, logged, tmp_path
):
    flags = (*pretraining_flags, config_flag, "--deterministic")
    run_alone("run_pretraining.py", flags, tmp_path)
    one, two = tmp_path / "one", tmp_path / "two"

    run_stopped_and_resumed("run_pretraining.py", flags, tmp_path, step=4)

    assert (two / "checkpoints" / "step-00000004").exists()
    events = [path for path in two.iterdir() if path.name.startswith("events")]
    assert len(events) == 2  # the chief's, of both runs
    results = [
        json.loads((folder / "eval_results.json").read_text())
        for folder in (one, two)
    ]
    assert results[1] == pytest.approx(results[0], rel=1e-4)
    logs = [logged(folder / "metrics.jsonl") for folder in (one, two)]
    for ours, theirs in zip(*logs, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4)
    arrays = runs.arrays_of(two, 10)
    for name, wanted in runs.arrays_of(one, 10).items():
        if "/key/bias" not in name:  # rounding noise, amplified
            scale = np.abs(wanted).max()
            assert np.abs(arrays[name] - wanted).max() <= 1e-5 * scale, name


@pytest.mark.slow
def test_workers_with_folders_of_their_own_are_stopped(
    pretraining_flags, tmp_path
):
    run_alone("run_pretraining.py", pretraining_flags, tmp_path)

    codes, said = run_workers(
        "run_pretraining.py",
        pretraining_flags,
        tmp_path,
        output_dirs=("one", "two"),
    )

    assert codes == [1, 1]
    for text in said:
        assert "must be a folder that all workers share" in text


@pytest.mark.slow
def test_all_workers_end_when_the_chief_refuses_the_folder(
    pretraining_flags, tmp_path
):
    run_alone("run_pretraining.py", pretraining_flags, tmp_path)

    codes, said = run_workers(
        "run_pretraining.py",
        (*pretraining_flags, "--learning_rate=0.02"),
        tmp_path,
        output_dirs=("one", "two"),
    )

    assert codes == [1, 1], said
    errors = [text.splitlines()[-1] for text in said]
    assert "'one' belongs to another run" in errors[0]
    assert "error: Another worker has failed" in errors[1]
    assert not (tmp_path / "two").exists()


@pytest.mark.slow
def test_two_workers_fine_tune_and_evaluate_like_one(
    finetuning_flags, logged, tmp_path
):
    run_alone("run_classifier.py", finetuning_flags, tmp_path)

    run_stopped_and_resumed(
        "run_classifier.py", finetuning_flags, tmp_path, step=33
    )

    one, two = tmp_path / "one", tmp_path / "two"
    results = [
        json.loads((folder / "eval_results.json").read_text())
        for folder in (one, two)
    ]
    seeds = [result.pop("seeds") for result in results]
    # Why one has failed names its folder.
    failed = [result.pop("failed_seeds").keys() for result in results]
    assert failed[0] == failed[1]
    assert results[1] == pytest.approx(results[0], rel=1e-4)
    assert results[0]["accuracy"] > 0.9
    assert seeds[0].keys() == seeds[1].keys()
    for seed in seeds[0]:
        assert seeds[1][seed] == pytest.approx(seeds[0][seed], rel=1e-4)
        logs = [
            logged(folder / f"seed-{seed}" / "metrics.jsonl")
            for folder in (one, two)
        ]
        for ours, theirs in zip(*logs, strict=True):
            if ours["step"] > BEFORE_FALL:
                ours.pop("gradient_norm", None)
                theirs.pop("gradient_norm", None)
            assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-6)
    for name in ("predictions.tsv", "eval/predictions.tsv"):
        assert (one / name).read_text() == (two / name).read_text()
    probabilities = [
        np.loadtxt(folder / "test_results.tsv") for folder in (one, two)
    ]
    np.testing.assert_allclose(*probabilities, rtol=1e-4)
