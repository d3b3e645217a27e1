"""Devices: a `tf.distribute` strategy by name, and batches for its replicas.

Floor: training.
"""

import functools
import json
import os
from collections.abc import Callable
from typing import TypeVar

import tensorflow as tf

from albert_tf.data.example_order import InputShard
from albert_tf.training.run_config import LOCAL_TPU, RunConfig

T = TypeVar("T")
# Makes the batches of one input pipeline, each for one replica, in the order of
# the replicas.
MakeDataset = Callable[[InputShard], tf.data.Dataset]


def create_strategy(config: RunConfig) -> tf.distribute.Strategy:
    """Returns the strategy that `config.strategy` names.

    `one` is the first device; `mirrored` all GPUs of this machine (all
    logical CPUs if it has none); `multi_worker` the machines of `TF_CONFIG`;
    `tpu` a TPU. `auto` is `multi_worker` if `TF_CONFIG` is set, `tpu` if a TPU
    is named, `mirrored` with several GPUs, else `one`.

    Raises:
        ValueError: The TPU or the other workers cannot be used, or
            `TF_CONFIG` is missing or not a JSON object.
    """
    name = config.strategy
    if name == "auto":
        name = _resolve_auto(config)
    if name == "tpu":
        return _tpu_strategy(config)
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


# Cached, because collective operations are numbered by strategy but known by
# process: those of two strategies over the same devices would be mixed up.
@functools.cache
def _mirrored_strategy(devices: tuple[str, ...]) -> tf.distribute.Strategy:
    return tf.distribute.MirroredStrategy(list(devices))


def _resolve_auto(config: RunConfig) -> str:
    if "TF_CONFIG" in os.environ:
        return "multi_worker"
    if config.tpu_name:
        return "tpu"
    has_several_gpus = len(tf.config.list_logical_devices("GPU")) > 1
    return "mirrored" if has_several_gpus else "one"


def _tpu_strategy(config: RunConfig) -> tf.distribute.Strategy:
    name = config.tpu_name or LOCAL_TPU
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            tpu=name, zone=config.tpu_zone, project=config.gcp_project
        )
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (tf.errors.OpError, ValueError, RuntimeError, OSError) as error:
        raise ValueError(
            f"Cannot connect to the TPU {name!r}: {str(error).splitlines()[0]} "
            "Check --tpu_name, or pass --strategy=one to train without a TPU."
        ) from error
    strategy = tf.distribute.TPUStrategy(resolver)
    if config.num_tpu_cores not in (None, strategy.num_replicas_in_sync):
        raise ValueError(
            f"The TPU {name!r} has {strategy.num_replicas_in_sync} cores, not "
            f"{config.num_tpu_cores}. Correct --num_tpu_cores or leave it out."
        )
    return strategy


def device_type(strategy: tf.distribute.Strategy) -> str:
    """Returns the device type of the replicas: `CPU`, `GPU` or `TPU`."""
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return "TPU"
    return "GPU" if tf.config.list_logical_devices("GPU") else "CPU"


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether this process is the one that writes files."""
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


def run_in_all(strategy: tf.distribute.Strategy, action: Callable[[], T]) -> T:
    """Calls a function in every worker; if it fails in one, it fails in all.

    All must call this. The function must not wait for other workers.

    Raises:
        Exception: What the function raises; a ValueError in the workers in
            which it does not fail.
    """
    try:
        result = action()
    except Exception:
        _sum_over_replicas(strategy, 1)
        raise
    if _sum_over_replicas(strategy, 0):
        raise ValueError(
            "Another worker has failed, so this one ends, too. Its output "
            "says why."
        )
    return result


def run_in_chief(
    strategy: tf.distribute.Strategy, action: Callable[[], T]
) -> T | None:
    """Calls a function in the chief; see `run_in_all`."""
    return run_in_all(strategy, action if is_chief(strategy) else _do_nothing)


def _do_nothing() -> None:
    pass


def any_worker(strategy: tf.distribute.Strategy, value: bool) -> bool:
    """Returns whether `value` is true in any worker; all must call it."""
    return _sum_over_replicas(strategy, int(value)) > 0


def wait_for_all(strategy: tf.distribute.Strategy) -> None:
    """Blocks until all workers have called it."""
    _sum_over_replicas(strategy, 0)


def check_agreement(
    strategy: tf.distribute.Strategy, name: str, value: int
) -> None:
    """Checks that all workers have the same value.

    Raises:
        ValueError: They do not; raised in every worker whose value differs
            from the mean.
    """
    total = _sum_over_replicas(strategy, value)
    if total != value * strategy.num_replicas_in_sync:
        raise ValueError(
            f"The workers find different values of {name} in --output_dir: "
            f"this one {value}, on average "
            f"{total / strategy.num_replicas_in_sync:g}. --output_dir must be "
            "a folder that all workers share."
        )


def mean_over_workers(
    strategy: tf.distribute.Strategy, seconds: float
) -> float:
    """Returns the mean of a time, to the microsecond; all must call it."""
    total = _sum_over_replicas(strategy, round(seconds * 1e6))
    return total / strategy.num_replicas_in_sync / 1e6


def _sum_over_replicas(strategy: tf.distribute.Strategy, value: int) -> int:
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return value * strategy.num_replicas_in_sync
    totals = _graph_of_sum(strategy)(tf.constant(value, tf.int64))
    return int(strategy.experimental_local_results(totals)[0])


@functools.cache
def _graph_of_sum(
    strategy: tf.distribute.Strategy,
) -> Callable[[tf.Tensor], tf.Tensor]:
    # Outside a graph, TensorFlow warns at every call that it is slow.
    return tf.function(lambda value: strategy.run(_sum_all, args=(value,)))


def _sum_all(value: tf.Tensor) -> tf.Tensor:
    context = tf.distribute.get_replica_context()
    # Placed on the replica's device, which a graph's argument is not.
    own = tf.identity(value)
    return context.all_reduce(tf.distribute.ReduceOp.SUM, own)


def distribute(
    strategy: tf.distribute.Strategy, make_dataset: MakeDataset
) -> tf.data.Dataset:
    """Returns a dataset that feeds every replica its own batch."""

    def for_worker(context: tf.distribute.InputContext) -> tf.data.Dataset:
        num_shards = context.num_input_pipelines
        shard = InputShard(
            num_input_shards=num_shards,
            shard_index=context.input_pipeline_id,
            replicas_per_shard=context.num_replicas_in_sync // num_shards,
        )
        return make_dataset(shard)

    if not tf.distribute.has_strategy() and (
        strategy is tf.distribute.get_strategy()
    ):
        return make_dataset(InputShard())
    return strategy.distribute_datasets_from_function(for_worker)


def num_input_pipelines(strategy: tf.distribute.Strategy) -> int:
    """Returns how many pipelines `distribute` makes, over all hosts."""
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return int(strategy.extended.num_hosts)
    if strategy.num_replicas_in_sync == 1:
        return 1
    own = len(strategy.extended.worker_devices)
    return strategy.num_replicas_in_sync // own


def check_batch_sizes(
    config: RunConfig, num_replicas: int, **is_used: object
) -> None:
    """Checks that replicas and micro-batches divide the batches.

    Args:
        config: Settings of the run.
        num_replicas: Number of replicas.
        **is_used: By name of a batch size, whether there are such batches.

    Raises:
        ValueError: A batch cannot be divided evenly.
    """
    for name in [name for name, used in is_used.items() if used]:
        num_micro_batches = 1
        batch_sizes = {getattr(config, name)}
        if name == "train_batch_size":
            num_micro_batches = config.gradient_accumulation_steps
            batch_sizes |= {phase.batch_size for phase in config.phases}
        for batch_size in sorted(batch_sizes):
            if batch_size % (num_replicas * num_micro_batches):
                raise ValueError(
                    f"`{name}` must be a multiple of the number of replicas "
                    "times the number of accumulation steps "
                    f"({num_replicas} x {num_micro_batches}), in every phase. "
                    f"Received: {name}={batch_size}."
                )
