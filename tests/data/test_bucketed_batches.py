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
