"""Stand-ins for several processes, and the variables of schedulers.

Several real processes are in `tests/cli/test_multi_worker.py`.
"""

import json
import types

import keras
import pytest
import tensorflow as tf

from albert_tf.checkpoints.checkpoint import Checkpoint, LazyArrays
from albert_tf.devices import strategies, workers
from albert_tf.devices.workers import ClusterWorkers
from tests.training import runs

ADDRESSES = ("a:1", "b:1")
HOSTS = {"worker": ["a:2", "b:2"]}
SLURM = {
    "SLURM_PROCID": "2",
    "SLURM_STEP_NODELIST": "n[9-10]",
    "SLURM_STEP_TASKS_PER_NODE": "2,1",
    "SLURM_JOB_ID": "1251",
}


def tf_config(cluster, kind="worker", index=0):
    task = {"type": kind, "index": index}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}


@pytest.fixture
def find_addresses(monkeypatch):
    """A function of a source and the environment of its scheduler."""
    monkeypatch.delenv("TF_CONFIG", raising=False)

    def find(source, environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        return workers.find_addresses(runs.run_config(cluster=source))

    return find


@pytest.mark.parametrize(
    ("source", "environment", "addresses", "index"),
    [
        ("tf_config", tf_config({"worker": ["a:2", "b:2"]}), "a:2 b:2", 0),
        # A chief is the first worker.
        (
            "tf_config",
            tf_config({"worker": ["b:2", "c:2"], "chief": ["a:2"]}, index=1),
            "a:2 b:2 c:2",
            2,
        ),
        (
            "tf_config",
            tf_config({"chief": ["a:2"], "worker": ["b:2"]}, "chief"),
            "a:2 b:2",
            0,
        ),
        # Two tasks on the first node; n9 is before n10.
        ("slurm", SLURM, "n9:12016 n9:12017 n10:12016", 2),
        (
            "slurm",
            SLURM
            | {
                "SLURM_PROCID": "0",
                "SLURM_JOB_ID": "7",
                "SLURM_STEP_NODELIST": "gpu[01-02],big",
                "SLURM_STEP_TASKS_PER_NODE": "1(x3)",
            },
            "gpu01:12112 gpu02:12112 big:12112",
            0,
        ),
    ],
)
def test_schedulers_name_the_workers(
    source, environment, addresses, index, find_addresses
):
    found = find_addresses(source, environment)

    assert found == (addresses.split(), index)


@pytest.mark.parametrize(
    ("source", "environment", "words"),
    [
        # Otherwise, each machine would train by itself.
        ("tf_config", {}, "TF_CONFIG=None"),
        (
            "tf_config",
            tf_config({"worker": ["a:2"], "evaluator": ["b:2"]}, "evaluator"),
            "each task is of the type worker",
        ),
        ("tf_config", {"TF_CONFIG": "{bad"}, "TF_CONFIG={bad"),
        (
            "tf_config",
            tf_config({"worker": ["a:2", "b:2"]}, "worker", index=None),
            "each task is of the type worker",
        ),
        # In a batch script, before srun.
        (
            "slurm",
            {k: v for k, v in SLURM.items() if "STEP" not in k},
            "Start the command with srun",
        ),
    ],
)
def test_missing_variables_are_an_error(
    source, environment, words, find_addresses
):
    with pytest.raises(ValueError, match=words):
        find_addresses(source, environment)


@pytest.fixture
def events(monkeypatch):
    """What workers wait for and report, with a stand-in for the service."""
    found = []
    service = types.SimpleNamespace(
        texts={},
        set_config_key_value=lambda key, text: service.texts.update(
            {key: text}
        ),
        get_config_key_value=lambda key, _: service.texts[key],
        report_error_to_cluster=lambda _, message: found.append(message),
    )
    eager = types.SimpleNamespace(context=lambda: service)
    monkeypatch.setattr(workers, "context", eager)
    monkeypatch.setattr(ClusterWorkers, "wait", lambda _: found.append("waits"))
    monkeypatch.setattr(workers, "_REPORT_SECONDS", 0)
    monkeypatch.setattr(workers, "_exit_after", lambda _: None)
    return found


def worker(index):
    return ClusterWorkers(tf.distribute.get_strategy(), ADDRESSES, index)


def test_the_chief_alone_does_what_all_wait_for(events):
    assert worker(0).run_in_chief(lambda: 7) == 7
    assert worker(1).run_in_chief(lambda: 7) is None
    assert events == ["waits", "waits"]


def test_values_are_compared_with_those_of_the_chief(events):
    chief, other = worker(0), worker(1)

    for step in (3, 4):
        chief.check_same({"step": step, "list": (1,)}, "Share it.")
        if step == 3:
            other.check_same({"step": 3, "list": [1]}, "Share it.")

    with pytest.raises(
        ValueError,
        match=r"Worker 1 \(b:1\) differs from the chief in step=4 \(now 3\). S",
    ):
        other.check_same({"step": 3, "list": [1]}, "Share it.")


def test_a_checkpoint_that_each_worker_has_opened_is_not_compared(events):
    for index in range(2):
        arrays = LazyArrays(path="base", read=lambda path: {})
        start = Checkpoint(path=f"/mnt/{index}", arrays=arrays)
        facts = workers._facts_of(runs.run_config(vocabulary=start))
        worker(index).check_same(facts, "Start all with the same flags.")


def test_weights_that_workers_have_read_are_compared(events):
    model = keras.Sequential([keras.layers.Dense(2)])
    model.build((None, 3))
    chief, other = worker(0), worker(1)
    chief.check_same_weights(model, step=3)
    other.check_same_weights(model, step=3)

    chief.check_same_weights(model, step=3)
    model.layers[0].bias.assign_add([0.0, 1e-6])

    with pytest.raises(ValueError, match="find the same weights where the fla"):
        other.check_same_weights(model, step=3)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (None, "waits"),
        (OSError("no\nspace"), "Worker 1 (b:2) has failed: no space"),
        (KeyboardInterrupt(), "Worker 1 (b:2) has failed: KeyboardInterrupt"),
    ],
)
def test_workers_end_together(error, words, events, monkeypatch):
    for name, value in tf_config(HOSTS, index=1).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(
        workers, "_connect", lambda *_: tf.distribute.get_strategy()
    )
    monkeypatch.setattr(ClusterWorkers, "check_same", lambda *_: None)

    def run():
        with strategies.start_workers(runs.run_config()) as several:
            assert not several.is_chief
            if error:
                raise error

    if error:
        with pytest.raises(type(error)):
            run()
    else:
        run()
    assert events == [words]


def test_flags_config_and_code_are_compared():
    values = workers._facts_of(runs.run_config(flags_text="--a=1\n--b=2\n"))

    assert values["flags_text"] == ["--a=1", "--b=2"]
    assert values["learning_rate"] == 0.01
    assert values["albert_config"]["vocab_size"] == runs.V
    assert len(values["code of albert_tf"]) == 64
    json.dumps(values)


def test_the_name_of_the_strategy_follows_the_environment(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    rows = [({}, "one"), ({"cluster": "slurm"}, "multi_worker")]
    for values, name in rows:
        assert strategies.strategy_name(runs.run_config(**values)) == name
    monkeypatch.setenv("TF_CONFIG", "{}")
    assert strategies.strategy_name(runs.run_config()) == "multi_worker"
