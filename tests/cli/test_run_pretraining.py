"""The command of pretraining, from its flags to its files."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from albert_tf.data import shards

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
        [
            sys.executable,
            ROOT / SCRIPT,
            *pretraining_flags,
            f"--output_dir={name}",
        ],
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
        ("--albert_config_file=", ["--albert_config_file must be given"]),
        ("--input_file=nowhere/x", ["No file matches 'nowhere/x'"]),
        ("--eval_file=nowhere/*", ["No file matches 'nowhere/*'"]),
        ("--albert_config_file=base_v3", ["base_v3", "base_v2"]),
        ("--num_train_steps=1", ["num_warmup_steps=2", "num_train_steps=1"]),
        ("--preemption_exit_code=256", ["--preemption_exit_code=256", "255"]),
    ],
)
def test_bad_flags_are_one_line_before_tensorflow_is_imported(
    flags, words, pretraining_flags, refuse
):
    message = refuse(
        SCRIPT, *pretraining_flags, "--output_dir=run", *flags.split()
    )

    for word in words:
        assert word in message


@pytest.fixture
def faults(finished_run, workshop, tmp_path):
    """A folder of files that each have one fault."""
    config = json.loads((workshop / "config.json").read_text())
    for name, change in {
        "vocabulary": {"vocab_size": 301},
        "shape": {"hidden_size": 20},
    }.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(config | change))
    copy_records(workshop, tmp_path / "other", tokenizer_hash="abc")
    shutil.copytree(finished_run / "best", tmp_path / "damaged")
    data = tmp_path / "damaged" / "model.ckpt.data-00000-of-00001"
    data.write_bytes(bytes(byte ^ 255 for byte in data.read_bytes()))


def copy_records(workshop, path, **facts):
    """Copies the training records; the sidecar says `facts` instead."""
    shutil.copy(workshop / "train.tf_record", path)
    source = shards.sidecar_path(workshop / "train.tf_record")
    values = json.loads(pathlib.Path(source).read_text()) | facts
    pathlib.Path(shards.sidecar_path(path)).write_text(json.dumps(values))


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--albert_config_file=vocabulary.json", ["300", "vocab_size=301"]),
        ("--eval_file=other", ["different tokenizers"]),
        (
            "--init_checkpoint={run}/best --albert_config_file=shape.json",
            ["is of shape [16], but must be [20]"],
        ),
        (
            "--depth_schedule=2@5",
            ["`depth_schedule` must begin at step 0", "='2@5'"],
        ),
        ("--init_checkpoint=damaged", ["is damaged", "Checksum"]),
        ("--nodo_train", ["no trained weights in 'run'"]),
        (
            "--nodo_train --output_dir={run} --init_checkpoint={run}/"
            "checkpoints/step-00000005",
            ["has the results of its own run", "another --output_dir"],
        ),
        ("--output_dir=.", ["contains files but no run.json"]),
        ("--output_dir=shape.json", ["shape.json' is a file"]),
        (
            "--output_dir={run} --learning_rate=0.02",
            ["belongs to another run", "learning_rate=0.01 (now 0.02)"],
        ),
        (
            "--output_dir={run} --objectives=sop,mlm",
            ["objectives=['mlm', 'sop'] (now ['sop', 'mlm'])"],
        ),
        ("--output_dir={run} --input_file={eval}", ["with records.32="]),
    ],
)
def test_inputs_that_cannot_be_used_are_one_line(
    flags, words, run, faults, finished_run, workshop, tmp_path
):
    before = sorted(finished_run.rglob("*"))

    link = tmp_path / "finished"  # its name has a space
    link.symlink_to(finished_run)
    evaluated = workshop / "eval.tf_record"
    done = run(*flags.format(run="finished", eval=evaluated).split())

    for word in words:
        assert word in done.error
    assert not (tmp_path / "run").exists()
    assert sorted(finished_run.rglob("*")) == before


def test_a_full_disk_leaves_the_last_good_checkpoint(run, small_disk):
    folder = small_disk(NUM_BYTES_FOR_THREE) / "run"

    done = run(f"--output_dir={folder}", "--nodo_eval", "--num_train_steps=50")

    assert "No space left on device" in done.error
    checkpoints = sorted(path.name for path in folder.glob("checkpoints/*"))
    assert checkpoints == ["step-00000000", "step-00000005", "step-00000010"]
    newest = folder / "checkpoints" / checkpoints[-1]
    after = run("--nodo_train", f"--init_checkpoint={newest}")
    assert after.returncode == 0, after.stderr
    assert "global_step = 10" in after.stdout


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
        "albert_config.json",
        "best",
        "checkpoints",
        "eval_results.json",
        "flags.txt",
        "metrics.jsonl",
        "run.json",
    }
    flags = (finished_run / "flags.txt").read_text("utf-8")
    assert "--output_dir=my rüns/first one\n" in flags
    results = results_of(finished_run)
    printed = [f"{name} = {results[name]:.6g}" for name in SCORES]
    assert first_run[0].stdout.splitlines() == printed


def test_a_recipe_is_a_file_of_flags(run, tmp_path):
    done = run(
        f"--flagfile={ROOT / 'recipes' / 'budget.flags'}",
        # Flags after it replace its values.
        "--depth_schedule=1@0,2@60%",
        "--num_train_steps=10",
        "--num_warmup_steps=2",
    )

    assert done.returncode == 0, done.stderr
    flags = (tmp_path / "run" / "flags.txt").read_text().splitlines()
    assert {
        "--optimizer=adamw",
        "--learning_rate=0.0004",
        "--train_batch_size=32",
        "--num_train_steps=10",
    } <= set(flags)
    assert "A new phase after step 6: {'depth': 2" in done.stderr


def test_evaluation_alone_reads_google_s_checkpoints(
    run, shared_data, workshop, tmp_path
):
    folder = shared_data / "golden" / "model_base"
    copy_records(workshop, tmp_path / "records", vocab_size=1000)

    done = run(
        "--nodo_train",
        "--eval_file=records",
        f"--albert_config_file={folder / 'albert_config.json'}",
        f"--init_checkpoint={folder / 'model.ckpt-best'}",
    )

    assert done.returncode == 0, done.stderr
    # ../golden/README.md, section 1.
    assert results_of(tmp_path / "run")["global_step"] == 125000


# A run that presses Ctrl-C after its second step.
PRESS_CTRL_C = """
import os, signal
from albert_tf.training import loop
record = loop.TrainingLoop._record
def press(self, *arguments):
    record(self, *arguments)
    if self.state.step == 2:
        for _ in range({times}):
            os.kill(os.getpid(), signal.SIGINT)
loop.TrainingLoop._record = press
"""


@pytest.mark.parametrize(
    ("times", "flag", "code"),
    [
        (1, "", 3),
        (1, "--preemption_exit_code=0", 0),
        (2, "", 130),
    ],
)
def test_control_c_saves_and_pressed_twice_ends_at_once(
    times, flag, code, run, tmp_path
):
    done = run(
        "--num_train_steps=100000",
        "--nodo_eval",
        *filter(None, [flag]),
        before=PRESS_CTRL_C.format(times=times),
    )

    assert (done.returncode, done.stdout) == (code, "")
    *log, last = done.stderr.splitlines()
    assert all(LOG_LINE.match(line) for line in log)
    checkpoints = sorted(
        path.name for path in tmp_path.glob("run/checkpoints/*")
    )
    if times == 2:
        assert last == "error: interrupted"
        assert checkpoints == ["step-00000000"]
    else:
        assert "Stopped after step 2; a checkpoint is" in last
        assert checkpoints == ["step-00000000", "step-00000002"]
