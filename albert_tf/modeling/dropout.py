"""Dropout whose masks depend on an explicit seed and on nothing else.

A model hands one seed down to all its layers; every place that drops values
(a site) folds a number of its own into it. So the same seed gives the same
masks, in one process or many, computed once or again; and the passes through
a shared block, which have different sites, get different masks.

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
# little (as those of successive steps do) do not meet after folding.
_MULTIPLIERS = (0x9E3779B9, 0x85EBCA6B)
_SEED_MODULUS = 2**32


class _GivenSeed(keras.random.SeedGenerator):
    """Hands the tensor it was given to a Keras random function.

    Those accept an integer or a generator only. Keeps no state, and so does
    not call the constructor of the base class, which makes a variable.
    """

    def __init__(self, seed: Any) -> None:
        self._seed = seed

    def next(self, ordered: bool = True) -> Any:
        return self._seed


def check_rate(name: str, rate: float) -> None:
    """Checks the dropout of a head; those of the config, it checks itself.

    Args:
        name: Of the argument, for the message.
        rate: Its value.

    Raises:
        ValueError: It is not from 0 to below 1.
    """
    if not 0 <= rate < 1:
        raise ValueError(
            f"`{name}` must be at least 0 and below 1. Received: {name}={rate}."
        )


def block_site(block_pass: int) -> int:
    """Returns the first of the sites of pass `block_pass` through a block."""
    return FIRST_BLOCK_SITE + SITES_PER_BLOCK * block_pass


def fold_in(seed: Any, site: int) -> Any:
    """Returns the seed of one site.

    Args:
        seed: Integer tensor `[2]`.
        site: Static whole number.

    Returns:
        Integer tensor `[2]`, of the type that the back end's random
        functions take; different for every site of one seed.
    """
    dtype = "uint32" if keras.backend.backend() == "jax" else "int32"
    words = [(site + 1) * m % _SEED_MODULUS for m in _MULTIPLIERS]
    mixture = np.array(words, "uint32").astype(dtype)
    return ops.bitwise_xor(ops.cast(seed, dtype), mixture)


def dropout(inputs: Any, *, rate: float, seed: Any | None, site: int) -> Any:
    """Sets a share of the values to zero and scales up the others.

    Args:
        inputs: Float tensor of any shape.
        rate: Probability of dropping a value, from 0 to below 1.
        seed: Integer tensor `[2]`, the seed of the model's call; None to drop
            nothing (evaluation).
        site: Number of this place, different from all others of the model.

    Returns:
        Float tensor of the shape and dtype of `inputs`.
    """
    if seed is None or not rate:
        return inputs
    # Drawn in float32 whatever the precision: bfloat16 knows only 128 numbers
    # between 0.5 and 1, too few for the probability to be right.
    draws = keras.random.uniform(
        ops.shape(inputs), dtype="float32", seed=_GivenSeed(fold_in(seed, site))
    )
    scaled = inputs / ops.cast(1.0 - rate, inputs.dtype)
    return ops.where(draws >= rate, scaled, ops.zeros_like(inputs))
