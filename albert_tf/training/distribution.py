"""Devices: a `tf.distribute` strategy by name, and batches for its replicas.

Floor: training.
"""

import functools
import json
import os
from collections.abc import Callable

import tensorflow as tf

from albert_tf.training import run_config

_THIS_MACHINE = run_config.TpuAddress()
AUTO_STEPS_PER_LOOP = {"CPU": 1, "GPU": 20, "TPU": 100}


def create_strategy(
    name: str, *, tpu: run_config.TpuAddress = _THIS_MACHINE
) -> tf.distribute.Strategy:
    """Returns the strategy of that name over the devices that are there.

    Args:
        name: `one` (the first device), `mirrored` (all GPUs of this machine;
            all logical CPUs if it has none), `multi_worker` (the machines of
            `TF_CONFIG`), `tpu`, or `auto`: `multi_worker` if `TF_CONFIG` is
            set, `tpu` if a TPU is named, `mirrored` with several GPUs, else
            `one`.
        tpu: Which TPU to connect to.

    Raises:
        ValueError: The TPU or the other workers cannot be used; or
            `TF_CONFIG` is missing or no JSON object.
    """
    name = _resolve_auto(tpu) if name == "auto" else name
    if name == "tpu":
        return _tpu_strategy(tpu)
    if name == "multi_worker":
        _check_cluster(os.environ.get("TF_CONFIG"))
        return tf.distribute.MultiWorkerMirroredStrategy()
    if name == "mirrored":
        gpus = tf.config.list_logical_devices("GPU")
        devices = gpus or tf.config.list_logical_devices("CPU")
        return _mirrored_strategy(tuple(d.name for d in devices))
    return tf.distribute.get_strategy()


def _check_cluster(text: str | None) -> None:
    if text is None:
        raise ValueError(
            "The strategy 'multi_worker' reads the addresses of its "
            "workers from TF_CONFIG, which is not set. Set it, or pass "
            "--strategy=one or mirrored."
        )
    try:
        is_object = isinstance(json.loads(text), dict)
    except json.JSONDecodeError:
        is_object = False
    if not is_object:
        raise ValueError(
            f"TF_CONFIG must be a JSON object with `cluster` and `task`. "
            f"Received: {text[:60]!r}. Correct it, or unset it and pass "
            "--strategy=one."
        )


# Collective operations are numbered by strategy but known by process, so that
# those of two strategies over the same devices are taken for one another.
@functools.cache
def _mirrored_strategy(devices: tuple[str, ...]) -> tf.distribute.Strategy:
    return tf.distribute.MirroredStrategy(list(devices))


def _resolve_auto(tpu: run_config.TpuAddress) -> str:
    if "TF_CONFIG" in os.environ:
        return "multi_worker"
    if tpu.name:
        return "tpu"
    has_several_gpus = len(tf.config.list_logical_devices("GPU")) > 1
    return "mirrored" if has_several_gpus else "one"


def _tpu_strategy(tpu: run_config.TpuAddress) -> tf.distribute.Strategy:
    name = tpu.name or "local"
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            tpu=name, zone=tpu.zone, project=tpu.project
        )
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (tf.errors.OpError, ValueError, RuntimeError, OSError) as error:
        raise ValueError(
            f"No TPU can be used as {name!r}: {str(error).splitlines()[0]} "
            "Pass --strategy=one to train without."
        ) from error
    strategy = tf.distribute.TPUStrategy(resolver)
    if tpu.num_cores not in (None, strategy.num_replicas_in_sync):
        raise ValueError(
            f"The TPU {name!r} has {strategy.num_replicas_in_sync} cores, not "
            f"{tpu.num_cores}. Correct --num_tpu_cores or leave it out."
        )
    return strategy


def device_type(strategy: tf.distribute.Strategy) -> str:
    """Returns `CPU`, `GPU` or `TPU`: what the replicas of a strategy are."""
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return "TPU"
    return "GPU" if tf.config.list_logical_devices("GPU") else "CPU"


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process is the one that writes files."""
    resolver = strategy.cluster_resolver
    if resolver is None or not isinstance(
        strategy, tf.distribute.MultiWorkerMirroredStrategy
    ):
        return True
    return resolver.task_type in (None, "chief") or (
        resolver.task_type == "worker"
        and resolver.task_id == 0
        and "chief" not in resolver.cluster_spec().jobs
    )


def any_worker(strategy: tf.distribute.Strategy, value: bool) -> bool:
    """Whether `value` is true in any worker; all of them must ask."""
    return _sum_over_replicas(strategy, int(value)) > 0


def wait_for_all(strategy: tf.distribute.Strategy) -> None:
    """Returns when all workers have come here."""
    _sum_over_replicas(strategy, 0)


def check_agreement(
    strategy: tf.distribute.Strategy, name: str, value: int
) -> None:
    """Checks that all workers have the same value.

    Raises:
        ValueError: They do not; raised in each whose value is not the mean.
    """
    total = _sum_over_replicas(strategy, value)
    if total != value * strategy.num_replicas_in_sync:
        raise ValueError(
            f"The workers do not find the same {name} in --output_dir: this "
            f"one has {value}, their mean is "
            f"{total / strategy.num_replicas_in_sync:g}. Let --output_dir be "
            "a folder that all of them share."
        )


def _sum_over_replicas(strategy: tf.distribute.Strategy, value: int) -> int:
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return value * strategy.num_replicas_in_sync
    totals = _graph_of_sum(strategy)(tf.constant(value, tf.int64))
    return int(strategy.experimental_local_results(totals)[0])


@functools.cache
def _graph_of_sum(
    strategy: tf.distribute.Strategy,
) -> Callable[[tf.Tensor], tf.Tensor]:
    # Outside a graph, TensorFlow warns of each sum that it is slow.
    return tf.function(lambda value: strategy.run(_sum_all, args=(value,)))


def _sum_all(value: tf.Tensor) -> tf.Tensor:
    context = tf.distribute.get_replica_context()
    # Placed on the replica's device, which a graph's argument is not.
    own = tf.identity(value)
    return context.all_reduce(tf.distribute.ReduceOp.SUM, own)


def distribute(
    strategy: tf.distribute.Strategy,
    make_dataset: Callable[[int, int, int], tf.data.Dataset],
) -> tf.data.Dataset:
    """Returns a dataset that feeds every replica its own batch.

    Args:
        strategy: The replicas.
        make_dataset: Called with the number of input shards, this shard's
            index and its number of replicas; its dataset gives per-replica
            batches in the order of the replicas.
    """

    def for_worker(context: tf.distribute.InputContext) -> tf.data.Dataset:
        shards = context.num_input_pipelines
        return make_dataset(
            shards,
            context.input_pipeline_id,
            context.num_replicas_in_sync // shards,
        )

    if not tf.distribute.has_strategy() and (
        strategy is tf.distribute.get_strategy()
    ):
        return make_dataset(1, 0, 1)
    return strategy.distribute_datasets_from_function(for_worker)
