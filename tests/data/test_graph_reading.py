"""Reading by operations of a graph: all records, any place, several hosts."""

import itertools
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import (
    example_order,
    graph_reading,
    input_pipeline,
    record_source,
)
from albert_tf.data.example_order import InputShard
from tests.data.records import assert_equal, dynamic_record

# Numbers of records of files: of one, of a few, of more than a pool.
_COUNTS = (1, 5, 3, 17, 2, 9, 7)
_NUM_RECORDS = sum(_COUNTS)
_ALONE = InputShard()
_HOSTS = [InputShard(num_input_shards=3, shard_index=host) for host in range(3)]


@pytest.fixture(autouse=True)
def small_pools(monkeypatch):
    monkeypatch.setattr(graph_reading, "NUM_LANES", 3)
    monkeypatch.setattr(graph_reading, "POOL_SIZE", 12)


@pytest.fixture
def source(write_records):
    """Dynamic records of several files."""
    numbers = iter(range(_NUM_RECORDS))
    paths = [
        write_records(
            f"{name}.tf_record",
            [
                dynamic_record(5 + number)
                for number in itertools.islice(numbers, count)
            ],
            masking="dynamic",
            ngram=1,
        )
        for name, count in zip("abcdefg", _COUNTS, strict=True)
    ]
    return record_source.open_records(paths)


def examples(source, count, shard=_ALONE, start=0, seed=7, rows=2):
    """Returns the numbers and epochs of so many steps of one host."""
    dataset = graph_reading.training_examples(
        source,
        shard,
        batch_size=rows * shard.num_input_shards,
        seed=seed,
        start_example=start,
    )
    read = list(dataset.take(count).as_numpy_iterator())
    for step in read:
        assert step["records"].tolist() == source.get(step["indices"])
    return [
        np.concatenate([step[name] for step in read]).tolist()
        for name in ("indices", "epochs")
    ]


def of_epoch(read, wanted):
    return [n for n, epoch in zip(*read, strict=True) if epoch == wanted]


def batches(source, count, shard=_ALONE, **arguments):
    defaults = {"global_batch_size": 6, "seed": 7, "by_files": True}
    arguments = defaults | arguments
    dataset = input_pipeline.training_dataset(source, shard, **arguments)
    return list(dataset.take(count).as_numpy_iterator())


def test_an_epoch_has_every_record_once(source):
    read = examples(source, 3 * _NUM_RECORDS)

    epochs = [of_epoch(read, epoch) for epoch in range(6)]
    for epoch in epochs:
        assert sorted(epoch) == list(range(_NUM_RECORDS))
    assert len({tuple(epoch) for epoch in epochs}) == 6
    assert examples(source, 20, seed=8) != examples(source, 20)


def test_a_pool_has_records_of_several_files_in_random_order(source):
    pool = examples(source, 6)[0]

    starts = source.first_numbers
    files = np.searchsorted(starts, pool, side="right")
    assert len(set(files)) >= 3
    assert pool != sorted(pool)
    assert files.tolist() != sorted(files)


@pytest.mark.parametrize("shard", [_ALONE, _HOSTS[1]])
def test_a_resumed_stream_is_that_of_an_unbroken_one(source, shard):
    hosts = shard.num_input_shards
    whole = examples(source, 4 * _NUM_RECORDS, shard, rows=1)

    for place in (37, 2 * _NUM_RECORDS + 5):
        resumed = examples(source, 9, shard, start=place * hosts, rows=1)
        assert resumed == [values[place : place + 9] for values in whole]


def test_hosts_read_files_of_their_own(source):
    streams = [examples(source, 2 * _NUM_RECORDS, host) for host in _HOSTS]
    for epoch in range(3):
        parts = [of_epoch(stream, epoch) for stream in streams]
        assert sorted(sum(parts, [])) == list(range(_NUM_RECORDS))
        files = [
            set(np.searchsorted(source.first_numbers, part, "right"))
            for part in parts
        ]
        assert not set.intersection(*files)
        assert sum(map(len, files)) == len(_COUNTS)


def test_an_example_has_the_masks_of_the_other_order(source):
    def rows(by_files, keys):
        read = batches(
            source, _NUM_RECORDS // 2, global_batch_size=4, by_files=by_files
        )
        joined = [
            dict(zip(read[0], row, strict=True))
            for batch in read
            for row in zip(*batch.values(), strict=True)
        ]
        return dict(zip(keys, joined, strict=True))

    order = example_order.TrainingOrder(source.num_records, seed=7)
    epochs, numbers = order(np.arange(2 * _NUM_RECORDS))
    random = rows(False, zip(numbers.tolist(), epochs.tolist(), strict=True))
    read = examples(source, _NUM_RECORDS)
    in_files = rows(True, zip(*read, strict=True))

    assert list(random) != list(in_files)
    assert_equal(
        [random[key] for key in sorted(random)],
        [in_files[key] for key in sorted(in_files)],
    )


@pytest.mark.parametrize(
    ("shard", "max_steps"),
    [(InputShard(replicas_per_shard=2), None), (_HOSTS[1], 2)],
)
def test_evaluations_are_the_same(source, shard, max_steps):
    def evaluate(by_files):
        dataset = input_pipeline.evaluation_dataset(
            source, shard, batch_size=18, max_steps=max_steps, by_files=by_files
        )
        return list(dataset.as_numpy_iterator())

    assert_equal(evaluate(True), evaluate(False))


@pytest.mark.parametrize("by_files", [True, False])
def test_no_operation_calls_python(by_files, source):
    shard = InputShard(num_input_shards=2, replicas_per_shard=2)
    training = input_pipeline.training_dataset(
        source, shard, global_batch_size=4, seed=0, by_files=by_files
    )
    evaluation = input_pipeline.evaluation_dataset(
        source, shard, batch_size=4, by_files=by_files
    )

    for dataset in (training, evaluation):
        graph = tf.raw_ops.DatasetToGraphV2(
            input_dataset=dataset._variant_tensor, external_state_policy=1
        ).numpy()
        assert (b"PyFunc" in graph) != by_files
        assert (b"TFRecordDataset" in graph) == by_files


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:40] + b"?" + data[41:], "corrupted record"),
        (lambda data: data[: len(data) // 2], "truncated record"),
        (
            lambda data: data + data,
            "Input dataset .* contain 5 elements but contained at",
        ),
        (lambda data: b"", "Input .* 5 elements but contained only 0"),
        (None, ".*b.tf_record; No such file"),
    ],
    ids=["damaged", "short", "long", "empty", "missing"],
)
def test_files_that_were_changed_are_an_error(change, message, source):
    path = pathlib.Path(source.shards[1].path)
    if change:
        path.write_bytes(change(path.read_bytes()))
    else:
        path.unlink()

    with (
        pytest.raises(ValueError, match=f"opened .{message}.* Pass --ver"),
        example_order.failed_reads_raised(),
    ):
        batches(source, _NUM_RECORDS)
