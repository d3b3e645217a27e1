"""Decides which examples a training step takes, from seed and step alone.

NumPy and `tf.data`.

Training examples are an endless stream: the data set in one permutation (epoch
0), then in another (epoch 1), and so on. Each step takes the next global batch
of that stream, which may span the end of an epoch. So a resumed run needs to
know nothing but its position in it, and reads no example before it. Each
pipeline `deliver`s its part of every step.
"""

import atexit
import contextlib
import dataclasses
import functools
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import tensorflow as tf

# Positions in the stream of examples -> epoch and example index of each.
Order = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

# The threads that read.
_READING: set[int] = set()
# How long no thread must read before the interpreter may end.
_NUM_WAITS, _WAIT_SECONDS = 2, 0.05
# TensorFlow's message of an error that a function in Python has raised.
_FAILED_READ = re.compile(
    r"(?:ValueError|OSError|FileNotFoundError|PermissionError): (.*?)"
    r"\nTraceback \(most recent call last\)",
    re.DOTALL,
)
# Its messages where a record file is no longer the file that was opened.
_CHANGED_FILE = re.compile(
    r"(?:corrupted|truncated) record at \d+"
    r"|Input dataset was expected to contain \d+ [^.\[]*"
    r"|\S+; No such file or directory"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputShard:
    """One of the input pipelines that share every global batch.

    It delivers a batch for each of its replicas in turn, step by step.
    """

    num_input_shards: int = 1
    shard_index: int = 0
    replicas_per_shard: int = 1

    def num_rows(self, batch_size: int) -> int:
        """Returns the rows of a replica's batch, b, given the global size."""
        return batch_size // (self.num_input_shards * self.replicas_per_shard)

    def step_and_replica(self, delivery: int) -> tuple[int, int]:
        """Returns the step of this pipeline's n-th batch, and its replica."""
        step, replica = divmod(int(delivery), self.replicas_per_shard)
        return step, self.shard_index * self.replicas_per_shard + replica

    def positions(self, delivery: int, batch_size: int) -> np.ndarray:
        """Returns the places in the stream of this pipeline's n-th batch."""
        step, replica = self.step_and_replica(delivery)
        num_rows = self.num_rows(batch_size)
        first = step * batch_size + replica * num_rows
        return np.arange(first, first + num_rows)


class TrainingOrder:
    """Finds the example at a position of the endless training stream.

    The permutation of the current epoch is kept in memory: 4 bytes an example
    (0.4 GB for 100 million), and twice that where two epochs meet.
    """

    def __init__(self, num_records: int, seed: int) -> None:
        self._num_records = num_records
        self._lock = threading.Lock()
        self._permutation = functools.lru_cache(maxsize=2)(
            functools.partial(_permutation, num_records, seed)
        )

    def __call__(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the epoch and the example index at each position, int64."""
        epochs, offsets = np.divmod(positions, self._num_records)
        indices = np.empty_like(offsets)
        for epoch in np.unique(epochs):
            here = epochs == epoch
            # One thread at a time, or each would draw its own permutation.
            with self._lock:
                permutation = self._permutation(int(epoch))
            indices[here] = permutation[offsets[here]]
        return epochs, indices


def _permutation(num_records: int, seed: int, epoch: int) -> np.ndarray:
    numbers = np.arange(num_records, dtype=np.min_scalar_type(num_records))
    # The order of `permutation(num_records)`, in a third of its memory.
    keyed_rng(seed, epoch).shuffle(numbers)
    return numbers


def keyed_rng(seed: int, stream: int) -> np.random.Generator:
    """Returns a generator whose draws depend on these two numbers alone."""
    key = np.array([seed, stream], np.int64).view(np.uint64)
    return np.random.Generator(np.random.Philox(key=key))


def deliver(
    shard: InputShard,
    read: Callable[[int], Mapping[str, np.ndarray]],
    specs: Mapping[str, tf.TensorSpec],
    *,
    start_step: int = 0,
    end_step: int | None = None,
) -> tf.data.Dataset:
    """Returns the arrays that `read` makes for each delivery of a shard.

    `read` takes the number of a delivery and returns the arrays of `specs`.
    Steps from `start_step` to before `end_step` are delivered.
    """
    gate = _gate()

    def read_arrays(delivery: np.ndarray) -> list[np.ndarray]:
        _READING.add(threading.get_ident())
        try:
            arrays = read(int(delivery))
            return [arrays[name] for name in specs]
        finally:
            _READING.discard(threading.get_ident())

    def in_graph(delivery: tf.Tensor) -> dict[str, tf.Tensor]:
        # `tf.debugging.Assert` has a conditional, which takes longer than this.
        is_open = tf.raw_ops.Assert(
            condition=~gate.is_closed(), data=["The program ends."]
        )
        types = [spec.dtype for spec in specs.values()]
        with tf.control_dependencies([is_open]):
            tensors = tf.numpy_function(read_arrays, [delivery], types)
        return {
            name: tf.ensure_shape(tensor, spec.shape)
            for tensor, (name, spec) in zip(tensors, specs.items(), strict=True)
        }

    deliveries = tf.data.Dataset.range(
        start_step * shard.replicas_per_shard,
        tf.int64.max
        if end_step is None
        else end_step * shard.replicas_per_shard,
    )
    return deliveries.map(in_graph, num_parallel_calls=2, deterministic=True)


@functools.cache
def _gate() -> tf.queue.FIFOQueue:
    """Returns a queue that is closed before the interpreter ends.

    A thread of TensorFlow that calls Python while the interpreter ends never
    returns, and the end of its iterator waits for it: the process would hang
    or abort. So no thread calls Python after the gate is closed, whoever still
    holds an iterator.
    """
    with tf.init_scope(), tf.device("CPU:0"):
        gate = tf.queue.FIFOQueue(1, tf.int32)
    atexit.register(_stop_reading, gate)
    return gate


def _stop_reading(gate: tf.queue.FIFOQueue) -> None:
    gate.close()
    # A thread may be on its way into Python, or out of it.
    num_waits = 0
    while num_waits < _NUM_WAITS:
        time.sleep(_WAIT_SECONDS)
        num_waits = 0 if _READING else num_waits + 1


@contextlib.contextmanager
def failed_reads_raised() -> Iterator[None]:
    """Raises a ValueError of one line instead of TensorFlow's error.

    Use it where batches of `deliver` or `graph_reading.py` are taken.
    """
    try:
        yield
    except tf.errors.OpError as error:
        if failure := _FAILED_READ.search(error.message):
            raise ValueError(failure[1]) from error
        change = _CHANGED_FILE.search(error.message)
        is_missing = isinstance(error, tf.errors.NotFoundError)
        if change or (is_missing and "IteratorGetNext" in error.message):
            problem = change[0] if change else "no such file"
            raise ValueError(
                "A record file is missing, damaged, or was changed after it "
                f"was opened ({problem}). Pass --verify_records to find it, "
                "and build or copy it again."
            ) from error
        raise


def ahead(batches: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the batches, made ahead of time and kept in order."""
    options = tf.data.Options()
    options.deterministic = True
    # Batches are made in parallel, so each needs only one thread.
    options.threading.max_intra_op_parallelism = 1
    # The thread of autotuning doubles its sleep each time, and the end of an
    # iterator waits until it wakes up, which can double the time of evaluation.
    # Without autotuning, all cores make batches.
    options.autotune.enabled = False
    # Each pipeline already reads its own share.
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.OFF
    )
    return batches.prefetch(tf.data.AUTOTUNE).with_options(options)
