"""Initial weights: every variable is drawn from a seed of its own.

A model has one seed. Each layer derives the seeds of its parts from its own
seed and their names, so the initial value of a variable depends only on the
seed of the model and on the place of the variable: not on the order of
creation, nor on any global state.

Floor: modeling.

Source: google-research/albert, `modeling.create_initializer`.
"""

import hashlib
from typing import Any

import keras

_SEED_BYTES = 4
_LARGEST_SEED = 2**31 - 1


def derive_seed(seed: int, name: str) -> int:
    """Returns the seed, below 2**31, of a named part of a layer or model."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:_SEED_BYTES], "big") & _LARGEST_SEED


def truncated_normal(
    stddev: float, *, seed: int, name: str
) -> keras.initializers.Initializer:
    """Returns the initializer of one variable of a layer.

    It draws from a normal distribution with deviation `stddev`. Values beyond
    two deviations are drawn again and the rest are not rescaled, as in TF1.
    """
    return keras.initializers.TruncatedNormal(
        stddev=stddev, seed=derive_seed(seed, name)
    )


def dense(
    parent: Any, name: str, units: int, *, use_bias: bool = True
) -> keras.layers.Dense:
    """Returns the linear layer that a layer contains under a name.

    Its precision, the seed of its kernel, `[in, out]`, and the deviation are
    those of the parent, which has a `config` and a `seed`. Its bias is 0.
    """
    return keras.layers.Dense(
        units,
        use_bias=use_bias,
        kernel_initializer=truncated_normal(
            parent.config.initializer_range,
            seed=derive_seed(parent.seed, name),
            name="kernel",
        ),
        dtype=parent.dtype_policy,
        name=name,
    )
