"""Devices: a `tf.distribute` strategy by name, and batches for its replicas."""

import contextlib
import dataclasses
import functools
import hashlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import keras
import numpy as np
import tensorflow as tf

from albert_tf import settings
from albert_tf.data.example_order import InputShard
from albert_tf.training import cluster as cluster_lib
from albert_tf.training import coordination, rendezvous
from albert_tf.training.run_config import LOCAL_TPU, RunConfig

_LOGGER = logging.getLogger(__name__)

T = TypeVar("T")
# Makes the batches of one input pipeline, each for one replica, in the order of
# the replicas.
MakeDataset = Callable[[InputShard], tf.data.Dataset]


@contextlib.contextmanager
def strategy_of(config: RunConfig) -> Iterator[tf.distribute.Strategy]:
    """Yields the strategy of a run; all its workers end together.

    Raises:
        ValueError: As `create_strategy`; or the workers were started with
            different flags, code or devices; or another one has failed.
    """
    strategy = create_strategy(config)
    workers = coordination.cluster_of(strategy)
    if workers is None:
        yield strategy
        return
    with coordination.ending_together(workers):
        yield strategy
        wait_for_all(strategy)


def _settings_of(config: RunConfig) -> dict[str, Any]:
    """Returns what must be the same in all workers before they do anything."""
    flags = dict(
        line.partition("=")[::2] for line in config.flags_text.splitlines()
    )
    fields = {
        f"--{field.name}" if settings.help_of(field) else field.name: getattr(
            config, field.name
        )
        for field in dataclasses.fields(config)
        if field.name not in ("albert_config", "flags_text")
    }
    return {
        **flags,
        **fields,
        "config": config.albert_config.to_dict(),
        "number of GPUs": len(tf.config.list_physical_devices("GPU")),
        **coordination.code_version(),
    }


def create_strategy(config: RunConfig) -> tf.distribute.Strategy:
    """Returns the strategy that `config.strategy` names.

    `one` is the first device; `mirrored` all GPUs of this machine (all
    logical CPUs if it has none); `multi_worker` the machines that
    `config.cluster` finds; `tpu` a TPU. `auto` is `multi_worker` if they are
    given, `tpu` if a TPU is named, `mirrored` with several GPUs, else `one`.

    Raises:
        ValueError: The TPU or the other workers cannot be used, or the
            addresses of the workers are missing or make no sense.
    """
    name = config.strategy
    if name == "auto":
        name = _resolve_auto(config)
    if name == "tpu":
        return _tpu_strategy(config)
    if name == "multi_worker":
        return _multi_worker_strategy(config)
    if name == "mirrored":
        gpus = tf.config.list_logical_devices("GPU")
        devices = gpus or tf.config.list_logical_devices("CPU")
        return _mirrored_strategy(tuple(d.name for d in devices))
    return tf.distribute.get_strategy()


def _multi_worker_strategy(config: RunConfig) -> tf.distribute.Strategy:
    source = config.cluster or cluster_lib.TF_CONFIG
    workers = cluster_lib.resolve(source, config.worker_hosts, os.environ)
    if source != cluster_lib.TF_CONFIG:
        cluster_lib.check_own_address(workers)
    rendezvous.meet(
        workers,
        _settings_of(config),
        "Start all workers with the same flags, code and devices.",
        seconds=config.seconds_of("join_timeout") or 0.0,
    )
    return coordination.connect(workers)


# Cached, because collective operations are numbered by strategy but known by
# process: those of two strategies over the same devices would be mixed up.
@functools.cache
def _mirrored_strategy(devices: tuple[str, ...]) -> tf.distribute.Strategy:
    return tf.distribute.MirroredStrategy(list(devices))


def _resolve_auto(config: RunConfig) -> str:
    if config.has_cluster or "TF_CONFIG" in os.environ:
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


def is_default(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether it distributes nothing: one device, and no scope."""
    is_current = strategy is tf.distribute.get_strategy()
    return is_current and not tf.distribute.has_strategy()


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether this process is the one that writes files."""
    workers = coordination.cluster_of(strategy)
    return workers is None or not workers.index


def run_in_all(strategy: tf.distribute.Strategy, action: Callable[[], T]) -> T:
    """Calls a function in every worker, and returns when all have ended it.

    All must call this. If it fails in one, all end; see
    `coordination.ending_together`.
    """
    result = action()
    wait_for_all(strategy)
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


def check_same(
    strategy: tf.distribute.Strategy, values: Mapping[str, Any], advice: str
) -> None:
    """Checks that all workers have the same values; all must call it.

    See `coordination.check_same`.
    """
    if workers := coordination.cluster_of(strategy):
        wait_for_all(strategy)
        coordination.check_same(workers, values, advice)


def check_same_weights(
    strategy: tf.distribute.Strategy, model: keras.Model, **values: Any
) -> None:
    """Checks that all workers have read the same weights; all must call it.

    TensorFlow gives each worker what it has read itself. See `check_same`;
    `values` are compared, too.
    """
    if not coordination.cluster_of(strategy):
        return
    digest = hashlib.sha256()
    for variable in model.trainable_variables:
        digest.update(np.ascontiguousarray(variable.numpy()).data)
    check_same(
        strategy,
        {**values, "weights": digest.hexdigest()},
        "All workers must find the same weights where the flags name them.",
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

    if is_default(strategy):
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
