"""The command of pretraining, from its flags to its files."""

import os
import random
import re
import signal
import subprocess
import sys

import pytest
import tensorflow as tf

from albert_tf import settings
from albert_tf.cli import flags, run_pretraining
from albert_tf.config import AlbertConfig
from albert_tf.published_configs import load_config
from albert_tf.training import plan
from albert_tf.training.pretrain_config import PretrainingConfig
from tests.cli.conftest import results_of
from tests.cli.processes import ROOT, STEP, hook

SCRIPT = "run_pretraining.py"
# As in the original's README, and in its `run_pretraining_test.py`, which sets
# the last ones after the others; other flags follow.
ORIGINAL = """
    --do_train --do_eval --train_batch_size=4096 --eval_batch_size=64
    --max_seq_length=512 --max_predictions_per_seq=20 --optimizer=lamb
    --learning_rate=.00176 --num_train_steps=125000 --num_warmup_steps=3125
    --save_checkpoints_steps=5000
"""
ORIGINAL_TEST = """
    --do_train --do_eval --nouse_tpu --train_batch_size=2 --eval_batch_size=1
    --max_seq_length=4 --num_train_steps=2 --max_eval_steps=3
    --max_predictions_per_seq=7 --max_seq_length=13 --num_train_steps=1
    --save_checkpoints_steps=1
"""
SCORES = [
    "masked_lm_loss",
    "masked_lm_accuracy",
    "sentence_order_loss",
    "sentence_order_accuracy",
    "masked_lm_loss_frequencies",
    "masked_lm_accuracy_frequencies",
    "global_step",
]
LOG_LINE = re.compile(r"\d\d:\d\d:\d\d \w+")
NUM_STEPS = 10


@pytest.fixture(scope="module")
def first_run(pretraining_flags, tmp_path_factory):
    """A run of a Python of its own, relative to its folder: `(done, folder)`.

    Read the folder only.
    """
    folder = tmp_path_factory.mktemp("first")
    name = "my rüns/first one"
    done = subprocess.run(
        [sys.executable, ROOT / SCRIPT, *ORIGINAL.split(), *pretraining_flags]
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
    assert re.search(r"<p>masked_lm_accuracy \S+ on \d+ examples", report)
    log = first_run[0].stderr.splitlines()
    assert "report: my rüns/first one/report.html" in log[-2]
    # A run of few steps is not sent on to fine-tuning.
    assert "warning: The model has not left the plateau of token" in log[-1]
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
        albert_config=load_config("base_v2"),
    )
    assert config.optimizer == "muon"
    assert config.learning_rate == 0.002
    assert (config.num_train_steps, config.num_warmup_steps) == (20_000, 500)


# `tests/training/test_loop.py` presses twice, which ends at once.
def test_control_c_saves_a_checkpoint(run, tmp_path):
    done = run(
        "--num_train_steps=100000",
        "--nodo_eval",
        "--preemption_exit_code=7",
        before=hook(STEP, 2, "SIGINT"),
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
    killed = run(before=hook(STEP, step, "SIGKILL"))
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


def test_a_pretraining_is_fine_tuned(finished_run, table, run_script, tmp_path):
    def fine_tune(checkpoint, *flags):
        return run_script(
            "run_classifier.py",
            "--task_name=custom",
            "--text_columns=text",
            "--label_column=kind",
            f"--data_dir={table}",
            f"--init_checkpoint={checkpoint}",
            "--output_dir=tuned",
            "--do_eval",
            "--train_step=2",
            "--max_seq_length=16",
            "--train_batch_size=4",
            *flags,
            folder=tmp_path,
        )

    done = fine_tune(finished_run, "--do_train", "--nodo_lower_case")
    assert "trained with another tokenizer than" in done.error
    assert not (tmp_path / "tuned").exists()
    for given in ((finished_run, "--do_train"), ("",)):
        # The folder of the run alone is enough, too.
        done = fine_tune(*given)
        assert done.returncode == 0, done.stderr


# `tests/training/test_continuation.py` has what is continued.
def test_a_run_that_is_continued_brings_its_config(
    finished_run, pretraining_flags, parse
):
    given = [x for x in pretraining_flags if "config_file" not in x]
    given += [f"--continue_from={finished_run}", "--output_dir=run"]

    config = plan.pretraining(
        flags.given(parse(run_pretraining.define_flags, *given))
    )

    path = finished_run / "albert_config.json"
    assert config.albert_config == AlbertConfig.from_json_file(path)


def write_records(path, *, length, num_predictions):
    """Writes random records of the seven fields that BERT's have, too."""
    rng = random.Random(1)

    def integers(size, stop, start=0):
        values = [rng.randrange(start, stop) for _ in range(size)]
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    weights = tf.train.FloatList(value=[1.0] * num_predictions)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for _ in range(400):
            feature = {
                "input_ids": integers(length, 300),
                "input_mask": integers(length, 2),
                "segment_ids": integers(length, 1),
                "masked_lm_positions": integers(num_predictions, length),
                "masked_lm_ids": integers(num_predictions, 300),
                "masked_lm_weights": tf.train.Feature(float_list=weights),
                "next_sentence_labels": integers(1, 2),
            }
            features = tf.train.Features(feature=feature)
            example = tf.train.Example(features=features)
            writer.write(example.SerializeToString())


def test_the_test_of_the_original_passes(run_script, workshop, tmp_path):
    write_records(tmp_path / "records", length=13, num_predictions=7)

    done = run_script(
        SCRIPT,
        f"--albert_config_file={workshop / 'config.json'}",
        "--input_file=records",
        "--output_dir=run",
        *ORIGINAL_TEST.split(),
        folder=tmp_path,
    )

    assert results_of(tmp_path / "run")["global_step"] == 1, done.stderr
    assert "which is also trained on" in done.stderr
    assert "the first 3 of 400 records" in done.stderr
