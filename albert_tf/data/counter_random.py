"""Random numbers by key and counter: no state, the same at any batch size.

A draw is a pure function of its key, so what one example gets depends on
nothing around it. Keys are 64 bits; `absorb` folds a number into one, and a
draw is the key with a counter folded in:

    key = example_keys(seed, epochs, indices)              # [b]
    bits = absorb(absorb(key, STREAM)[:, None], counters)  # [b, n]

Floor: data. TensorFlow integer arithmetic, which wraps modulo 2**64.

Source: Steele, Lea and Flood 2014, "Fast splittable pseudorandom number
generators": `absorb(key, c)` is output c of their SplitMix64 started at `key`.
"""

import tensorflow as tf

# Steele et al. 2014, figure 16: the golden ratio in 64 bits, and the
# multipliers and shifts of Stafford's variant 13 of the MurmurHash3 finalizer.
_GAMMA = 0x9E3779B97F4A7C15
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_SHIFTS = (30, 27, 31)

_DOUBLE_BITS = 53


def absorb(keys: tf.Tensor, numbers: tf.Tensor | int) -> tf.Tensor:
    """Folds numbers into keys; different numbers give different keys.

    Args:
        keys: uint64, any shape.
        numbers: Integers of a shape that broadcasts with `keys`.

    Returns:
        uint64, every bit of which depends on every bit of both.
    """
    counters = tf.cast(numbers, tf.uint64) + tf.constant(1, tf.uint64)
    bits = keys + counters * tf.constant(_GAMMA, tf.uint64)
    for shift, multiplier in zip(_SHIFTS[:2], _MULTIPLIERS, strict=True):
        bits = _fold(bits, shift) * tf.constant(multiplier, tf.uint64)
    return _fold(bits, _SHIFTS[2])


def example_keys(seed: int, epochs: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
    """Returns one key per example.

    Args:
        seed: Of the run; any integer of at most 63 bits.
        epochs: int64 `[b]`, how often the example was seen before.
        indices: int64 `[b]`, which example it is.

    Returns:
        uint64 `[b]`.
    """
    run_key = absorb(tf.constant(0, tf.uint64), tf.constant(seed, tf.int64))
    return absorb(absorb(run_key, epochs), indices)


def uniform(bits: tf.Tensor) -> tf.Tensor:
    """Turns uint64 bits into float64 from 0 to below 1, same shape."""
    high = tf.bitwise.right_shift(
        bits, tf.constant(64 - _DOUBLE_BITS, tf.uint64)
    )
    return tf.cast(high, tf.float64) * 2.0**-_DOUBLE_BITS


def _fold(bits: tf.Tensor, shift: int) -> tf.Tensor:
    shifted = tf.bitwise.right_shift(bits, tf.constant(shift, tf.uint64))
    return tf.bitwise.bitwise_xor(bits, shifted)
