"""Workers that start, agree, fail and end together.

TensorFlow's coordination service, which runs in the chief, holds short texts
by key, and notices by heartbeats when a worker has died or hangs: operations
that wait for it then fail in all others. Here, such an error becomes one line
that says which worker has failed, and why, the same in all of them.
"""

import contextlib
import faulthandler
import functools
import hashlib
import itertools
import json
import logging
import os
import pathlib
import signal
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf
from tensorflow.compiler.xla.tsl.protobuf import coordination_config_pb2
from tensorflow.python.eager import context

from albert_tf.training import rendezvous
from albert_tf.training.cluster import Cluster

_LOGGER = logging.getLogger(__name__)

# After so many seconds without a sign of life, a worker counts as dead.
HEARTBEAT_SECONDS = 30
# How long the chief, which holds the texts, outlives its failure.
_FAREWELL_SECONDS = 10
_PROBE_SECONDS = 5
_POLL_SECONDS = 2
# From the rendezvous until TensorFlow has connected all.
_CONNECT_SECONDS = 60
# What a main thread that is not waiting for the others has to notice it.
_GRACE_SECONDS = 10
_JOB = "worker"
_CHIEF, _FAILURE, _SEEN = "chief", "failure", "seen"
# Of the process, as its context is; the same in all workers.
_CHECKS = itertools.count()
# What operations raise when another worker has gone.
_BROKEN = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
    tf.errors.UnknownError,
)


def connect(
    cluster: Cluster,
) -> tf.distribute.MultiWorkerMirroredStrategy:
    """Returns a strategy over all workers, which have just met.

    Raises:
        ValueError: This worker cannot use its own address, or another one has
            gone again.
    """
    context.context().configure_coordination_service(
        service_type="standalone",
        service_leader=f"/job:{_JOB}/replica:0/task:0",
        coordinated_jobs=[
            coordination_config_pb2.CoordinatedJob(
                name=_JOB, num_tasks=len(cluster.addresses)
            )
        ],
        cluster_register_timeout_in_ms=1000 * _CONNECT_SECONDS,
        heartbeat_timeout_in_ms=1000 * HEARTBEAT_SECONDS,
        shutdown_barrier_timeout_in_ms=1000 * _FAREWELL_SECONDS,
    )
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({_JOB: list(cluster.addresses)}),
        task_type=_JOB,
        task_id=cluster.index,
        num_accelerators={"GPU": len(tf.config.list_physical_devices("GPU"))},
        rpc_layer="grpc",
    )
    _LOGGER.info(
        "This is worker %d of %d. All have come; it ends if they cannot "
        "connect within %d seconds.",
        cluster.index,
        len(cluster.addresses),
        _CONNECT_SECONDS,
    )
    try:
        with _limited(_CONNECT_SECONDS + _FAREWELL_SECONDS), _default_signals():
            strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver)
    except tf.errors.OpError as error:
        raise ValueError(
            f"{cluster.name_of(cluster.index)} cannot listen at its address, "
            "or another worker has gone. TensorFlow says: "
            f"{_one_line(error)}"
        ) from error
    if not cluster.index:
        _put(_CHIEF, "")
    return strategy


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Ends the process with code 1 if the block takes longer."""
    # Only this works while TensorFlow keeps all threads of Python waiting.
    with open(os.devnull, "w") as nothing:
        faulthandler.dump_traceback_later(seconds, exit=True, file=nothing)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()


@contextlib.contextmanager
def _default_signals() -> Iterator[None]:
    """Lets SIGTERM and Ctrl-C end the process.

    TensorFlow waits for the others without listening to Python's handlers, and
    takes SIGTERM for itself without Python's knowledge.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = signal.SIGTERM, signal.SIGINT
    before = {
        number: signal.signal(number, signal.SIG_DFL) for number in numbers
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)


def _listens(address: str) -> bool:
    """Returns whether a process listens at an address, as far as known."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _PROBE_SECONDS).close()
    except ConnectionRefusedError:
        return False
    except OSError:
        pass  # The heartbeats know more.
    return True


def cluster_of(strategy: tf.distribute.Strategy) -> Cluster | None:
    """Returns the workers of a strategy that `connect` made; else None."""
    resolver = strategy.cluster_resolver
    if resolver is None or not isinstance(
        strategy, tf.distribute.MultiWorkerMirroredStrategy
    ):
        return None
    return Cluster(
        addresses=tuple(resolver.cluster_spec().job_tasks(_JOB)),
        index=resolver.task_id,
    )


def check_same(
    cluster: Cluster, values: Mapping[str, Any], advice: str
) -> None:
    """Checks that the workers have the same values; all must call it at once.

    Args:
        cluster: The workers.
        values: What is compared, by name; see `rendezvous.flat`.
        advice: What to do if they differ.

    Raises:
        ValueError: They differ; in all workers, and with the same words.
    """
    topic = f"check-{next(_CHECKS)}"
    milliseconds = 1000 * HEARTBEAT_SECONDS
    ours = rendezvous.flat(values)
    if cluster.index:
        _put(f"{topic}/{cluster.index}", json.dumps(ours))
        verdict = _get(topic, milliseconds)
    else:
        verdicts = (
            rendezvous.difference(
                cluster.name_of(index),
                json.loads(_get(f"{topic}/{index}", milliseconds)),
                ours,
                advice,
            )
            for index in range(1, len(cluster.addresses))
        )
        verdict = next(filter(None, verdicts), "")
        _put(topic, verdict)
    if verdict:
        raise ValueError(verdict)


@functools.cache
def code_version() -> dict[str, str]:
    """Returns the versions of what computes, with a digest of our own code."""
    digest = hashlib.sha256()
    folder = pathlib.Path(__file__).parents[1]
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode())
        digest.update(path.read_bytes())
    return {
        "code of albert_tf": digest.hexdigest(),
        "version of TensorFlow": tf.__version__,
        "version of Keras": keras.__version__,
    }


@contextlib.contextmanager
def ending_together(cluster: Cluster) -> Iterator[None]:
    """Ends all workers where one fails, each with a message that says why.

    A worker that does not come to an operation that fails is ended, too, as if
    it had been killed; and one that has failed soon after its message.

    Raises:
        ValueError: Another worker has failed or died.
    """
    is_over = threading.Event()
    watch = threading.Thread(target=_watch, args=(cluster, is_over))
    watch.daemon = True
    watch.start()
    try:
        yield
    except _BROKEN as error:
        is_over.set()
        reason = _find_reason(cluster, error)
        _tell(cluster, reason)
        _end_soon()
        raise ValueError(reason) from error
    except BaseException as error:
        is_over.set()
        own = cluster.name_of(cluster.index)
        _tell(cluster, f"{own} has failed: {_one_line(error)}")
        _end_soon()
        raise
    is_over.set()
    if not cluster.index:
        _put(_FAILURE, "")
    watch.join(_FAREWELL_SECONDS)


def _watch(cluster: Cluster, is_over: threading.Event) -> None:
    """Makes what the main thread waits for fail if another worker does.

    A main thread that goes on nevertheless ends as if it had been killed.
    """
    if cluster.index:
        try:
            reason = _get(_FAILURE, 0)
        except tf.errors.OpError:
            reason = _without_message(cluster, 0)
    else:
        while not (dead := _dead(cluster)) and not is_over.wait(_POLL_SECONDS):
            pass
        reason = _without_message(cluster, dead[0]) if dead else ""
    if not reason or is_over.is_set():
        return
    _report(reason)
    if not is_over.wait(_GRACE_SECONDS):
        _LOGGER.error("%s", reason)
        logging.shutdown()
        os._exit(1)


def _dead(cluster: Cluster) -> list[int]:
    """Returns the workers that have gone; the chief must answer."""
    gone = [
        index
        for index, address in enumerate(cluster.addresses)
        if index != cluster.index and not _listens(address)
    ]
    return gone or _dead_for_service(cluster)


def _dead_for_service(cluster: Cluster) -> list[int]:
    jobs = [(_JOB, len(cluster.addresses))]
    states = context.context().get_task_states(jobs)
    return [i for i, error in enumerate(states) if error is not None]


def _without_message(cluster: Cluster, index: int) -> str:
    return (
        f"{cluster.name_of(index)} has ended without a message, or does not "
        "answer: it was killed, has no memory left, or its machine is lost. "
        "Run the same command again on all machines to go on from the last "
        "checkpoint."
    )


def _find_reason(cluster: Cluster, error: tf.errors.OpError) -> str:
    """Returns what has ended the connection, as soon as it is known."""
    deadline = time.monotonic() + HEARTBEAT_SECONDS
    while time.monotonic() < deadline:
        # First who has gone, then what was said: whoever goes because of
        # another one says so before.
        gone = [
            index
            for index, address in enumerate(cluster.addresses)
            if index != cluster.index and not _listens(address)
        ]
        with contextlib.suppress(tf.errors.OpError):
            return _get(_FAILURE, 1000)
        if not gone:
            gone = _dead_for_service(cluster) if _chief_answers() else [0]
        if gone:
            return _without_message(cluster, gone[0])
        time.sleep(_POLL_SECONDS)
    return f"The connection to the other workers is lost: {_one_line(error)}"


def _tell(cluster: Cluster, message: str) -> None:
    """Ends all others; returns when they know why, or after some seconds."""
    if not _chief_answers():
        return
    _report(message)
    with contextlib.suppress(tf.errors.OpError):
        _put(f"{_SEEN}/{cluster.index}", "")
    deadline = time.monotonic() + _FAREWELL_SECONDS
    # The texts end with the chief.
    for index, address in enumerate(cluster.addresses):
        if index > cluster.index == 0 and _listens(address):
            with contextlib.suppress(tf.errors.OpError):
                _get(f"{_SEEN}/{index}", _milliseconds(deadline))


def _end_soon() -> None:
    # TensorFlow may wait for a minute before it lets go of an iterator.
    with open(os.devnull, "w") as nothing:
        copy = os.dup(nothing.fileno())
    faulthandler.dump_traceback_later(_FAREWELL_SECONDS, exit=True, file=copy)


def _report(message: str) -> None:
    """Says why all end, and makes all fail that wait for others."""
    with contextlib.suppress(tf.errors.OpError):
        _put(_FAILURE, message)  # unless another one was first
    with contextlib.suppress(tf.errors.OpError):
        context.context().report_error_to_cluster(tf.errors.ABORTED, message)


def _chief_answers() -> bool:
    # What it does not answer would wait for ever, but for `_get`.
    try:
        _get(_CHIEF, 1000 * _PROBE_SECONDS)
    except tf.errors.OpError:
        return False
    return True


def _put(key: str, value: str) -> None:
    context.context().set_config_key_value(key, value)


def _get(key: str, milliseconds: int) -> str:
    return context.context().get_config_key_value(key, milliseconds)


def _milliseconds(deadline: float) -> int:
    # 0 would be no limit.
    return max(1, round(1000 * (deadline - time.monotonic())))


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
