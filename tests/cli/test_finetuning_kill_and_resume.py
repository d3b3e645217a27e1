"""A fine-tuning run that is killed anywhere resumes to the same result."""

import json
import signal

import pytest

KILLED = -signal.SIGKILL
FIRST_SEED = 12345
# A signal that can be heard leaves a checkpoint more.
STOPPED_AT = (6, 54)

# Sends a signal to its own process when a function is called, before it does
# anything; `calls` counts them.
BREAK = """
import os, signal
from albert_tf.inference import record_outputs
from albert_tf.training import finetuning_run, metric_log
owner, name, calls = {owner}, {name!r}, []
function = getattr(owner, name)
def stop(*arguments, **settings):
    calls.append(arguments)
    if {moment}:
        os.kill(os.getpid(), signal.{number})
    return function(*arguments, **settings)
setattr(owner, name, stop)
"""


def at(owner, name, moment, number="SIGKILL"):
    """Code that ends a run at a call that fulfils an expression."""
    return BREAK.format(owner=owner, name=name, moment=moment, number=number)


def in_training(step, number="SIGKILL"):
    moment = f"arguments[1] == {step}"
    return at("metric_log.MetricLog", "write", moment, number)


def before_file(ending):
    """When a file is written, but has not got its name."""
    return at("os", "replace", f"arguments[1].endswith({ending!r})")


IN_EVALUATION = at("record_outputs.OutputComputer", "run", "len(calls) == 2")
BETWEEN_SEEDS = at(
    "finetuning_run.FinetuningRun",
    "train",
    f"arguments[0]._config.random_seed == {FIRST_SEED + 1}",
)


@pytest.fixture
def start_run(start_script, workshop, table_flags, tmp_path):
    """Starts a run in a folder by its name; `before` may end it early."""

    def start(name, *extra, before=""):
        return start_script(
            "run_classifier.py",
            *table_flags,
            f"--albert_config_file={workshop / 'config.json'}",
            "--train_batch_size=8",
            "--num_warmup_steps=2",
            "--learning_rate=0.01",
            "--log_steps=3",
            f"--output_dir={name}",
            *extra,
            folder=tmp_path,
            before=before,
        )

    return start


@pytest.fixture
def left_by(logged):
    """What a run has left, except for what depends on the clock."""

    def read(folder):
        return dict(_files_of(folder, logged))

    return read


def _files_of(folder, logged):
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if any(f"step-{step:08d}" in name for step in STOPPED_AT):
            continue
        if path.suffix == ".jsonl":
            yield name, logged(path)
        elif path.name == "state.json":
            state = json.loads(path.read_text())
            state.get("window", {}).pop("seconds", None)
            yield name, state
        elif path.is_file() and not path.name.startswith("events.out"):
            # The folder's own name.
            text = path.read_bytes().replace(folder.name.encode(), b"run")
            yield name, text


@pytest.mark.parametrize(
    ("flags", "breaks"),
    [
        (
            # Of one length, which takes less time to trace.
            (
                "--num_train_steps=12",
                "--save_checkpoints_steps=4",
                "--max_seq_length=16",
            ),
            [in_training(6, "SIGTERM"), in_training(9)],
        ),
        pytest.param(
            (
                "--num_train_steps=60",
                "--save_checkpoints_steps=20",
                "--max_seq_length=32",
                "--num_seeds=2",
            ),
            [
                before_file("run.json"),
                in_training(30),
                before_file("checkpoints/step-00000040"),
                IN_EVALUATION,
                in_training(54, "SIGTERM"),
                BETWEEN_SEEDS,
                before_file("best"),
                in_training(57),
                before_file("killed/best"),
                before_file("killed/predictions.tsv"),
                before_file("killed/eval_results.json"),
            ],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_killed_run_ends_as_an_unbroken_one(
    flags, breaks, start_run, left_by, tmp_path
):
    unbroken = start_run("unbroken", *flags).wait()
    assert unbroken.returncode == 0, unbroken.stderr

    for number, before in enumerate(breaks):
        export = "--export_dir=served"
        done = start_run("killed", *flags, export, before=before).wait()
        wanted = 3 if "SIGTERM" in before else KILLED
        assert done.returncode == wanted, (number, done.stderr)
        assert done.stdout == ""
        if wanted == 3:
            assert "a checkpoint is saved" in done.stderr
        assert not (tmp_path / "served").exists()
    last = start_run("killed", *flags).wait()

    assert last.returncode == 0, last.stderr
    assert last.stdout == unbroken.stdout
    killed, whole = (left_by(tmp_path / n) for n in ("killed", "unbroken"))
    assert killed.keys() == whole.keys()
    for name, content in whole.items():
        assert killed[name] == content, name
    assert {"eval_results.json", "predictions.tsv", "report.html"} <= set(whole)
    # A finished run says so and changes nothing.
    again = start_run("unbroken", *flags).wait()
    assert (again.returncode, again.stdout) == (0, unbroken.stdout)
    assert "Training is finished after " in again.stderr
    assert left_by(tmp_path / "unbroken") == whole
