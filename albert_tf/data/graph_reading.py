"""Reads record files from beginning to end, by operations of a graph alone.

Data flow: record files -> [this file] -> serialized examples in batches.
`tf.data`. Letters: b rows of a replica's batch.

The hosts of a TPU run graphs, but no Python, and remote files are slow to read
record by record. So here the order of training is

1. the files in a random order, dealt to the hosts one by one;
2. on each host, `NUM_LANES` files at a time, of which each gives the next
   records to a pool of `POOL_SIZE` records;
3. the records of a pool in a random order.

Each order is a function of the seed, the epoch and the numbers of the files or
records, so a position in the stream of a host is found by counting: a run that
is resumed reads at most the beginning of one file in each lane again. A host
begins its next epoch when its own files are read, so epochs of hosts with
unequal files meet at different steps. `example_order.py` has the other order,
in which all records are shuffled, whatever their files.
"""

import dataclasses
import os
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.data import graph_masking
from albert_tf.data.example_order import InputShard
from albert_tf.data.record_source import RecordSource
from albert_tf.files import is_remote

# Files of a host that are read at the same time.
NUM_LANES = 16
# Records of a host that are shuffled together.
POOL_SIZE = 16_384

# Keeps the keys of orders apart from the keys of masks, which begin with 0.
_ROOT = 1
_FILE_STREAM, _RECORD_STREAM = range(2)
_READ_SIZE = 2**20


class _Files(NamedTuple):
    """Files of a source as tensors, or one of them."""

    paths: tf.Tensor
    counts: tf.Tensor
    first_numbers: tf.Tensor


@dataclasses.dataclass(frozen=True)
class _Order:
    """The order in which a host reads the records of an epoch."""

    files: _Files
    shard: InputShard
    seed: int

    @property
    def num_lanes(self) -> int:
        num_hosts, index = self.shard.num_input_shards, self.shard.shard_index
        num_files = len(self.files.paths)
        return min(NUM_LANES, len(range(index, num_files, num_hosts)))

    @property
    def lane_size(self) -> int:
        """Records that a lane gives to a pool."""
        return POOL_SIZE // self.num_lanes

    def key(self, epoch: tf.Tensor, stream: int) -> tf.Tensor:
        seed = tf.constant(self.seed, tf.int64)
        key = graph_masking.absorb(tf.constant(_ROOT, tf.uint64), seed)
        return graph_masking.absorb(graph_masking.absorb(key, epoch), stream)

    def lanes(self, epoch: tf.Tensor) -> list[_Files]:
        """Returns the files of each lane, in order."""
        key = self.key(epoch, _FILE_STREAM)
        order = _random_order(key, tf.range(len(self.files.paths)))
        host = order[self.shard.shard_index :: self.shard.num_input_shards]
        numbers = [host[n :: self.num_lanes] for n in range(self.num_lanes)]
        return [
            _Files(*(tf.gather(column, lane) for column in self.files))
            for lane in numbers
        ]

    def sizes(self, epoch: tf.Tensor) -> tf.Tensor:
        """Returns the number of records of each lane, int64."""
        lanes = self.lanes(epoch)
        return tf.stack([tf.reduce_sum(lane.counts) for lane in lanes])


def training_examples(
    source: RecordSource,
    shard: InputShard,
    *,
    batch_size: int,
    seed: int,
    start_example: int = 0,
) -> tf.data.Dataset:
    """Returns the endless examples of a host, the shard, from a place on.

    The order depends on the number of hosts. `start_example` is the number of
    examples that all hosts together have read before; for other arguments, see
    `input_pipeline.training_dataset`. The dataset has dicts of `records`
    string, `epochs` and `indices` int64, all `[b]`: the batches of the host's
    replicas in turn, step by step.
    """
    num_files, num_hosts = len(source.counts), shard.num_input_shards
    if num_files < num_hosts:
        raise ValueError(
            "Each host reads files of its own, so there must be at least "
            f"{num_hosts} record files. Received: {num_files}. Build the "
            "records as more files."
        )
    with tf.init_scope():
        order = _Order(_as_tensors(source), shard, seed)
        position = start_example // num_hosts
        first_epoch, first_pool, num_skipped = _find(order, position)

    def read_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
        pool = tf.where(epoch == first_epoch, first_pool, 0)
        return _read_epoch(order, epoch, tf.cast(pool, tf.int64))

    epochs = tf.data.Dataset.range(first_epoch, tf.int64.max)
    examples = epochs.flat_map(_not_converted(read_epoch)).skip(num_skipped)
    return examples.batch(shard.num_rows(batch_size), drop_remainder=True)


def evaluation_examples(
    source: RecordSource, shard: InputShard, *, batch_size: int, num_steps: int
) -> tf.data.Dataset:
    """Returns the examples of some steps, in the order of the files.

    After the last record, they begin again, as epoch 1. Each host reads all
    files and keeps its part of each step. For arguments and the result, see
    `training_examples`.
    """
    num_rows = shard.num_rows(batch_size)
    rows_of_host = num_rows * shard.replicas_per_shard

    def named(
        positions: tf.Tensor, examples: tuple[tf.Tensor, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        records, indices = examples
        epochs = positions // source.num_records
        return {"records": records, "epochs": epochs, "indices": indices}

    return (
        tf.data.Dataset.from_tensor_slices(_as_tensors(source))
        .flat_map(_not_converted(_read))
        .repeat()
        .enumerate()
        .take(num_steps * batch_size)
        .batch(rows_of_host, drop_remainder=True)
        .shard(shard.num_input_shards, shard.shard_index)
        .rebatch(num_rows, drop_remainder=True)
        .map(_not_converted(named))
    )


def _as_tensors(source: RecordSource) -> _Files:
    # Other hosts do not know the working directory.
    paths = [
        shard.path if is_remote(shard.path) else os.path.abspath(shard.path)
        for shard in source.shards
    ]
    return _Files(
        tf.constant(paths),
        tf.constant(source.counts, tf.int64),
        tf.constant(source.first_numbers, tf.int64),
    )


def _find(order: _Order, position: int) -> tuple[int, int, int]:
    """Returns a position's epoch, pool, and how many records it skips there."""
    epoch = 0
    while True:
        sizes = order.sizes(tf.constant(epoch, tf.int64)).numpy()
        if position < sizes.sum():
            break
        position -= int(sizes.sum())
        epoch += 1
    pools = np.arange(-(-sizes.max() // order.lane_size) + 1)
    read = np.minimum(sizes[:, None], pools * order.lane_size).sum(axis=0)
    pool = int(np.searchsorted(read, position, side="right")) - 1
    return epoch, pool, position - int(read[pool])


def _read_epoch(
    order: _Order, epoch: tf.Tensor, first_pool: tf.Tensor
) -> tf.data.Dataset:
    """Returns the examples of an epoch from a pool on, one by one."""
    size = order.lane_size
    # Lanes that have ended give batches without a record.
    empty = tf.zeros([0], tf.string), tf.zeros([0], tf.int64)
    nothing = tf.data.Dataset.from_tensors(empty).repeat()
    lanes = tuple(
        _read_lane(lane, num_skipped=first_pool * size)
        .batch(size)
        .prefetch(1)
        .concatenate(nothing)
        for lane in order.lanes(epoch)
    )
    num_pools = -(-tf.reduce_max(order.sizes(epoch)) // size)
    key = order.key(epoch, _RECORD_STREAM)

    def shuffle(*parts: tuple[tf.Tensor, tf.Tensor]) -> tf.data.Dataset:
        records = tf.concat([part[0] for part in parts], 0)
        numbers = tf.concat([part[1] for part in parts], 0)
        order_of_pool = _random_order(key, numbers)
        return tf.data.Dataset.from_tensor_slices(
            {
                "records": tf.gather(records, order_of_pool),
                "epochs": tf.fill(tf.shape(numbers), epoch),
                "indices": tf.gather(numbers, order_of_pool),
            }
        )

    pools = tf.data.Dataset.zip(lanes).take(num_pools - first_pool)
    return pools.flat_map(_not_converted(shuffle))


def _read_lane(lane: _Files, *, num_skipped: tf.Tensor) -> tf.data.Dataset:
    """Returns records and their numbers, of files one after the other."""
    ends = tf.cumsum(lane.counts)
    is_skipped = ends <= num_skipped
    num_files = tf.math.count_nonzero(is_skipped)
    before = tf.reduce_max(tf.where(is_skipped, ends, 0))
    left = tf.data.Dataset.from_tensor_slices(lane).skip(num_files)
    return left.flat_map(_not_converted(_read)).skip(num_skipped - before)


def _read(file: _Files) -> tf.data.Dataset:
    """Returns the records of a file and their numbers in the source."""
    records = tf.data.TFRecordDataset(file.paths, buffer_size=_READ_SIZE).apply(
        tf.data.experimental.assert_cardinality(file.counts)
    )
    numbers = tf.data.Dataset.range(file.first_numbers, tf.int64.max)
    return tf.data.Dataset.zip(records, numbers)


def _random_order(key: tf.Tensor, numbers: tf.Tensor) -> tf.Tensor:
    """Returns int32 places of the numbers, in a random order of them."""
    bits = graph_masking.absorb(key, numbers)
    # Without the lowest bit they fit into int64.
    priorities = tf.bitwise.right_shift(bits, tf.constant(1, tf.uint64))
    return tf.argsort(tf.cast(priorities, tf.int64), stable=True)


# AutoGraph finds nothing to convert, in seconds.
_not_converted = tf.autograph.experimental.do_not_convert
