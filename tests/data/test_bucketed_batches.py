"""Batches of like lengths: every record its due, in a known order."""

import dataclasses
import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import bucketed_batches, example_order, record_columns
from albert_tf.data.bucketed_batches import BucketedOrder
from albert_tf.data.example_order import InputShard
from albert_tf.data.record_columns import Padding
from albert_tf.features import ArraySpec

S = 50
SPECS = (
    ArraySpec(name="ids", dtype="int32", is_sequence=True),
    ArraySpec(name="label", dtype="int32"),
)
ALONE = InputShard()
PADDING = Padding(max_seq_length=S, bucket_width=16)
LENGTHS = np.random.default_rng(0).integers(1, S + 1, 100).astype(np.int32)


@pytest.fixture(scope="module")
def columns():
    records = (
        {"ids": np.full(length, index), "label": np.array(index)}
        for index, length in enumerate(LENGTHS)
    )
    return record_columns.collect(records, SPECS, max_seq_length=S)


def make_order(batch_size=4, seed=7, lengths=LENGTHS):
    return BucketedOrder(lengths, batch_size=batch_size, seed=seed)


def training(columns, padding=PADDING):
    return bucketed_batches.training_dataset(
        columns, make_order(), ALONE, padding=padding
    )


def test_lengths_without_a_bucket_width_waste_a_sixteenth_at_most():
    padding = Padding(max_seq_length=500, bucket_width=None)

    lengths = [padding.length(longest) for longest in range(1, 501)]

    assert lengths[:34] == [*range(1, 32), 32, 34, 34]
    for longest, length in enumerate(lengths, start=1):
        assert longest <= length <= min(longest * 17 / 16, 500)
    assert len(set(lengths)) == 31 + 16 + 16 + 48
    assert padding.static_length is None


def test_a_pool_takes_the_examples_of_the_stream_each_once():
    order = make_order()
    size = order.pool_size

    assert size == 100 // 4
    for pool in range(3):
        steps = range(pool * size, (pool + 1) * size)
        taken = np.concatenate([order.batch(step) for step in steps])
        places = np.arange(pool * size * 4, (pool + 1) * size * 4)
        _, wanted = example_order.TrainingOrder(100, 7)(places)
        assert sorted(taken) == sorted(wanted)


def test_batches_have_like_lengths_in_a_random_order():
    order = make_order()
    size = order.pool_size

    spans = [np.ptp(LENGTHS[order.batch(step)]) for step in range(size)]
    longest = [LENGTHS[order.batch(step)].max() for step in range(size)]

    assert np.mean(spans) < 3
    assert longest != sorted(longest)
    assert longest != sorted(longest, reverse=True)


def test_pools_have_a_limit_and_may_repeat_records():
    assert make_order(batch_size=1).pool_size == bucketed_batches.POOL_SIZE
    assert set(make_order(lengths=LENGTHS[:3]).batch(0)) == {0, 1, 2}


def test_a_training_batch_is_as_long_as_its_longest_record(columns):
    order = make_order()
    dataset = training(columns)

    for step, batch in enumerate(dataset.take(40)):
        indices = order.batch(step)
        longest = LENGTHS[indices].max()
        assert batch["label"].numpy().tolist() == indices.tolist()
        assert batch["ids"].shape == (4, min(-(-longest // 16) * 16, S))
        assert batch["example_weights"].numpy().tolist() == [1.0] * 4
    assert dataset.element_spec["ids"] == tf.TensorSpec([4, None], tf.int32)


def test_batches_of_one_length_have_a_static_shape(columns):
    padding = Padding(max_seq_length=S, bucket_width=S)

    dataset = training(columns, padding=padding)
    assert dataset.element_spec["ids"].shape == (4, S)
    plan = record_columns.plan_evaluation(
        LENGTHS, batch_size=6, padding=padding
    )
    dataset = bucketed_batches.evaluation_dataset(
        columns, plan, ALONE, padding=padding
    )
    assert dataset.element_spec["ids"].shape == (6, S)


@pytest.mark.parametrize("num_replicas", [1, 2])
def test_an_evaluation_has_every_record_once_within_its_budget(
    num_replicas, columns
):
    plan = record_columns.plan_evaluation(
        LENGTHS, batch_size=4, padding=PADDING, num_replicas=num_replicas
    )

    indices = np.concatenate([batch.indices for batch in plan])
    assert sorted(indices) == list(range(100))
    for batch in plan:
        assert batch.num_rows * batch.length <= 4 * S
        assert batch.num_rows % num_replicas == 0
        assert len(batch.indices) <= batch.num_rows
        assert LENGTHS[batch.indices].max() <= batch.length
    assert len(plan) < 25  # what batches of 4 would need
    # Only as many rows as are needed.
    for batch in plan:
        assert batch.num_rows - len(batch.indices) < num_replicas

    dataset = bucketed_batches.evaluation_dataset(
        columns,
        plan,
        InputShard(replicas_per_shard=num_replicas),
        padding=PADDING,
    )
    labels, weights = zip(
        *((b["label"].numpy(), b["example_weights"].numpy()) for b in dataset),
        strict=True,
    )
    is_real = np.concatenate(weights) == 1
    assert np.concatenate(labels)[is_real].tolist() == indices.tolist()
    assert set(np.concatenate(weights)) <= {0.0, 1.0}


def test_a_batch_of_an_evaluation_ends_where_shorter_records_begin():
    lengths = np.array([3] * 5 + [40] * 3 + [20] * 13)

    plan = record_columns.plan_evaluation(
        lengths, batch_size=8, padding=PADDING
    )

    # A batch of the last one of 20 alone would be too small.
    assert [(b.num_rows, b.length) for b in plan] == [
        (3, 48),
        (12, 32),
        (3, 32),
        (3, 16),
    ]


def test_compiled_batches_of_a_length_have_the_same_number_of_rows():
    plan = record_columns.plan_evaluation(
        LENGTHS[:90],
        batch_size=4,
        padding=dataclasses.replace(PADDING, is_compiled=True),
    )

    *others, last = plan
    assert len({(b.num_rows, b.length) for b in others}) <= 4
    assert last.num_rows == 1 << (len(last.indices) - 1).bit_length()
    one = record_columns.plan_evaluation(
        LENGTHS[:1],
        batch_size=4,
        padding=dataclasses.replace(PADDING, is_compiled=True),
    )
    assert [batch.num_rows for batch in one] == [1]


def test_the_records_of_an_evaluation_are_not_kept(columns):
    columns = dataclasses.replace(columns)
    plan = record_columns.plan_evaluation(
        LENGTHS, batch_size=2, padding=PADDING
    )
    dataset = bucketed_batches.evaluation_dataset(
        columns, plan, ALONE, padding=PADDING
    )
    assert len(list(dataset)) == len(plan)
    kept = weakref.ref(columns), weakref.ref(plan)

    del columns, plan
    gc.collect()

    # Long predictions would fill the memory.
    assert [ref() for ref in kept] == [None, None]
    with pytest.raises(tf.errors.UnknownError, match="no longer exists"):
        list(dataset)


COLUMN_SPECS = (
    ArraySpec(name="ids", dtype="int32", is_sequence=True),
    ArraySpec(name="choices", dtype="int32", shape=(2,), is_sequence=True),
    ArraySpec(name="free", dtype="float32", is_sequence=True, pad_value=1),
    ArraySpec(name="label", dtype="int32"),
    ArraySpec(name="scores", dtype="float32", shape=(3,)),
)


def make_records(number=5, seed=0, largest=70_000):
    rng = np.random.default_rng(seed)
    for _ in range(number):
        length = int(rng.integers(1, 8))
        yield {
            "ids": rng.integers(0, 200, length),
            "choices": rng.integers(-3, largest, (2, length)),
            "free": rng.integers(0, 2, length).astype(np.float32),
            "label": np.array(rng.integers(0, 1000)),
            "scores": rng.normal(size=3).astype(np.float32),
        }


def collect(records, specs=COLUMN_SPECS, max_seq_length=7):
    return record_columns.collect(records, specs, max_seq_length=max_seq_length)


@pytest.mark.parametrize("chunk_size", [2, 1024])
def test_a_batch_holds_the_records_and_their_padding(chunk_size, monkeypatch):
    monkeypatch.setattr(record_columns, "_CHUNK_SIZE", chunk_size)
    records = list(make_records())
    columns = collect(records)

    batch = columns.padded([3, 0], 8)

    assert columns.num_records == 5
    for row, index in enumerate([3, 0]):
        record = records[index]
        length = len(record["ids"])
        assert columns.lengths[index] == length
        for spec in COLUMN_SPECS:
            found = batch[spec.name][row]
            wanted = record[spec.name]
            assert found.dtype == spec.dtype
            if spec.is_sequence:
                assert found.shape == (*spec.shape, 8)
                assert (found[..., length:] == spec.pad_value).all()
                found = found[..., :length]
            np.testing.assert_array_equal(found, wanted)


def test_the_digest_is_that_of_all_values():
    digests = {
        collect(records).digest
        for records in (
            make_records(),
            make_records(),
            make_records(4),
            make_records(seed=1),
        )
    }

    assert len(digests) == 3
