"""Dropout whose masks depend on an explicit seed and on nothing else.

A model passes one seed to all its layers; every dropout has an index in the
model, and folds it into the seed. So the same seed gives the same masks, in one
process or many, also when a block is recomputed; only XLA (`--jit_compile`)
draws others. A shared block has new indices, so new masks, at each application.

Source: google-research/albert, `modeling.py`, for the places of dropout.
"""

import keras
import numpy as np
from keras import ops

from albert_tf.modeling import Tensor

EMBEDDINGS_INDEX = 0
# Index 2 is the random draw of `random_depth`.
HEAD_INDEX = 1  # of the one dropout that a fine-tuning head may have
_FIRST_BLOCK_INDEX = 16
# Attention probabilities, attention output, feed-forward output.
NUM_PER_BLOCK = 3

# Odd multipliers: a product modulo 2**32 never maps two indices to one number,
# and spreads neighbouring indices over all bits, so that seeds that differ a
# little, as in successive steps, do not collide after folding.
_MULTIPLIERS = (0x9E3779B9, 0x85EBCA6B)
_SEED_MODULUS = 2**32


def dropout(
    inputs: Tensor, rate: float, seed: Tensor | None, dropout_index: int
) -> Tensor:
    """Sets a share of the values to zero and scales up the others.

    `rate` is the probability of dropping a value; `seed` is the seed of the
    model's call, int `[2]`. Without a seed, there is no dropout.
    """
    if seed is None or not rate:
        return inputs
    # Drawn in float32 in every precision: bfloat16 has only 128 numbers
    # between 0.5 and 1, too few for the probability to be right.
    draws = keras.random.uniform(
        ops.shape(inputs),
        dtype="float32",
        seed=SeedOfCall(fold_in(seed, dropout_index)),
    )
    scaled = inputs / ops.cast(1.0 - rate, inputs.dtype)
    return ops.where(draws >= rate, scaled, ops.zeros_like(inputs))


def first_index(block: int) -> int:
    """Returns the index of the first dropout in block number `block`."""
    return _FIRST_BLOCK_INDEX + NUM_PER_BLOCK * block


def fold_in(seed: Tensor, dropout_index: int) -> Tensor:
    """Returns the seed of one dropout, `[2]`, in the back end's dtype."""
    dtype = "uint32" if keras.backend.backend() == "jax" else "int32"
    words = [(dropout_index + 1) * m % _SEED_MODULUS for m in _MULTIPLIERS]
    mixture = np.array(words, "uint32").astype(dtype)
    return ops.bitwise_xor(ops.cast(seed, dtype), mixture)


class SeedOfCall(keras.random.SeedGenerator):
    """Wraps a seed tensor for Keras functions that take only generators."""

    def __init__(self, seed: Tensor) -> None:
        # The constructor of the base class would create a variable.
        self._seed = seed

    def next(self, ordered: bool = True) -> Tensor:
        return self._seed
