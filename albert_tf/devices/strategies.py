"""Devices: a `tf.distribute` strategy by name, and batches for its replicas."""

import contextlib
import functools
import gc
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import keras
import tensorflow as tf

from albert_tf import registry
from albert_tf.data.example_order import InputShard
from albert_tf.devices.device_settings import LOCAL_TPU, DeviceSettings

T = TypeVar("T")


class Workers:
    """The processes that train together: here, this process alone.

    `devices.workers` has a subclass for several processes. They must call the
    same methods in the same order; the first process, the chief, writes all
    files.
    """

    is_chief = True

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self.strategy = strategy

    def run_in_chief(
        self, function: Callable[..., T], *args: object
    ) -> T | None:
        """Calls a function in the chief; returns when the call has ended."""
        return function(*args)

    def any(self, flag: bool) -> bool:
        """Returns whether the flag is true in any worker."""
        return flag

    def check_same(self, values: Mapping[str, Any], advice: str) -> None:
        """Checks that all workers have the same values, which JSON can hold."""

    def check_same_weights(self, model: keras.Model, **values: object) -> None:
        """Checks that all workers have read the same weights, and values."""


def check_tensorflow(what: str) -> None:
    """Checks that Keras runs on TensorFlow, which something needs."""
    if (backend := keras.backend.backend()) != "tensorflow":
        raise ValueError(
            f"{what} needs Keras on TensorFlow. Set KERAS_BACKEND=tensorflow. "
            f"Received: {backend}."
        )


def start_workers(
    settings: DeviceSettings,
) -> contextlib.AbstractContextManager[Workers]:
    """Returns a context with the workers of a run."""
    check_tensorflow("The training loop")
    gc.collect()  # the model of an earlier run, which refers to itself
    if reference := registry.WORKERS.get(strategy_name(settings)):
        workers: contextlib.AbstractContextManager[Workers] = registry.load(
            reference
        )(settings)
        return workers
    return contextlib.nullcontext(Workers(create_strategy(settings)))


def strategy_name(settings: DeviceSettings) -> str:
    """Returns `settings.strategy`, with a name in place of `auto`."""
    if settings.strategy != "auto":
        return settings.strategy
    if settings.cluster or "TF_CONFIG" in os.environ:
        return "multi_worker"
    if settings.tpu_name:
        return "tpu"
    has_several_gpus = len(tf.config.list_logical_devices("GPU")) > 1
    return "mirrored" if has_several_gpus else "one"


def create_strategy(settings: DeviceSettings) -> tf.distribute.Strategy:
    """Returns the strategy of a run in a single process.

    `one` is the first device; `mirrored` all GPUs of this machine (all
    logical CPUs if it has none); `tpu` a TPU.
    """
    name = strategy_name(settings)
    if name == "mirrored":
        gpus = tf.config.list_logical_devices("GPU")
        devices = gpus or tf.config.list_logical_devices("CPU")
        return _mirrored_strategy(tuple(d.name for d in devices))
    if name != "tpu":
        return tf.distribute.get_strategy()
    name = settings.tpu_name or LOCAL_TPU
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
        tpu=name, zone=settings.tpu_zone, project=settings.gcp_project
    )
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    strategy = tf.distribute.TPUStrategy(resolver)
    if settings.num_tpu_cores not in (None, strategy.num_replicas_in_sync):
        raise ValueError(
            f"The TPU {name!r} has {strategy.num_replicas_in_sync} cores, not "
            f"--num_tpu_cores={settings.num_tpu_cores}."
        )
    return strategy


# Cached, because collective operations are numbered by strategy but known by
# process: operations of two strategies over the same devices would mix.
@functools.cache
def _mirrored_strategy(devices: tuple[str, ...]) -> tf.distribute.Strategy:
    return tf.distribute.MirroredStrategy(list(devices))


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
    strategy: tf.distribute.Strategy,
    make_dataset: Callable[..., tf.data.Dataset],
    *args: object,
    **options: object,
) -> tf.data.Dataset:
    """Returns a dataset that feeds every replica its own batch.

    `make_dataset(*args, shard, **options)` returns the batches of an
    `InputShard`, each for one replica, in the order of the replicas.
    """

    def for_worker(context: tf.distribute.InputContext) -> tf.data.Dataset:
        num_shards = context.num_input_pipelines
        shard = InputShard(
            num_input_shards=num_shards,
            shard_index=context.input_pipeline_id,
            replicas_per_shard=context.num_replicas_in_sync // num_shards,
        )
        return make_dataset(*args, shard, **options)

    return strategy.distribute_datasets_from_function(for_worker)


def num_input_pipelines(strategy: tf.distribute.Strategy) -> int:
    """Returns how many pipelines `distribute` makes, over all hosts."""
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return int(strategy.extended.num_hosts)
    if strategy.num_replicas_in_sync == 1:
        return 1
    num_local_devices = len(strategy.extended.worker_devices)
    return int(strategy.num_replicas_in_sync // num_local_devices)
