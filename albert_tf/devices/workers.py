"""Several machines that train together.

Each worker computes its part of every batch; the first one, the chief, writes
all files.

TensorFlow's coordination service, which runs in the chief, notices when a
worker has died or hangs: what waits for it then fails in all others. An error
of one worker is reported to all, so that they end together.
"""

import contextlib
import dataclasses
import faulthandler
import hashlib
import itertools
import json
import logging
import os
import pathlib
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.compiler.xla.tsl.protobuf import coordination_config_pb2
from tensorflow.python.distribute.cluster_resolver import (
    slurm_cluster_resolver as slurm,
)
from tensorflow.python.eager import context

from albert_tf import checks
from albert_tf.devices.device_settings import DeviceSettings
from albert_tf.devices.strategies import T, Workers

_LOGGER = logging.getLogger(__name__)

# How long the workers wait for one another to start.
CONNECT_SECONDS = 600
# After so many seconds without a sign of life, a worker counts as dead.
HEARTBEAT_SECONDS = 30
# How long a worker that has failed waits for its threads to end.
_EXIT_SECONDS = 10
# How long a chief that has failed goes on answering the others.
_REPORT_SECONDS = 2
_JOB = "worker"
# Jobs of the same machine, also those that follow at once, use other ports:
# below those that systems give to clients.
_FIRST_PORT, _PORTS_A_JOB, _NUM_JOBS = 12_000, 16, 1250


class ClusterWorkers(Workers):
    """The processes of a run on several machines, and their joint actions.

    `addresses` are `host:port` of each worker, the chief first; `index` says
    which of them this process is.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        addresses: Sequence[str],
        index: int,
    ) -> None:
        super().__init__(strategy)
        self.is_chief = not index
        self._name = f"Worker {index} ({addresses[index]})"
        self._num_checks = itertools.count()
        # Outside a graph, TensorFlow warns at every call that it is slow.
        self._sum = tf.function(
            lambda value: strategy.reduce(
                "SUM", strategy.run(tf.identity, args=(value,)), axis=None
            )
        )

    def run_in_chief(
        self, function: Callable[..., T], *args: object
    ) -> T | None:
        """Calls a function in the chief; returns when the call has ended."""
        result = function(*args) if self.is_chief else None
        self.wait()
        return result

    def wait(self) -> None:
        """Blocks until all workers have called it."""
        self.any(False)

    def any(self, flag: bool) -> bool:
        """Returns whether the flag is true in any worker."""
        return int(self._sum(tf.constant(flag, tf.int64))) > 0

    def check_same(self, values: Mapping[str, Any], advice: str) -> None:
        """Checks that all workers have the same values, which JSON can hold."""
        key = f"check-{next(self._num_checks)}"
        ours = json.dumps(dict(values), default=str)
        if self.is_chief:
            context.context().set_config_key_value(key, ours)
        self.wait()
        chiefs = context.context().get_config_key_value(
            key, 1000 * HEARTBEAT_SECONDS
        )
        different = checks.differences(json.loads(chiefs), json.loads(ours))
        if different:
            raise ValueError(
                f"{self._name} differs from the chief in "
                f"{checks.listed(different)}. {advice}"
            )
        self.wait()

    def check_same_weights(self, model: keras.Model, **values: object) -> None:
        """Checks that all workers have read the same weights, and values."""
        digest = hashlib.sha256()
        for variable in model.trainable_variables:
            digest.update(np.ascontiguousarray(variable.numpy()).data)
        self.check_same(
            {**values, "weights": digest.hexdigest()},
            "All workers must find the same weights where the flags name them.",
        )

    def report(self, error: BaseException) -> None:
        """Fails what the other workers wait for, because of an error here."""
        message = " ".join(str(error).split()) or type(error).__name__
        # It fails where another worker has ended all.
        with contextlib.suppress(tf.errors.OpError):
            context.context().report_error_to_cluster(
                tf.errors.ABORTED, f"{self._name} has failed: {message}"
            )
            if self.is_chief:
                # Its process answers the others.
                time.sleep(_REPORT_SECONDS)


@contextlib.contextmanager
def connected(settings: DeviceSettings) -> Iterator[ClusterWorkers]:
    """Yields the workers of a run; they begin, and end, together."""
    addresses, index = find_addresses(settings)
    _LOGGER.info(
        "This is worker %d of %s. It ends if they do not come within %d "
        "seconds.",
        index,
        ", ".join(addresses),
        CONNECT_SECONDS,
    )
    workers = ClusterWorkers(_connect(addresses, index), addresses, index)
    try:
        workers.check_same(
            _facts_of(settings),
            "Start all workers with the same flags, code and devices.",
        )
        yield workers
        workers.wait()
    except BaseException as error:
        workers.report(error)
        # TensorFlow may wait for a minute before it lets go of an iterator.
        _exit_after(_EXIT_SECONDS)
        raise


def _facts_of(settings: DeviceSettings) -> dict[str, Any]:
    """Returns what must be the same in all workers before they do anything."""
    digest = hashlib.sha256()
    folder = pathlib.Path(__file__).parents[1]
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode())
        digest.update(path.read_bytes())
    values = dataclasses.asdict(settings)
    fields = dataclasses.fields(settings)
    compared = {field.name for field in fields if field.compare}
    return {
        # A text of several lines, such as all flags, is compared by line.
        **{
            name: value.splitlines() if "\n" in str(value) else value
            for name, value in values.items()
            if name in compared
        },
        "number of GPUs": len(tf.config.list_physical_devices("GPU")),
        "code of albert_tf": digest.hexdigest(),
        "version of TensorFlow": tf.__version__,
        "version of Keras": keras.__version__,
    }


def _connect(
    addresses: Sequence[str], index: int
) -> tf.distribute.MultiWorkerMirroredStrategy:
    """Returns a strategy over all workers, once all have come."""
    context.context().configure_coordination_service(
        service_type="standalone",
        service_leader=f"/job:{_JOB}/replica:0/task:0",
        coordinated_jobs=[
            coordination_config_pb2.CoordinatedJob(
                name=_JOB, num_tasks=len(addresses)
            )
        ],
        cluster_register_timeout_in_ms=1000 * CONNECT_SECONDS,
        heartbeat_timeout_in_ms=1000 * HEARTBEAT_SECONDS,
        shutdown_barrier_timeout_in_ms=1000 * _EXIT_SECONDS,
    )
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({_JOB: list(addresses)}),
        task_type=_JOB,
        task_id=index,
        num_accelerators={"GPU": len(tf.config.list_physical_devices("GPU"))},
        rpc_layer="grpc",
    )
    handlers = {
        stop: signal.signal(stop, signal.SIG_DFL)
        for stop in (signal.SIGTERM, signal.SIGINT)
    }
    # TensorFlow's chief waits without end for a worker that does not come.
    _exit_after(CONNECT_SECONDS)
    try:
        return tf.distribute.MultiWorkerMirroredStrategy(resolver)
    finally:
        faulthandler.cancel_dump_traceback_later()
        # TensorFlow takes SIGTERM for itself, without Python's knowledge.
        for stop, handler in handlers.items():
            signal.signal(stop, handler)


def _exit_after(seconds: float) -> None:
    """Ends the process with code 1 after some seconds."""
    # Only this works while TensorFlow keeps all threads of Python waiting.
    file = os.open(os.devnull, os.O_WRONLY)
    faulthandler.dump_traceback_later(seconds, exit=True, file=file)


def find_addresses(settings: DeviceSettings) -> tuple[list[str], int]:
    """Returns `host:port` of each worker, and which of them this process is."""
    if settings.cluster == "slurm":
        return _slurm_addresses()
    try:
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        jobs = resolver.cluster_spec().as_dict()
        chief = jobs.get("chief", [])
        first = {"chief": 0, "worker": len(chief)}[resolver.task_type]
        index = first + resolver.task_id
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            "The strategy 'multi_worker' reads the addresses of its workers "
            "from TF_CONFIG, where each task is of the type worker, or one of "
            f"them chief. Received: TF_CONFIG={os.environ.get('TF_CONFIG')}."
        ) from error
    return [*chief, *jobs.get("worker", [])], index


def _slurm_addresses() -> tuple[list[str], int]:
    # TensorFlow's SlurmClusterResolver sorts the hosts by name, so n10 before
    # n9, where Slurm does not, and needs nvidia-smi.
    if "SLURM_STEP_NODELIST" not in os.environ:
        raise ValueError("Start the command with srun, for --cluster=slurm.")
    hosts = slurm.expand_hostlist(os.environ["SLURM_STEP_NODELIST"])
    counts = slurm.expand_tasks_per_node(
        os.environ["SLURM_STEP_TASKS_PER_NODE"]
    )
    job = int(os.environ["SLURM_JOB_ID"])
    first = _FIRST_PORT + job % _NUM_JOBS * _PORTS_A_JOB
    addresses = [
        f"{host}:{first + task}"
        for host, count in zip(hosts, counts, strict=True)
        for task in range(count)
    ]
    return addresses, int(os.environ["SLURM_PROCID"])
