"""Devices: a `tf.distribute` strategy by name, and batches for its replicas."""

import functools
import os
from collections.abc import Callable

import tensorflow as tf

from albert_tf.data.example_order import InputShard
from albert_tf.training.run_config import LOCAL_TPU, RunConfig

# Makes the batches of one input pipeline, each for one replica, in the order of
# the replicas.
MakeDataset = Callable[[InputShard], tf.data.Dataset]


def strategy_name(config: RunConfig) -> str:
    """Returns `config.strategy`, with a name in place of `auto`.

    `auto` is `multi_worker` if there are other workers, `tpu` if a TPU is
    named, `mirrored` with several GPUs, else `one`.
    """
    if config.strategy != "auto":
        return config.strategy
    if config.cluster or "TF_CONFIG" in os.environ:
        return "multi_worker"
    if config.tpu_name:
        return "tpu"
    has_several_gpus = len(tf.config.list_logical_devices("GPU")) > 1
    return "mirrored" if has_several_gpus else "one"


def create_strategy(config: RunConfig) -> tf.distribute.Strategy:
    """Returns the strategy of a run in a single process.

    `one` is the first device; `mirrored` all GPUs of this machine (all
    logical CPUs if it has none); `tpu` a TPU.
    """
    name = strategy_name(config)
    if name == "tpu":
        return _tpu_strategy(config)
    if name == "mirrored":
        gpus = tf.config.list_logical_devices("GPU")
        devices = gpus or tf.config.list_logical_devices("CPU")
        return _mirrored_strategy(tuple(d.name for d in devices))
    return tf.distribute.get_strategy()


# Cached, because collective operations are numbered by strategy but known by
# process: those of two strategies over the same devices would be mixed up.
@functools.cache
def _mirrored_strategy(devices: tuple[str, ...]) -> tf.distribute.Strategy:
    return tf.distribute.MirroredStrategy(list(devices))


def _tpu_strategy(config: RunConfig) -> tf.distribute.Strategy:
    name = config.tpu_name or LOCAL_TPU
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
        tpu=name, zone=config.tpu_zone, project=config.gcp_project
    )
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
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
    num_local_devices = len(strategy.extended.worker_devices)
    return strategy.num_replicas_in_sync // num_local_devices


def check_batch_sizes(
    config: RunConfig, num_replicas: int, **is_used: object
) -> None:
    """Checks that replicas and micro-batches divide the batches.

    Args:
        config: Settings of the run.
        num_replicas: Number of replicas.
        **is_used: By name of a batch size, whether there are such batches.
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
