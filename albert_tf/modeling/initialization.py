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
    """Returns the seed of one part of a layer or model.

    Args:
        seed: Seed of the whole.
        name: Name of the part.

    Returns:
        An integer from 0 to 2**31 - 1.
    """
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:_SEED_BYTES], "big") & _LARGEST_SEED


def truncated_normal(
    stddev: float, *, seed: int, name: str
) -> keras.initializers.Initializer:
    """Returns the initializer of one variable of a layer.

    It draws from a normal distribution. Values beyond two standard deviations
    are drawn again and the rest are not rescaled, as in TF1.

    Args:
        stddev: Standard deviation before truncation.
        seed: Seed of the layer.
        name: Name of the variable within the layer.
    """
    return keras.initializers.TruncatedNormal(
        stddev=stddev, seed=derive_seed(seed, name)
    )


def dense(
    units: int,
    *,
    stddev: float,
    seed: int,
    name: str,
    dtype: Any,
    use_bias: bool = True,
) -> keras.layers.Dense:
    """Returns a linear layer: seeded kernel `[in, out]`, zero bias.

    Args:
        units: Width of its output.
        stddev: Standard deviation of the initial kernel.
        seed: Seed of the layer that contains it.
        name: Its name within that layer.
        dtype: Keras dtype policy.
        use_bias: Whether it has a bias.
    """
    return keras.layers.Dense(
        units,
        use_bias=use_bias,
        kernel_initializer=truncated_normal(
            stddev, seed=derive_seed(seed, name), name="kernel"
        ),
        dtype=dtype,
        name=name,
    )
