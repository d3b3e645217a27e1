import numpy as np
import tensorflow as tf
from scipy import stats

from albert_tf.data import counter_random

# SplitMix64 started at 1234567, as published with the reference C code.
_SPLITMIX_OF_1234567 = [
    6457827717110365317,
    3203168211198807973,
    9817491932198370423,
    4593380528125082431,
    16408922859458223821,
]


def _bits(seed=3, num_rows=400, num_counters=500, stream=0):
    indices = tf.range(num_rows, dtype=tf.int64)
    keys = counter_random.example_keys(seed, tf.zeros_like(indices), indices)
    streams = counter_random.absorb(keys, stream)[:, None]
    return counter_random.absorb(streams, tf.range(num_counters)[None])


def test_absorbing_counters_gives_the_published_splitmix64_outputs():
    key = tf.constant(1234567, tf.uint64)

    outputs = counter_random.absorb(key, tf.range(5))

    assert outputs.numpy().tolist() == _SPLITMIX_OF_1234567


def test_draws_are_uniform():
    values = counter_random.uniform(_bits()).numpy()

    counts, _ = np.histogram(values, bins=64, range=(0, 1))
    assert values.min() >= 0
    assert values.max() < 1
    assert stats.chisquare(counts).pvalue > 1e-3


def test_every_bit_is_set_half_the_time():
    bits = _bits().numpy().reshape(-1)

    for place in range(64):
        ones = int(((bits >> np.uint64(place)) & np.uint64(1)).sum())
        assert stats.binomtest(ones, bits.size).pvalue > 1e-5


def _joint_pvalue(first, second, bins=16):
    table, _, _ = np.histogram2d(
        first.reshape(-1), second.reshape(-1), bins=bins, range=[[0, 1]] * 2
    )
    return stats.chisquare(table.reshape(-1)).pvalue


def test_neighbouring_rows_counters_streams_and_seeds_are_independent():
    values = counter_random.uniform(_bits()).numpy()
    other_stream = counter_random.uniform(_bits(stream=1)).numpy()
    other_seed = counter_random.uniform(_bits(seed=4)).numpy()

    assert _joint_pvalue(values[:-1], values[1:]) > 1e-3
    assert _joint_pvalue(values[:, :-1], values[:, 1:]) > 1e-3
    assert _joint_pvalue(values, other_stream) > 1e-3
    assert _joint_pvalue(values, other_seed) > 1e-3


def test_epoch_and_index_do_not_stand_in_for_each_other():
    grid = tf.range(300, dtype=tf.int64)
    epochs, indices = tf.meshgrid(grid, grid)

    keys = counter_random.example_keys(
        7, tf.reshape(epochs, [-1]), tf.reshape(indices, [-1])
    )

    assert len(set(keys.numpy().tolist())) == 300 * 300
