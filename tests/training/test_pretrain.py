"""Whole runs of a tiny model on tiny record files."""

import concurrent.futures
import dataclasses
import json
import os
import random
import socket
import subprocess
import sys

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.data import builder, pretraining_config
from albert_tf.training import pretrain
from albert_tf.training.run_config import PretrainingConfig
from tests.training import runs

S, P, V = 16, 4, 50
NUM_STEPS = 6
WORKER_TIMEOUT = 500  # seconds, on a machine that is busy
SCORES = {
    "masked_lm_loss",
    "masked_lm_accuracy",
    "sentence_order_loss",
    "sentence_order_accuracy",
}


def build_records(folder, *, num_documents, seed, initial="w"):
    """Returns the path of records of random words, two for each document."""
    words = [f"{initial}{10 + number}" for number in range(V - 5)]
    special_tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    (folder / "vocab.txt").write_text("\n".join([*special_tokens, *words]))
    rng = random.Random(seed)
    documents = [
        [" ".join(rng.choices(words, k=rng.randint(3, 6))) for _ in range(6)]
        for _ in range(num_documents)
    ]
    text = "\n\n".join("\n".join(document) for document in documents)
    (folder / "text.txt").write_text(text)
    path = str(folder / f"{num_documents}-{seed}.tfrecord")
    builder.build(
        pretraining_config.PretrainingDataConfig(
            vocab_file=str(folder / "vocab.txt"),
            input_file=str(folder / "text.txt"),
            output_file=path,
            max_seq_length=S,
            max_predictions_per_seq=P,
            dupe_factor=1,
            short_seq_prob=0.0,
        )
    )
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pretrain")


@pytest.fixture(scope="module")
def records(folder):
    """Paths of 20 records to train on and 10 to evaluate on."""
    return [
        build_records(folder, num_documents=number, seed=seed)
        for number, seed in ((10, 0), (5, 1))
    ]


@pytest.fixture
def job(records, tmp_path):
    """A function that makes the settings of a run."""

    def make(output="run", **changes):
        num_steps = changes.get("num_train_steps", NUM_STEPS)
        values = {
            "albert_config": runs.config(),
            "output_dir": str(tmp_path / output),
            "learning_rate": 0.01,
            "num_train_steps": num_steps,
            "num_warmup_steps": 0,
            "poly_power": 0.0,
            "train_batch_size": 8,
            "eval_batch_size": 4,
            "save_checkpoints_steps": 3,
            "log_steps": 2,
            "strategy": "one",
            "input_file": records[0],
            "eval_file": records[1],
            "do_eval": True,
            "max_seq_length": S,
            "max_predictions_per_seq": P,
            "flags_text": "--do_train\n",
        }
        return PretrainingConfig(**values | changes)

    return make


@pytest.fixture(scope="module")
def scores_by_folder():
    """What `trained` has computed already."""
    return {}


@pytest.fixture
def trained(folder, job, scores_by_folder):
    """The job of a run that is finished, and its scores."""
    done = job(output_dir=str(folder / "trained"))
    if done.output_dir not in scores_by_folder:
        scores_by_folder[done.output_dir] = pretrain.run(done)
    return done, scores_by_folder[done.output_dir]


def assert_same_arrays(one, other):
    assert set(one) == set(other)
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


def test_a_run_leaves_what_was_promised(trained):
    done, scores = trained
    names = set(os.listdir(done.output_dir))

    assert {
        "albert_config.json",
        "run.json",
        "flags.txt",
        "checkpoints",
        "best",
        "metrics.jsonl",
        "eval_results.json",
    } < names
    assert [name for name in names if name.startswith("events.out.tfevents")]
    with open(os.path.join(done.output_dir, "eval_results.json")) as file:
        assert json.load(file) == scores
    assert set(scores) == SCORES | {"global_step"}
    config = os.path.join(done.output_dir, "albert_config.json")
    assert AlbertConfig.from_json_file(config) == done.albert_config
    with open(os.path.join(done.output_dir, "flags.txt")) as file:
        assert file.read() == done.flags_text


def test_the_log_has_steps_and_evaluations_in_order(trained):
    lines = runs.lines_of(trained[0].output_dir)

    kinds = [(line["step"], "loss" in line) for line in lines]
    assert kinds == [
        (0, False),
        (2, True),
        (3, False),
        (4, True),
        (6, True),
        (6, False),
    ]
    assert set(lines[1]) == {
        "step",
        "loss",
        "masked_lm_loss",
        "sentence_order_loss",
        "learning_rate",
        "gradient_norm",
    }
    assert set(lines[0]) == {"step", *(f"eval_{name}" for name in SCORES)}


def test_a_finished_run_gives_the_scores_of_its_best_evaluation_again(
    trained, caplog
):
    done, scores = trained
    lines = runs.lines_of(done.output_dir)
    caplog.set_level("INFO")

    assert pretrain.run(done) == scores
    assert "Training is finished after 6 steps." in caplog.text
    assert runs.lines_of(done.output_dir) == lines
    evaluations = {
        line["step"]: line["eval_masked_lm_accuracy"]
        for line in lines
        if "loss" not in line
    }
    assert scores["masked_lm_accuracy"] == max(evaluations.values())
    assert evaluations[scores["global_step"]] == scores["masked_lm_accuracy"]


@pytest.mark.parametrize("strategy", ["one", "mirrored"])
def test_a_stopped_run_resumes_to_the_same_bits(
    strategy, job, terminate_at, deterministic
):
    options = {
        "albert_config": runs.config(dropout=0.1),
        "gradient_accumulation_steps": 2,
        "strategy": strategy,
        "deterministic": True,
    }
    whole, stopped = job("whole", **options), job("stopped", **options)
    scores = pretrain.run(whole)
    terminate_at(4)
    assert pretrain.run(stopped) is None
    assert not os.path.exists(
        os.path.join(stopped.output_dir, "eval_results.json")
    )

    assert pretrain.run(stopped) == scores
    assert runs.lines_of(stopped.output_dir) == runs.lines_of(whole.output_dir)
    assert_same_arrays(
        runs.arrays_of(stopped.output_dir, NUM_STEPS),
        runs.arrays_of(whole.output_dir, NUM_STEPS),
    )


def test_two_replicas_give_the_scores_of_one(trained, job):
    _, scores = trained

    together = pretrain.run(job(strategy="mirrored"))

    assert together == pytest.approx(scores, rel=1e-4)


@pytest.mark.parametrize(
    ("objective", "name"), [("mlm", "masked_lm"), ("sop", "sentence_order")]
)
def test_one_objective_alone_is_trained_and_scored(objective, name, job):
    one = job(objectives=[objective], num_train_steps=2)

    scores = pretrain.run(one)

    assert set(scores) == {f"{name}_loss", f"{name}_accuracy", "global_step"}
    log = runs.lines_of(one.output_dir)[1]
    assert log["loss"] == log[f"{name}_loss"]


def test_training_starts_from_the_weights_of_a_checkpoint(trained, job):
    done, _ = trained
    start = os.path.join(done.output_dir, "checkpoints", "step-00000003")
    again = job(init_checkpoint=start, num_train_steps=1, do_eval=False)

    pretrain.run(again)

    first = runs.arrays_of(again.output_dir, 0)
    for name, array in runs.arrays_of(done.output_dir, 3).items():
        # Slots and step start anew.
        is_state = name.endswith(("/adam_m", "/adam_v", "global_step"))
        wanted = np.zeros_like(array) if is_state else array
        np.testing.assert_array_equal(first[name], wanted, err_msg=name)


def test_every_group_may_start_from_the_first(trained, job):
    done, _ = trained
    grouped = job(
        albert_config=runs.config(num_hidden_groups=2),
        init_checkpoint=os.path.join(done.output_dir, "best"),
        init_from_group0=True,
        num_train_steps=1,
        do_eval=False,
    )

    pretrain.run(grouped)

    first = runs.arrays_of(grouped.output_dir, 0)
    seconds = [name for name in first if "/group_1/" in name]
    assert seconds
    for name in seconds:
        same = first[name.replace("/group_1/", "/group_0/")]
        np.testing.assert_array_equal(first[name], same)


def test_a_head_may_start_anew(job):
    no_evaluation = {"num_train_steps": 1, "do_eval": False}
    one = job(objectives=("mlm",), **no_evaluation)
    pretrain.run(one)
    start = os.path.join(one.output_dir, "checkpoints", "step-00000001")
    both = job("both", init_checkpoint=start, **no_evaluation)

    with pytest.raises(
        ValueError, match="2 in all: cls/seq_relationship.*--allow_new_heads"
    ):
        pretrain.run(both)
    pretrain.run(dataclasses.replace(both, allow_new_heads=True))

    first, given = (
        runs.arrays_of(both.output_dir, 0),
        runs.arrays_of(one.output_dir, 1),
    )
    np.testing.assert_array_equal(
        first["bert/pooler/dense/kernel"], given["bert/pooler/dense/kernel"]
    )
    assert first["cls/seq_relationship/output_weights"].any()


def test_a_checkpoint_that_does_not_fit_leaves_no_folder(trained, job):
    done, _ = trained
    wrong = job(
        albert_config=runs.config(intermediate_size=20),
        init_checkpoint=os.path.join(done.output_dir, "best"),
    )

    with pytest.raises(ValueError, match="of another shape than the model's"):
        pretrain.run(wrong)
    assert not os.path.exists(wrong.output_dir)


def test_a_checkpoint_can_be_evaluated_alone(trained, job):
    done, scores = trained
    alone = job(
        do_train=False,
        init_checkpoint=os.path.join(done.output_dir, "best"),
        train_batch_size=4096,
    )

    assert pretrain.run(alone) == scores
    assert os.listdir(alone.output_dir) == ["eval_results.json"]


def test_the_best_of_a_folder_can_be_evaluated_alone(trained):
    done, scores = trained
    alone = dataclasses.replace(done, do_train=False, flags_text="--do_eval\n")

    assert pretrain.run(alone) == scores
    with open(os.path.join(done.output_dir, "flags.txt")) as file:
        assert file.read() == done.flags_text


def test_a_run_trained_without_evaluation_is_evaluated_at_its_end(job):
    blind = job(num_train_steps=2, do_eval=False)
    seeing = job(num_train_steps=2)
    assert pretrain.run(blind) is None

    assert pretrain.run(seeing)["global_step"] == 2


def test_evaluation_needs_a_checkpoint(job):
    with pytest.raises(ValueError, match="no checkpoint to evaluate in .*run"):
        pretrain.run(job(do_train=False))


def test_the_folder_of_another_run_is_refused(trained, tmp_path):
    done, _ = trained
    others = build_records(tmp_path, num_documents=10, seed=9)

    for changes, message in (
        ({"random_seed": 7}, r"with random_seed=12345 \(now 7\)"),
        ({"objectives": ("sop", "mlm")}, r"with objectives=\['mlm', 'sop'\]"),
        ({"input_file": others}, "with records="),
    ):
        with pytest.raises(
            ValueError, match=f"belongs to another run, {message}"
        ):
            pretrain.run(dataclasses.replace(done, **changes))


@pytest.mark.parametrize("name", ["train_batch_size", "eval_batch_size"])
def test_batches_must_divide_over_the_replicas(name, job):
    odd = job(strategy="mirrored", **{name: 7})

    with pytest.raises(
        ValueError, match=rf"`{name}` must be a multiple of .*\(2 x 1\).*=7"
    ):
        pretrain.run(odd)
    assert not os.path.exists(odd.output_dir)


def test_batches_must_divide_into_accumulation_steps(job):
    with pytest.raises(ValueError, match=r"replicas .* \(1 x 3\).*=8"):
        pretrain.run(job(gradient_accumulation_steps=3))


def test_records_of_another_vocabulary_are_refused(job, tmp_path):
    with pytest.raises(
        ValueError, match="vocabulary of 50 tokens, .* vocab_size=51"
    ):
        pretrain.run(job(albert_config=runs.config(vocab_size=51)))
    path = build_records(tmp_path, num_documents=5, seed=1, initial="x")
    with pytest.raises(ValueError, match="different tokenizers"):
        pretrain.run(job(eval_file=path))


WORKER = """
import json, sys
from albert_tf.config import AlbertConfig
from albert_tf.training import pretrain
from albert_tf.training.run_config import PretrainingConfig

values = json.loads(sys.argv[1])
stop_at = values.pop("stop_at")
ask = pretrain.distribution.any_worker
asked = []

def ask_and_stop(strategy, value):
    asked.append(value)
    return ask(strategy, value or len(asked) == stop_at)

pretrain.distribution.any_worker = ask_and_stop
values["albert_config"] = AlbertConfig(**values["albert_config"])
print(json.dumps(pretrain.run(PretrainingConfig(**values))))
"""


def run_workers(job, folders, stop_at=(None, None)):
    """Runs a job in two processes; returns what each of them prints."""
    addresses = []
    with socket.socket() as one, socket.socket() as other:
        for free in (one, other):
            free.bind(("127.0.0.1", 0))
            addresses.append(f"127.0.0.1:{free.getsockname()[1]}")
    workers = []
    for index, folder in enumerate(folders):
        values = dataclasses.asdict(job)
        values |= {"output_dir": folder, "stop_at": stop_at[index]}
        task = {"type": "worker", "index": index}
        cluster = {"cluster": {"worker": addresses}, "task": task}
        workers.append(
            subprocess.Popen(
                [sys.executable, "-c", WORKER, json.dumps(values)],
                env=os.environ | {"TF_CONFIG": json.dumps(cluster)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    with concurrent.futures.ThreadPoolExecutor() as pool:
        ended = list(pool.map(_end, workers))
    for worker, (_, stderr) in zip(workers, ended, strict=True):
        assert worker.returncode == 0, stderr[-3000:]
    return [json.loads(stdout) for stdout, _ in ended]


def _end(worker):
    """Returns what a process prints, also of one that does not end."""
    try:
        return worker.communicate(timeout=WORKER_TIMEOUT)
    except subprocess.TimeoutExpired:
        worker.kill()
        return worker.communicate()


@pytest.mark.slow
def test_two_workers_give_the_run_of_one(trained, job, tmp_path):
    done, scores = trained
    shared = str(tmp_path / "shared")
    workers = job(strategy="multi_worker", deterministic=True)

    # A signal to the second stops both after 4 steps.
    assert run_workers(workers, [shared] * 2, (None, 5)) == [None, None]
    assert sorted(os.listdir(os.path.join(shared, "checkpoints")))[-1] == (
        "step-00000004"
    )
    first, second = run_workers(workers, [shared] * 2)

    assert first == second == pytest.approx(scores, rel=1e-4)
    events = [n for n in os.listdir(shared) if n.startswith("events")]
    assert len(events) == 2  # the chief's, of both runs
    lines = runs.lines_of(shared)
    for one, other in zip(lines, runs.lines_of(done.output_dir), strict=True):
        assert one == pytest.approx(other, rel=1e-4)
    arrays = runs.arrays_of(shared, NUM_STEPS)
    for name, wanted in runs.arrays_of(done.output_dir, NUM_STEPS).items():
        if "/key/bias" not in name:  # rounding noise, amplified
            scale = np.abs(wanted).max()
            assert np.abs(arrays[name] - wanted).max() <= 1e-5 * scale, name


@pytest.mark.slow
def test_workers_with_folders_of_their_own_are_stopped(job, tmp_path):
    folders = [str(tmp_path / "one"), str(tmp_path / "two")]
    pretrain.run(job("one"))

    with pytest.raises(
        AssertionError, match="must be a folder that all workers"
    ):
        run_workers(job(strategy="multi_worker"), folders)
