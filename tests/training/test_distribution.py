import types

import pytest
import tensorflow as tf

from albert_tf.training import distribution
from albert_tf.training.run_config import TpuAddress


def test_one_is_no_distribution_at_all():
    strategy = distribution.create_strategy("one")

    assert strategy.num_replicas_in_sync == 1
    assert strategy is tf.distribute.get_strategy()


def test_mirrored_takes_all_devices_of_the_machine(two_replicas):
    assert two_replicas.num_replicas_in_sync == 2
    assert distribution.device_type(two_replicas) == "CPU"


def test_auto_without_accelerators_is_one(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)

    strategy = distribution.create_strategy("auto")

    assert strategy is tf.distribute.get_strategy()


@pytest.mark.parametrize(("num_gpus", "expected"), [(1, "one"), (2, "all")])
def test_auto_takes_several_gpus(num_gpus, expected, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    devices = [types.SimpleNamespace(name=f"GPU:{i}") for i in range(num_gpus)]
    monkeypatch.setattr(
        tf.config,
        "list_logical_devices",
        lambda kind: devices if kind == "GPU" else [],
    )
    made = []
    monkeypatch.setattr(tf.distribute, "MirroredStrategy", made.append)

    distribution.create_strategy("auto")

    assert made == ([["GPU:0", "GPU:1"]] if expected == "all" else [])


def test_auto_with_workers_is_multi_worker(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{}")
    monkeypatch.setattr(
        tf.distribute, "MultiWorkerMirroredStrategy", lambda: "workers"
    )

    assert distribution.create_strategy("auto") == "workers"


def test_multi_worker_without_addresses_is_an_error(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)

    with pytest.raises(ValueError, match="TF_CONFIG, which is not set"):
        distribution.create_strategy("multi_worker")


@pytest.mark.parametrize("text", ["{junk", "[1]", ""])
def test_addresses_that_are_not_json_are_an_error(text, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)

    with pytest.raises(ValueError, match="TF_CONFIG must be a JSON object"):
        distribution.create_strategy("auto")


def test_a_tpu_that_is_not_there_is_an_error(monkeypatch):
    def connect(**_):
        raise ValueError("Could not lookup TPU metadata\nand more")

    monkeypatch.setattr(
        tf.distribute.cluster_resolver, "TPUClusterResolver", connect
    )
    monkeypatch.delenv("TF_CONFIG", raising=False)

    with pytest.raises(
        ValueError,
        match="No TPU can be used as 'my-tpu': Could not lookup TPU metadata "
        "Pass --strategy=one",
    ):
        distribution.create_strategy("auto", tpu=TpuAddress(name="my-tpu"))


def test_a_tpu_of_another_size_is_an_error(monkeypatch):
    nothing = lambda *_, **__: None  # noqa: E731
    resolvers = tf.distribute.cluster_resolver
    monkeypatch.setattr(resolvers, "TPUClusterResolver", nothing)
    monkeypatch.setattr(tf.config, "experimental_connect_to_cluster", nothing)
    monkeypatch.setattr(tf.tpu.experimental, "initialize_tpu_system", nothing)
    monkeypatch.setattr(
        tf.distribute,
        "TPUStrategy",
        lambda _: types.SimpleNamespace(num_replicas_in_sync=8),
    )

    with pytest.raises(ValueError, match="'local' has 8 cores, not 32"):
        distribution.create_strategy("tpu", tpu=TpuAddress(num_cores=32))
    assert distribution.create_strategy("tpu", tpu=TpuAddress(num_cores=8))


def worker(task_type, index, jobs):
    """A stand-in for a multi-worker strategy, as seen by one worker."""
    strategy = object.__new__(tf.distribute.MultiWorkerMirroredStrategy)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({job: ["a:1", "b:1"] for job in jobs}),
        task_type=task_type,
        task_id=index,
    )
    strategy._extended = types.SimpleNamespace(_cluster_resolver=resolver)
    return strategy


@pytest.mark.parametrize(
    ("task_type", "index", "jobs", "expected"),
    [
        ("worker", 0, ["worker"], True),
        ("worker", 1, ["worker"], False),
        ("worker", 0, ["chief", "worker"], False),
        ("chief", 0, ["chief", "worker"], True),
    ],
)
def test_one_worker_is_the_chief(task_type, index, jobs, expected, monkeypatch):
    strategy = worker(task_type, index, jobs)
    monkeypatch.setattr(
        tf.distribute.MultiWorkerMirroredStrategy,
        "cluster_resolver",
        property(lambda self: self._extended._cluster_resolver),
    )

    assert distribution.is_chief(strategy) == expected


def test_a_process_alone_is_the_chief(two_replicas):
    assert distribution.is_chief(two_replicas)
    assert distribution.is_chief(tf.distribute.get_strategy())


def test_each_replica_gets_its_own_batch_in_turn(two_replicas):
    asked = []

    def make(*arguments):
        asked.append(arguments)
        return tf.data.Dataset.range(4)

    batches = list(distribution.distribute(two_replicas, make))

    # One pipeline, the first of one, feeds both replicas.
    assert asked == [(1, 0, 2)]
    values = [[int(v) for v in b.values] for b in batches]
    assert values == [[0, 1], [2, 3]]


def test_one_device_takes_the_dataset_as_it_is():
    asked = []

    def make(*arguments):
        asked.append(arguments)
        return tf.data.Dataset.range(2)

    strategy = tf.distribute.get_strategy()

    assert [int(b) for b in distribution.distribute(strategy, make)] == [0, 1]
    assert asked == [(1, 0, 1)]


def test_a_process_alone_agrees_with_itself(two_replicas):
    for strategy in (two_replicas, tf.distribute.get_strategy()):
        distribution.wait_for_all(strategy)
        distribution.check_agreement(strategy, "checkpoint", 7)
        assert distribution.any_worker(strategy, True)
        assert not distribution.any_worker(strategy, False)


def test_workers_that_find_different_checkpoints_are_told(monkeypatch):
    strategy = types.SimpleNamespace(num_replicas_in_sync=2)
    monkeypatch.setattr(
        distribution, "_sum_over_replicas", lambda _, value: value + 100
    )

    with pytest.raises(
        ValueError,
        match="not find the same checkpoint in --output_dir: this one has -1, "
        "their mean is 49.5. Let --output_dir be a folder that all",
    ):
        distribution.check_agreement(strategy, "checkpoint", -1)


def test_a_process_has_one_mirrored_strategy():
    one = distribution.create_strategy("mirrored")

    assert distribution.create_strategy("mirrored") is one
