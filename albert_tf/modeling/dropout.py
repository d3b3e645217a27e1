"""Dropout whose masks depend on an explicit seed and on nothing else.

A model hands one seed to all its layers; every place that drops values (a
site) folds a number of its own into it. So the same seed gives the same masks,
in one process or many, computed once or again, though XLA (`--jit_compile`) has
other ones; and a shared block, which uses other sites each time it is applied,
draws other masks each time.

Source: the places are those of google-research/albert, `modeling.py`.
"""

from typing import Any

import keras
import numpy as np
from keras import ops

EMBEDDINGS_SITE = 0
HEAD_SITE = 1  # for the one dropout that a fine-tuning head may have
FIRST_BLOCK_SITE = 16
# Attention probabilities, attention output, feed-forward output.
SITES_PER_BLOCK = 3

# Odd multipliers: a product modulo 2**32 never maps two sites to one number,
# and spreads neighbouring sites over all bits, so that seeds that differ a
# little (as those of successive steps do) do not collide after folding.
_MULTIPLIERS = (0x9E3779B9, 0x85EBCA6B)
_SEED_MODULUS = 2**32


def dropout(inputs: Any, *, rate: float, seed: Any | None, site: int) -> Any:
    """Sets a share of the values to zero and scales up the others.

    `rate` is the probability of dropping a value, from 0 to below 1; `seed`
    that of the model's call, an integer tensor `[2]`, without which nothing is
    dropped; `site` the number of this place in the model.
    """
    if seed is None or not rate:
        return inputs
    # Drawn in float32 in every precision: bfloat16 has only 128 numbers
    # between 0.5 and 1, too few for the probability to be right.
    draws = keras.random.uniform(
        ops.shape(inputs), dtype="float32", seed=_GivenSeed(fold_in(seed, site))
    )
    scaled = inputs / ops.cast(1.0 - rate, inputs.dtype)
    return ops.where(draws >= rate, scaled, ops.zeros_like(inputs))


def block_site(block: int) -> int:
    """Returns the first dropout site of the block with this index."""
    return FIRST_BLOCK_SITE + SITES_PER_BLOCK * block


def fold_in(seed: Any, site: int) -> Any:
    """Returns the seed of one site, which differs from those of all others.

    It is an integer tensor `[2]` of the type that the back end takes.
    """
    dtype = "uint32" if keras.backend.backend() == "jax" else "int32"
    words = [(site + 1) * m % _SEED_MODULUS for m in _MULTIPLIERS]
    mixture = np.array(words, "uint32").astype(dtype)
    return ops.bitwise_xor(ops.cast(seed, dtype), mixture)


class _GivenSeed(keras.random.SeedGenerator):
    """Hands a given tensor to a Keras random function.

    Those accept only an integer or a generator. It keeps no state, so it does
    not call the constructor of the base class, which makes a variable.
    """

    def __init__(self, seed: Any) -> None:
        self._seed = seed

    def next(self, ordered: bool = True) -> Any:
        return self._seed
