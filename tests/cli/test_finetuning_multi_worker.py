"""Two workers that fine-tune together, against one that does it alone."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import numpy as np
import pytest

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
def flags(workshop, table_flags, tmp_path):
    """Flags of a run without dropout, which replicas draw for themselves.

    Its batches are large and its rate is low: at ten times the rate and a
    third of the batch, one process parts from itself by a twentieth where
    its micro-batches are other ones, so another order of sums.
    """
    config = json.loads((workshop / "config.json").read_text())
    config |= dict.fromkeys(
        ("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0
    )
    (tmp_path / "config.json").write_text(json.dumps(config))
    return (
        *table_flags,
        "--albert_config_file=config.json",
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


def start(flags, folder, *, cluster=None, stop_at=None):
    command = [sys.executable, str(ROOT / "run_classifier.py"), *flags]
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


def run_workers(flags, folder, *, stop_at=(None, None)):
    """Runs a command in two processes; returns what each has printed."""
    addresses = []
    with socket.socket() as one, socket.socket() as other:
        for free in (one, other):
            free.bind(("127.0.0.1", 0))
            addresses.append(f"127.0.0.1:{free.getsockname()[1]}")
    workers = [
        start(
            flags,
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
    for worker, text in zip(workers, said, strict=True):
        assert worker.returncode == 0, text[-3000:]
    return said


@pytest.mark.slow
def test_two_workers_fine_tune_and_evaluate_like_one(flags, logged, tmp_path):
    alone = start((*flags, "--output_dir=one"), tmp_path)
    said, _ = alone.communicate(timeout=WORKER_TIMEOUT)
    assert alone.returncode == 0, said
    two = (*flags, "--output_dir=two")

    # A signal to the second stops both.
    stopped = run_workers(two, tmp_path, stop_at=(None, 33))
    assert all("a checkpoint is saved" in text for text in stopped)
    assert not (tmp_path / "two" / "eval_results.json").exists()
    for text in run_workers(two, tmp_path):
        assert "accuracy = " in text

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
            assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-6)
    for name in ("predictions.tsv", "eval/predictions.tsv"):
        assert (one / name).read_text() == (two / name).read_text()
    probabilities = [
        np.loadtxt(folder / "test_results.tsv") for folder in (one, two)
    ]
    np.testing.assert_allclose(*probabilities, rtol=1e-4)
