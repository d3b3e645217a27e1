"""The command of pretraining, from its flags to its files."""

import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys

import pytest
import tensorflow as tf

from albert_tf import settings
from albert_tf.cli import flags, run_pretraining
from albert_tf.config import published_config
from albert_tf.training.pretrain_config import PretrainingConfig

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = "run_pretraining.py"
SCORES = [
    "masked_lm_loss",
    "masked_lm_accuracy",
    "sentence_order_loss",
    "sentence_order_accuracy",
    "global_step",
]
LOG_LINE = re.compile(r"\d\d:\d\d:\d\d \w+")
NUM_STEPS = 10
# A checkpoint of the tiny model takes 76 kB.
NUM_BYTES_FOR_THREE = 280_000


@pytest.fixture(scope="module")
def first_run(pretraining_flags, tmp_path_factory):
    """A run of a Python of its own, relative to its folder: `(done, folder)`.

    Read the folder only.
    """
    folder = tmp_path_factory.mktemp("first")
    name = "my rüns/first one"
    done = subprocess.run(
        [sys.executable, ROOT / SCRIPT, *pretraining_flags]
        + [f"--output_dir={name}"],
        cwd=folder,
        # As a user's shell has it, whatever other tests have set.
        env={k: v for k, v in os.environ.items() if not k.startswith("TF_")},
        capture_output=True,
        text=True,
    )
    return done, folder / name


@pytest.fixture(scope="module")
def finished_run(first_run):
    """The folder of a finished run; read it only."""
    done, folder = first_run
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def run(run_script, pretraining_flags, tmp_path):
    """Runs the script with an output folder; later flags override."""

    def start(*extra, before=""):
        return run_script(
            SCRIPT,
            *pretraining_flags,
            "--output_dir=run",
            *extra,
            folder=tmp_path,
            before=before,
        )

    return start


def results_of(folder):
    return json.loads((folder / "eval_results.json").read_text())


# `tests/training/test_run_config.py` has the other errors of settings.
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--albert_config_file=", "--albert_config_file or --init_check"),
        ("--input_file=nowhere/x", "No file matches 'nowhere/x'"),
        ("--eval_file=nowhere/*", "No file matches 'nowhere/*'"),
        ("--albert_config_file=base_v3", "base_v3"),
        ("--preemption_exit_code=256", "Received: preemption_exit_code=256"),
    ],
)
def test_bad_flags_are_one_line_before_tensorflow_is_imported(
    flags, words, pretraining_flags, refuse
):
    given = (*pretraining_flags, "--output_dir=run", flags)

    assert words in refuse(SCRIPT, *given)


# Tests of the library have the other reasons.
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--albert_config_file=larger.json", "vocab_size=301"),
        ("--init_checkpoint=damaged", "is damaged or incomplete"),
        ("--output_dir=.", "contains files but no run.json"),
        (
            "--output_dir=finished --learning_rate=0.02",
            "learning_rate=0.01 (now 0.02)",
        ),
    ],
)
def test_inputs_that_cannot_be_used_are_one_line(
    flags, words, run, finished_run, workshop, tmp_path
):
    before = sorted(finished_run.rglob("*"))
    (tmp_path / "finished").symlink_to(finished_run)  # its name has a space
    config = json.loads((workshop / "config.json").read_text())
    config["vocab_size"] = 301
    (tmp_path / "larger.json").write_text(json.dumps(config))
    shutil.copytree(finished_run / "best", tmp_path / "damaged")
    data = tmp_path / "damaged" / "model.ckpt.data-00000-of-00001"
    data.write_bytes(bytes(byte ^ 255 for byte in data.read_bytes()))

    assert words in run(*flags.split()).error

    assert not (tmp_path / "run").exists()
    assert sorted(finished_run.rglob("*")) == before


def test_a_full_disk_leaves_the_last_good_checkpoint(
    run, small_disk, tiny_spm_model
):
    vocabulary = -(-tiny_spm_model.stat().st_size // 4096) * 4096
    folder = small_disk(NUM_BYTES_FOR_THREE + vocabulary) / "run"

    done = run(f"--output_dir={folder}", "--nodo_eval", "--num_train_steps=50")

    assert "No space left on device" in done.error
    checkpoints = sorted(folder.glob("checkpoints/*"))
    names = ["step-00000000", "step-00000005", "step-00000010"]
    assert [path.name for path in checkpoints] == names
    newest = tf.train.load_checkpoint(str(checkpoints[-1] / "model.ckpt"))
    for name in newest.get_variable_to_shape_map():
        newest.get_tensor(name)


def test_a_run_is_quiet_but_for_its_own_log_and_its_scores(first_run):
    done, _ = first_run

    assert done.returncode == 0, done.stderr
    assert all(LOG_LINE.match(line) for line in done.stderr.splitlines())
    assert [line.split(" = ")[0] for line in done.stdout.splitlines()] == SCORES


def test_a_run_leaves_all_that_it_promises(first_run, finished_run):
    names = {path.name for path in finished_run.iterdir()}
    events = {name for name in names if name.startswith("events.out.tfevents")}

    assert len(events) == 1
    assert names - events == {
        "README.md",
        "albert_config.json",
        "best",
        "checkpoints",
        "eval_results.json",
        "flags.txt",
        "metrics.jsonl",
        "report.html",
        "run.json",
        "tiny.model",
    }
    report = (finished_run / "report.html").read_text("utf-8")
    assert re.search(r"<p>masked_lm_accuracy \S+ on held-out text.", report)
    log = first_run[0].stderr.splitlines()
    assert "report: my rüns/first one/report.html" in log[-2]
    assert " --init_checkpoint='my rüns/first one' " in log[-1]
    flags = (finished_run / "flags.txt").read_text("utf-8")
    assert "--output_dir=my rüns/first one\n" in flags
    results = results_of(finished_run)
    printed = [f"{name} = {results[name]:.6g}" for name in SCORES]
    assert first_run[0].stdout.splitlines() == printed


def test_a_recipe_is_a_file_of_flags(parse):
    values = parse(
        run_pretraining.define_flags,
        f"--flagfile={ROOT / 'recipes' / 'budget.flags'}",
        # Flags after it replace its values.
        "--num_train_steps=20000",
    )

    config = settings.read(
        PretrainingConfig,
        flags.given(values),
        albert_config=published_config("base_v2"),
    )
    assert config.optimizer == "adamw"
    assert config.learning_rate == 0.0004
    assert (config.num_train_steps, config.num_warmup_steps) == (20_000, 2000)


# A run to which something happens after a step.
BREAK = """
import os, signal
from albert_tf.training import loop
record = loop.TrainingLoop._record
def stop(self, *arguments):
    record(self, *arguments)
    if self.state.step == {step}:
        os.kill(os.getpid(), signal.{name})
loop.TrainingLoop._record = stop
"""


# `tests/training/test_loop.py` presses twice, which ends at once.
def test_control_c_saves_a_checkpoint(run, tmp_path):
    done = run(
        "--num_train_steps=100000",
        "--nodo_eval",
        "--preemption_exit_code=7",
        before=BREAK.format(step=2, name="SIGINT"),
    )

    assert (done.returncode, done.stdout) == (7, "")
    assert "Stopped after step 2; a checkpoint is" in done.stderr
    checkpoints = [path.name for path in tmp_path.glob("run/checkpoints/*")]
    assert sorted(checkpoints) == ["step-00000000", "step-00000002"]


# `test_run_folder_life.py` kills at any change of a file.
def test_a_killed_run_ends_as_an_unbroken_one(
    finished_run, run, logged, tmp_path
):
    step = random.randrange(1, NUM_STEPS)
    killed = run(before=BREAK.format(step=step, name="SIGKILL"))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    # An early one may have saved nothing yet.
    saved = any(tmp_path.glob("run/checkpoints/step-*"))

    done = run()

    assert done.returncode == 0, done.stderr
    resumes = "Resuming from run/checkpoints/step-" in done.stderr
    assert resumes == saved, step
    logs = [
        logged(folder / "metrics.jsonl")
        for folder in (finished_run, tmp_path / "run")
    ]
    assert logs[0] == logs[1], step
    assert logs[0][-1]["step"] == NUM_STEPS
    assert results_of(tmp_path / "run") == results_of(finished_run)
