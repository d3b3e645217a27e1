import types

import pytest
import tensorflow as tf

from albert_tf.data.example_order import InputShard
from albert_tf.training import distribution
from tests.training import runs


@pytest.fixture
def create(monkeypatch):
    """A function that creates the strategy of the given settings."""
    monkeypatch.delenv("TF_CONFIG", raising=False)
    return lambda **values: distribution.create_strategy(
        runs.run_config(**values)
    )


@pytest.mark.parametrize("name", ["one", "auto"])
def test_one_device_needs_no_distribution(name, create):
    assert create(strategy=name) is tf.distribute.get_strategy()


def test_mirrored_takes_all_devices_of_the_machine(two_replicas, create):
    assert two_replicas.num_replicas_in_sync == 2
    assert distribution.device_type(two_replicas) == "CPU"
    # One process has one strategy over the same devices.
    assert create(strategy="mirrored") is two_replicas


@pytest.mark.parametrize(
    ("num_gpus", "expected"), [(1, []), (2, [["GPU:0", "GPU:1"]])]
)
def test_auto_takes_several_gpus(num_gpus, expected, create, monkeypatch):
    devices = [types.SimpleNamespace(name=f"GPU:{i}") for i in range(num_gpus)]
    monkeypatch.setattr(
        tf.config,
        "list_logical_devices",
        lambda kind: devices if kind == "GPU" else [],
    )
    made = []
    monkeypatch.setattr(tf.distribute, "MirroredStrategy", made.append)

    create(strategy="auto")

    assert made == expected


def test_auto_with_workers_is_multi_worker(create, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{}")
    monkeypatch.setattr(
        tf.distribute, "MultiWorkerMirroredStrategy", lambda: "workers"
    )

    assert create(strategy="auto") == "workers"


def test_multi_worker_without_addresses_is_an_error(create):
    with pytest.raises(ValueError, match="TF_CONFIG, which is not set"):
        create(strategy="multi_worker")


@pytest.mark.parametrize("text", ["{junk", "[1]", ""])
def test_addresses_that_are_not_json_are_an_error(text, create, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)

    with pytest.raises(ValueError, match="TF_CONFIG must be a JSON object"):
        create(strategy="auto")


def test_a_tpu_that_is_not_there_is_an_error(create, monkeypatch):
    def connect(**_):
        raise ValueError("Could not lookup TPU metadata\nand more")

    monkeypatch.setattr(
        tf.distribute.cluster_resolver, "TPUClusterResolver", connect
    )

    with pytest.raises(
        ValueError,
        match="connect to the TPU 'my-tpu': Could not lookup TPU metadata "
        "Check --tpu_name, or pass --strategy=one",
    ):
        create(strategy="auto", tpu_name="my-tpu")


def test_a_tpu_of_another_size_is_an_error(create, monkeypatch):
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
        create(strategy="tpu", num_tpu_cores=32)
    assert create(strategy="tpu", num_tpu_cores=8)


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


def test_a_process_alone_is_the_chief_and_agrees_with_itself(two_replicas):
    for strategy in (two_replicas, tf.distribute.get_strategy()):
        assert distribution.is_chief(strategy)
        distribution.wait_for_all(strategy)
        distribution.check_agreement(strategy, "checkpoint", 7)
        assert distribution.any_worker(strategy, True)
        assert not distribution.any_worker(strategy, False)


@pytest.mark.parametrize("num_replicas", [1, 2])
def test_each_replica_gets_its_own_batch_in_turn(num_replicas, two_replicas):
    asked = []

    def make(shard):
        asked.append(shard)
        return tf.data.Dataset.range(4)

    strategy = (
        two_replicas if num_replicas == 2 else tf.distribute.get_strategy()
    )
    batches = distribution.distribute(strategy, make)
    values = [strategy.experimental_local_results(b) for b in batches]

    # One pipeline, the first of one, feeds all replicas.
    assert asked == [InputShard(replicas_per_shard=num_replicas)]
    assert [len(own) for own in values] == [num_replicas] * (4 // num_replicas)
    assert [int(v) for own in values for v in own] == [0, 1, 2, 3]


def test_all_hosts_have_a_pipeline(two_replicas, monkeypatch):
    tpu = object.__new__(tf.distribute.TPUStrategy)
    tpu._extended = types.SimpleNamespace(num_hosts=4)
    workers = worker("worker", 0, ["worker"])
    workers._extended = types.SimpleNamespace(
        worker_devices=["GPU:0", "GPU:1"], _num_replicas_in_sync=6
    )

    strategies = tf.distribute.get_strategy(), two_replicas, workers, tpu
    found = [*map(distribution.num_input_pipelines, strategies)]

    assert found == [1, 1, 3, 4]


def test_workers_that_find_different_checkpoints_are_an_error(monkeypatch):
    strategy = types.SimpleNamespace(num_replicas_in_sync=2)
    monkeypatch.setattr(
        distribution, "_sum_over_replicas", lambda _, value: value + 100
    )

    with pytest.raises(
        ValueError,
        match="different values of a step in --output_dir: this one -1, on "
        "average 49.5. --output_dir must be a folder that all workers share",
    ):
        distribution.check_agreement(strategy, "a step", -1)


def test_what_fails_in_one_worker_fails_in_all(monkeypatch):
    strategy = tf.distribute.get_strategy()
    others = [0]
    told = []

    def total(_, value):
        told.append(value)
        return value + others[0]

    def fail():
        raise OSError("no space")

    monkeypatch.setattr(distribution, "_sum_over_replicas", total)

    assert distribution.run_in_all(strategy, lambda: 7) == 7
    with pytest.raises(OSError, match="no space"):
        distribution.run_in_all(strategy, fail)
    assert told == [0, 1]
    others[0] = 1
    with pytest.raises(ValueError, match="Another worker has failed"):
        distribution.run_in_all(strategy, lambda: 7)


def test_the_chief_alone_does_what_all_wait_for(monkeypatch):
    strategy = tf.distribute.get_strategy()
    assert distribution.run_in_chief(strategy, lambda: 7) == 7

    monkeypatch.setattr(distribution, "is_chief", lambda _: False)

    assert distribution.run_in_chief(strategy, lambda: 7) is None


def test_a_batch_is_divided_over_replicas_times_micro_batches():
    sizes = {"train_batch_size": 12, "eval_batch_size": 2}
    config = runs.run_config(gradient_accumulation_steps=2, **sizes)

    distribution.check_batch_sizes(config, 2, **sizes)
    with pytest.raises(ValueError, match=r"`train_.*\(4 x 2\).*batch_size=12"):
        distribution.check_batch_sizes(config, 4, train_batch_size=True)
