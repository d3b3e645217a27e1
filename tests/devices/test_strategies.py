import types

import keras
import pytest
import tensorflow as tf

from albert_tf.data.example_order import InputShard
from albert_tf.devices import strategies
from tests.training import runs


@pytest.fixture
def create(monkeypatch):
    """A function that creates the strategy of the given settings."""
    monkeypatch.delenv("TF_CONFIG", raising=False)
    return lambda **values: strategies.create_strategy(
        runs.run_config(**values)
    )


@pytest.mark.parametrize("name", ["one", "auto"])
def test_one_device_needs_no_distribution(name, create):
    assert create(strategy=name) is tf.distribute.get_strategy()


def test_mirrored_takes_all_devices_of_the_machine(two_replicas, create):
    assert two_replicas.num_replicas_in_sync == 2
    assert strategies.device_type(two_replicas) == "CPU"
    # One process has one strategy over the same devices.
    assert create(strategy="mirrored") is two_replicas


@pytest.mark.parametrize(
    ("num_gpus", "expected"), [(1, []), (2, [["GPU:0", "GPU:1"]])]
)
def test_auto_takes_several_gpus(num_gpus, expected, create, monkeypatch):
    gpus = [types.SimpleNamespace(name=f"GPU:{i}") for i in range(num_gpus)]
    monkeypatch.setattr(
        tf.config,
        "list_logical_devices",
        lambda kind: gpus if kind == "GPU" else [],
    )
    made = []
    monkeypatch.setattr(tf.distribute, "MirroredStrategy", made.append)

    create(strategy="auto")

    assert made == expected


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

    with pytest.raises(ValueError, match="'local' has 8 cores, not .*=32"):
        create(strategy="tpu", num_tpu_cores=32)
    assert create(strategy="auto", tpu_name="local", num_tpu_cores=8)


@pytest.mark.parametrize("num_replicas", [1, 2])
def test_each_replica_gets_its_own_batch_in_turn(num_replicas, two_replicas):
    asked = []

    def make(shard):
        asked.append(shard)
        return tf.data.Dataset.range(4)

    strategy = (
        two_replicas if num_replicas == 2 else tf.distribute.get_strategy()
    )
    batches = strategies.distribute(strategy, make)
    values = [strategy.experimental_local_results(b) for b in batches]

    # One pipeline, the first of one, feeds all replicas.
    assert asked == [InputShard(replicas_per_shard=num_replicas)]
    assert [len(own) for own in values] == [num_replicas] * (4 // num_replicas)
    assert [int(v) for own in values for v in own] == [0, 1, 2, 3]


def test_all_hosts_have_a_pipeline(two_replicas):
    tpu = object.__new__(tf.distribute.TPUStrategy)
    tpu._extended = types.SimpleNamespace(num_hosts=4)
    workers = object.__new__(tf.distribute.MultiWorkerMirroredStrategy)
    workers._extended = types.SimpleNamespace(
        worker_devices=["GPU:0", "GPU:1"], _num_replicas_in_sync=6
    )

    many = tf.distribute.get_strategy(), two_replicas, workers, tpu
    found = [*map(strategies.num_input_pipelines, many)]

    assert found == [1, 1, 3, 4]


def test_a_single_process_agrees_with_itself(two_replicas):
    for strategy in (two_replicas, tf.distribute.get_strategy()):
        alone = strategies.Workers(strategy)
        assert alone.is_chief
        alone.check_same({"checkpoint": 7}, "Or else.")
        assert alone.any(True)
        assert not alone.any(False)
        assert alone.run_in_chief(lambda: 7) == 7


def test_a_run_without_others_has_the_strategy_of_its_devices(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)

    with strategies.start_workers(runs.run_config(strategy="auto")) as alone:
        assert alone.strategy is tf.distribute.get_strategy()


def test_what_needs_tensorflow_says_so(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")

    with pytest.raises(ValueError, match="An export needs Keras on Tensor"):
        strategies.check_tensorflow("An export")
