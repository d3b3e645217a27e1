import contextlib
import types

import keras
import pytest
import tensorflow as tf

from albert_tf.data.example_order import InputShard
from albert_tf.training import coordination, distribution, rendezvous
from albert_tf.training.cluster import Cluster
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


@pytest.fixture
def met(monkeypatch):
    """What workers would have met with, in place of meeting and connecting."""
    found = []

    def meet(workers, values, advice, *, seconds):
        found.append((workers, values, advice, seconds))

    monkeypatch.setattr(rendezvous, "meet", meet)
    monkeypatch.setattr(coordination, "connect", lambda workers: workers)
    return found


TF_CONFIG = """{"cluster": {"worker": ["a:2", "b:2"]},
                "task": {"type": "worker", "index": 1}}"""


def test_auto_with_workers_is_multi_worker(create, met, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", TF_CONFIG)

    workers = create(strategy="auto", join_timeout="2m", log_steps=7)

    assert workers == Cluster(addresses=("a:2", "b:2"), index=1)
    [(_, values, _, seconds)] = met
    assert seconds == 120
    assert values["--log_steps"] == 7
    assert (
        values["config"]["vocab_size"]
        == runs.run_config().albert_config.vocab_size
    )
    assert {"code of albert_tf", "number of GPUs"} <= values.keys()


def test_workers_of_mpi_are_checked_and_meet(create, met, monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    hosts = "localhost:2", "192.0.2.7:2"

    workers = create(cluster="mpi", worker_hosts=hosts)
    assert workers == Cluster(addresses=hosts, index=0)
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
    with pytest.raises(ValueError, match="does not have this address"):
        create(cluster="mpi", worker_hosts=hosts)

    assert len(met) == 1


def test_flags_are_compared_as_they_were_given(create, met, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", TF_CONFIG)

    create(flags_text="--preset=budget\n--nodo_eval\n")

    [(_, values, _, _)] = met
    assert values["--preset"] == "budget"
    assert values["--nodo_eval"] == ""


def test_multi_worker_without_addresses_is_an_error(create):
    with pytest.raises(ValueError, match="TF_CONFIG, which is not set"):
        create(strategy="multi_worker")
    # Otherwise, each machine would train by itself.
    with pytest.raises(ValueError, match="TF_CONFIG, which is not set"):
        create(strategy="auto", cluster="tf_config")


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


@pytest.fixture
def as_worker(monkeypatch):
    """A function that makes a stand-in for a strategy, as a worker sees it."""
    monkeypatch.setattr(
        tf.distribute.MultiWorkerMirroredStrategy,
        "cluster_resolver",
        property(lambda self: self._extended._cluster_resolver),
    )

    def make(index):
        strategy = object.__new__(tf.distribute.MultiWorkerMirroredStrategy)
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec({"worker": ["a:1", "b:1"]}),
            task_type="worker",
            task_id=index,
        )
        strategy._extended = types.SimpleNamespace(_cluster_resolver=resolver)
        return strategy

    return make


def test_the_first_worker_is_the_chief(as_worker):
    assert distribution.is_chief(as_worker(0))
    assert not distribution.is_chief(as_worker(1))


def test_workers_end_together_and_wait_for_one_another(
    as_worker, create, monkeypatch
):
    events = []

    @contextlib.contextmanager
    def ending_together(workers):
        events.append(workers.index)
        yield
        events.append("all have ended")

    monkeypatch.setattr(coordination, "ending_together", ending_together)
    monkeypatch.setattr(distribution, "create_strategy", lambda _: as_worker(1))
    monkeypatch.setattr(
        distribution, "wait_for_all", lambda _: events.append("waits")
    )

    with distribution.strategy_of(runs.run_config()) as strategy:
        assert not distribution.is_chief(strategy)
        events.append("runs")

    assert events == [1, "runs", "waits", "all have ended"]


def test_one_process_waits_for_nobody():
    config = runs.run_config(strategy="one")

    with distribution.strategy_of(config) as strategy:
        assert strategy is tf.distribute.get_strategy()


def test_a_process_alone_is_the_chief_and_agrees_with_itself(two_replicas):
    for strategy in (two_replicas, tf.distribute.get_strategy()):
        assert distribution.is_chief(strategy)
        distribution.wait_for_all(strategy)
        distribution.check_same(strategy, {"checkpoint": 7}, "Or else.")
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


def test_all_hosts_have_a_pipeline(two_replicas, as_worker):
    tpu = object.__new__(tf.distribute.TPUStrategy)
    tpu._extended = types.SimpleNamespace(num_hosts=4)
    workers = as_worker(0)
    workers._extended = types.SimpleNamespace(
        worker_devices=["GPU:0", "GPU:1"], _num_replicas_in_sync=6
    )

    strategies = tf.distribute.get_strategy(), two_replicas, workers, tpu
    found = [*map(distribution.num_input_pipelines, strategies)]

    assert found == [1, 1, 3, 4]


def test_all_wait_for_what_each_does(monkeypatch):
    strategy = tf.distribute.get_strategy()
    events = []
    monkeypatch.setattr(
        distribution, "wait_for_all", lambda _: events.append("waits")
    )

    def fail():
        raise OSError("no space")

    assert distribution.run_in_all(strategy, lambda: 7) == 7
    assert events == ["waits"]
    # The others are ended by `coordination.ending_together`.
    with pytest.raises(OSError, match="no space"):
        distribution.run_in_all(strategy, fail)
    assert events == ["waits"]


def test_values_are_compared_once_all_are_there(as_worker, monkeypatch):
    events = []
    monkeypatch.setattr(
        distribution, "wait_for_all", lambda _: events.append("waits")
    )
    monkeypatch.setattr(
        coordination, "check_same", lambda *given: events.append(given)
    )

    distribution.check_same(as_worker(1), {"step": 3}, "Share it.")

    workers = Cluster(addresses=("a:1", "b:1"), index=1)
    assert events == ["waits", (workers, {"step": 3}, "Share it.")]


def test_weights_that_workers_have_read_are_compared(as_worker, monkeypatch):
    found = []
    monkeypatch.setattr(
        distribution,
        "check_same",
        lambda strategy, values, advice: found.append((values, advice)),
    )
    model = keras.Sequential([keras.layers.Dense(2)])
    model.build((None, 3))
    distribution.check_same_weights(tf.distribute.get_strategy(), model)
    assert not found  # one process agrees with itself

    for change in (0.0, 0.0, 1e-6):
        model.layers[0].bias.assign_add([0.0, change])
        distribution.check_same_weights(as_worker(1), model, step=3)

    one, same, other = (values["weights"] for values, _ in found)
    assert one == same != other
    assert found[0][0]["step"] == 3
    assert "find the same weights where the flags name them" in found[0][1]


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
