import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import example_order
from albert_tf.data.example_order import InputShard


@pytest.mark.parametrize("num_records", [1, 2, 255, 256, 65_536, 70_000])
def test_the_order_is_the_permutation_of_the_seed_and_epoch(num_records):
    _, indices = example_order.TrainingOrder(num_records, seed=5)(
        np.arange(num_records, 2 * num_records)
    )

    generator = example_order.keyed_rng(5, 1)
    np.testing.assert_array_equal(indices, generator.permutation(num_records))


def test_shards_and_replicas_divide_each_step_in_order():
    # 2 shards x 3 replicas x 2 rows; step 4 begins at place 48.
    for index, replica in itertools.product(range(2), range(3)):
        shard = InputShard(
            num_input_shards=2, shard_index=index, replicas_per_shard=3
        )

        positions = shard.positions(4 * 3 + replica, 12)

        first = 48 + 6 * index + 2 * replica
        assert positions.tolist() == [first, first + 1]


def _failing(error):
    def read(delivery):
        if delivery == 2:
            raise error
        return {"names": np.array([b"x"], object), "values": np.zeros([1, 2])}

    specs = {
        "names": tf.TensorSpec([1], tf.string),
        "values": tf.TensorSpec([1, None], tf.float64),
    }
    return example_order.ahead(
        example_order.deliver(InputShard(), read, specs, end_step=4)
    )


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("'a b' is damaged."), "'a b' is damaged."),
        (ValueError("Ü\t[\"\\n]\n'é"), "Ü\t[\"\\n]\n'é"),
        (FileNotFoundError(2, "None", "é"), "[Errno 2] None: 'é'"),
    ],
)
def test_a_failed_read_raises_its_own_message(error, message):
    taken = []
    with (
        pytest.raises(ValueError) as raised,
        example_order.failed_reads_raised(),
    ):
        for batch in _failing(error):
            taken.append(batch)

    assert str(raised.value) == message
    assert len(taken) == 2


def test_other_errors_stay_as_they_are():
    with (
        pytest.raises(tf.errors.InvalidArgumentError, match="reshape"),
        example_order.failed_reads_raised(),
    ):
        tf.reshape(tf.zeros([3]), [2])
    take = tf.function(lambda batches: [next(batches) for _ in range(3)])
    with (
        pytest.raises(tf.errors.OpError, match="KeyError: 'fault'"),
        example_order.failed_reads_raised(),
    ):
        take(iter(_failing(KeyError("fault"))))


def test_no_thread_tunes_the_pipeline():
    # It sleeps twice as long each time, and the end of an iterator waits for
    # it: a second after three seconds of batches.
    batches = example_order.ahead(tf.data.Dataset.range(3))

    assert batches.options().autotune.enabled is False
