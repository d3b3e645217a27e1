import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import (
    bucketed_batches,
    input_pipeline,
    record_columns,
    record_source,
)
from albert_tf.data.bucketed_batches import BucketedOrder
from albert_tf.data.example_order import InputShard
from albert_tf.data.record_columns import Padding
from albert_tf.features import ArraySpec
from tests.data.records import (
    assert_equal,
    dynamic_record,
    pair,
    static_record,
)

_NUM_RECORDS = 10
_ALONE = InputShard()
_HALVES = [
    InputShard(num_input_shards=2, shard_index=index, replicas_per_shard=3)
    for index in range(2)
]


@pytest.fixture
def static_source(write_records):
    records = [static_record(50 + n) for n in range(_NUM_RECORDS)]
    return record_source.open_records(
        [
            write_records("a.tf_record", records[:7]),
            write_records("b.tf_record", records[7:]),
        ]
    )


@pytest.fixture
def dynamic_source(write_records):
    records = [dynamic_record(50 + n) for n in range(_NUM_RECORDS)]
    return record_source.open_records(
        write_records("a.tf_record", records, masking="dynamic", ngram=1)
    )


def _training(source, count, shard=_ALONE, **arguments):
    arguments = {"global_batch_size": 4, "seed": 7} | arguments
    dataset = input_pipeline.training_dataset(source, shard, **arguments)
    return list(itertools.islice(dataset.as_numpy_iterator(), count))


def _evaluation(source, shard=_ALONE, **arguments):
    dataset = input_pipeline.evaluation_dataset(source, shard, **arguments)
    return list(dataset.as_numpy_iterator())


def _numbers(batches):
    """Which records the rows of static batches are."""
    return [(b["input_ids"][:, 1] - 50).tolist() for b in batches]


def test_a_static_batch_holds_what_the_records_hold(static_source):
    (batch,) = _training(static_source, 1)

    number = batch["input_ids"][:, 1]
    for name, row in {
        "input_mask": [1, 1, 1, 1, 1, 1, 0, 0],
        "segment_ids": [0, 0, 0, 0, 1, 1, 0, 0],
        "masked_lm_positions": [2, 0],
        "masked_lm_ids": [7, 0],
        "masked_lm_weights": [1.0, 0.0],
    }.items():
        assert batch[name].tolist() == [row] * 4
    assert batch["sentence_order_labels"].tolist() == (number % 2).tolist()
    for row, own in zip(batch["input_ids"], number, strict=True):
        assert row.tolist() == [2, own, 4, 3, 6, 3, 0, 0]


@pytest.mark.parametrize("kind", ["static_source", "dynamic_source"])
def test_shapes_are_known_before_anything_is_read(kind, request):
    source = request.getfixturevalue(kind)
    training = input_pipeline.training_dataset(
        source, InputShard(replicas_per_shard=4), global_batch_size=12, seed=0
    )
    evaluation = input_pipeline.evaluation_dataset(source, _ALONE, batch_size=3)

    wide = tf.TensorSpec([3, 8], tf.int32)
    slots = tf.TensorSpec([3, 2], tf.int32)
    expected = {
        "input_ids": wide,
        "input_mask": wide,
        "segment_ids": wide,
        "masked_lm_positions": slots,
        "masked_lm_ids": slots,
        "masked_lm_weights": tf.TensorSpec([3, 2], tf.float32),
        "sentence_order_labels": tf.TensorSpec([3], tf.int32),
    }
    weights = {"example_weights": tf.TensorSpec([3], tf.float32)}
    assert training.element_spec == expected
    assert evaluation.element_spec == expected | weights


@pytest.fixture(params=["static_source", "dynamic_source", "bucketed"])
def train(request):
    """A function that takes batches of 12 from a pipeline of each kind."""
    if request.param != "bucketed":
        source = request.getfixturevalue(request.param)

        def plain(count, shard=_ALONE, start_step=0):
            return _training(
                source,
                count,
                shard,
                global_batch_size=12,
                start_example=12 * start_step,
            )

        return plain
    records = [{"ids": np.arange(length)} for length in range(1, 60)]
    specs = (ArraySpec(name="ids", dtype="int32", is_sequence=True),)
    columns = record_columns.collect(records, specs, max_seq_length=60)

    def bucketed(count, shard=_ALONE, start_step=0):
        dataset = bucketed_batches.training_dataset(
            columns,
            BucketedOrder(columns.lengths, batch_size=12, seed=7),
            shard,
            padding=Padding(max_seq_length=60, bucket_width=16),
            start_step=start_step,
        )
        return list(dataset.take(count).as_numpy_iterator())

    return bucketed


def test_runs_that_start_at_a_step_or_in_parts_get_what_a_whole_one_gets(train):
    whole = train(6)
    resumed = train(4, start_step=2)
    shards = [train(4 * 3, half, start_step=2) for half in _HALVES]

    joined = [
        {
            name: np.concatenate(
                [part[name] for shard in shards for part in shard[i : i + 3]]
            )
            for name in resumed[0]
        }
        for i in range(0, 12, 3)
    ]
    assert_equal(resumed, whole[2:])
    assert_equal(resumed, joined)


@pytest.mark.parametrize("kind", ["static_source", "dynamic_source"])
def test_sequences_share_the_rows_of_their_part(kind, request):
    source = request.getfixturevalue(kind)

    alone = _training(source, 3)
    packed = _training(source, 3, num_packed=2)

    for batch in packed:
        places = batch.pop("packed_at").reshape((2, 2))
        assert (places.min(axis=1) == 0).all()
        # Two of a part share a row only if both fit.
        row_length = batch["input_ids"].shape[1]
        lengths = batch["input_mask"].sum(axis=1).reshape((2, 2))
        for sizes, first in zip(lengths, places, strict=True):
            share = sizes.sum() <= row_length
            assert first.max() == (sizes.max() if share else row_length)
    assert_equal(packed, alone)


def test_dynamic_masks_differ_by_epoch_and_by_seed(write_records):
    record = pair(list(range(10, 60)), size_a=25)
    sizes = {"max_seq_length": 64, "max_predictions_per_seq": 8}
    path = write_records("a", [record], masking="dynamic", ngram=1, **sizes)
    source = record_source.open_records(path)

    first = _training(source, 20, global_batch_size=1)
    other = _training(source, 20, global_batch_size=1, seed=8)

    def distinct(batches):
        return {tuple(b["masked_lm_ids"][0].tolist()) for b in batches}

    assert len(distinct(first)) > 15
    assert len(distinct(first + other)) > 30
    assert {int(b["sentence_order_labels"][0]) for b in first} == {0, 1}


def test_evaluation_reads_every_record_once_and_fills_the_last_batch(
    static_source,
):
    batches = _evaluation(static_source, batch_size=4)

    assert _numbers(batches) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1]]
    weights = [batch["example_weights"].tolist() for batch in batches]
    assert weights == [[1] * 4, [1] * 4, [1, 1, 0, 0]]
    masked = batches[-1]["masked_lm_weights"]
    assert masked.tolist() == [[1, 0], [1, 0], [0, 0], [0, 0]]


def test_evaluation_of_dynamic_records_can_be_repeated(dynamic_source):
    def evaluate(batch_size):
        batches = _evaluation(dynamic_source, batch_size=batch_size)
        return {
            name: np.concatenate([batch[name] for batch in batches])[:10]
            for name in batches[0]
        }

    assert_equal([evaluate(4)], [evaluate(5)])
