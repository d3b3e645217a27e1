"""Outputs come back in the order of the records, however many replicas."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import record_columns
from albert_tf.data.bucketed_batches import Padding
from albert_tf.training import prediction

S = 16


@pytest.fixture
def columns(word_data, sentences):
    data = word_data()
    return record_columns.collect(
        data.records(sentences(13), is_training=False),
        data.array_specs,
        max_seq_length=S,
    )


@pytest.fixture
def outputs(columns, word_task, tiny_config):
    """A function of the strategy and the width of a bucket."""

    def run(strategy=None, bucket_width=4):
        strategy = strategy or tf.distribute.get_strategy()
        with strategy.scope():
            task = word_task(tiny_config(), seed=3, dtype="float32")
        predictor = prediction.Predictor(
            task,
            strategy,
            Padding(max_seq_length=S, bucket_width=bucket_width),
        )
        return task, predictor.run(columns, batch_size=4)

    return run


def test_outputs_are_those_of_each_record_alone(outputs, columns):
    task, found = outputs()

    assert found["logits"].shape == (13, 2)
    for index, length in enumerate(columns.lengths):
        alone = task.outputs(columns.padded([index], int(length)))
        np.testing.assert_allclose(
            found["logits"][index], alone["logits"][0], atol=1e-5
        )
        np.testing.assert_array_equal(
            found["piece_sums"][index], alone["piece_sums"][0]
        )


@pytest.mark.parametrize("bucket_width", [4, S])
def test_replicas_give_the_outputs_of_one(bucket_width, outputs, two_replicas):
    _, one = outputs()
    _, two = outputs(two_replicas, bucket_width)

    np.testing.assert_allclose(one["logits"], two["logits"], atol=1e-5)
    for ours, theirs in zip(one["piece_sums"], two["piece_sums"], strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_rows_of_other_workers_are_gathered_in_order(two_replicas):
    def replica_rows():
        context = tf.distribute.get_replica_context()
        number = tf.cast(context.replica_id_in_sync_group, tf.float32)
        return prediction._from_all(number * 10 + [[1.0, 2.0], [3.0, 4.0]])

    rows = tf.function(lambda: two_replicas.run(replica_rows))()

    for part in two_replicas.experimental_local_results(rows):
        assert part.numpy().tolist() == [[1, 2], [3, 4], [11, 12], [13, 14]]
