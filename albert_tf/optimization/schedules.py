"""The learning rate: a linear warm-up, then a polynomial decay to 0.

Source: google-research/albert, `optimization.create_optimizer`.

Learning rates that fall from the head of a model down to its embeddings.

A published ALBERT has one block that every layer passes through, so there is
no rate for each layer. What has a rate of its own is a *level*, a set of
weights that are learnt together; from below:

1. the embeddings (tokens, segments, positions and their layer norm),
2. the projection from E to H, if the model has one,
3. each group of blocks, the group of the first layers first; where layers
   share nothing, every layer is a group,
4. the pooler and the task's head.

The head learns at the full rate, and each level at `decay` times the rate of
the level above it. So the ALBERT with one group has the four levels decay^3,
decay^2, decay and 1.

Where only one half of a block is shared, the shared half stands on the level
of the last layers that it serves.

Floor: optimization. Plain Python.

Source: Howard and Ruder 2018 (ULMFiT), section 3.2, "discriminative
fine-tuning"; the levels are ours.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from albert_tf.optimization.optimizer_config import OptimizerConfig

Tensor = Any


def learning_rate(step: Tensor, config: OptimizerConfig) -> Tensor:
    """Returns the rate of a step.

    The decay runs over all of `num_train_steps` from step 0, and the warm-up
    replaces its beginning. So the rate of step 0 is 0, and at the end of the
    warm-up it drops a little, onto the line of the decay.

    It is written in `keras.ops`, so a step may be a Python or NumPy integer,
    an array of them, or a tensor or variable in a graph. `float(...)` makes a
    number of an eager result.

    Args:
        step: Integers, of any shape; the first step is 0.
        config: Says rate, steps, warm-up and power.

    Returns:
        A float32 tensor of the shape of `step`.
    """
    step = ops.convert_to_tensor(step)
    # Subtracted as integers: in float32, 1 - step / num_train_steps would
    # have two good digits left at the end of a long run.
    remaining = config.num_train_steps - ops.minimum(
        step, config.num_train_steps
    )
    share = ops.cast(remaining, "float32") / config.num_train_steps
    decayed = config.learning_rate * ops.power(share, config.poly_power)
    if not config.num_warmup_steps:
        return decayed
    # Differs: the reference has a negative rate before `start_warmup_step`.
    warm_steps = ops.maximum(step - config.start_warmup_step, 0)
    warmth = ops.cast(warm_steps, "float32") / config.num_warmup_steps
    warming = config.learning_rate * warmth
    return ops.where(warm_steps < config.num_warmup_steps, warming, decayed)


@keras.saving.register_keras_serializable("albert_tf")
class WarmUpAndDecay(keras.optimizers.schedules.LearningRateSchedule):
    """`learning_rate` for a Keras optimizer, which calls it with its step.

    Args:
        config: Says rate, steps, warm-up and power.
    """

    def __init__(self, config: OptimizerConfig) -> None:
        self.config = config

    def __call__(self, step: Tensor) -> Tensor:
        """Returns the rate of `step`, a float32 tensor."""
        return learning_rate(step, self.config)

    def get_config(self) -> dict[str, Any]:
        """Returns the fields of the config; `from_config` reads them back."""
        return dataclasses.asdict(self.config)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "WarmUpAndDecay":
        """Builds the schedule that `get_config` described."""
        return cls(OptimizerConfig(**config))


_EMBEDDINGS = re.compile(r"(^|/)embeddings/")
_PROJECTION = re.compile(r"(^|/)embedding_projection/")
_BLOCK = re.compile(r"(^|/)(?P<half>attention|feed_forward)_(?P<set>\d+)_\d+/")


def learning_rate_multipliers(
    paths: Sequence[str], *, decay: float = 1.0, freeze_embeddings: bool = False
) -> dict[str, float]:
    """Returns what the learning rate of each weight is multiplied by.

    >>> learning_rate_multipliers(["albert/embeddings/x", "albert/pooler/bias"], decay=0.5)
    {'albert/embeddings/x': 0.5, 'albert/pooler/bias': 1.0}

    Args:
        paths: `path` of all weights of the model.
        decay: Factor from a level to the one below, at most 1.
        freeze_embeddings: Whether the embeddings get 0: they are not learnt.

    Returns:
        By path, a factor from 0 to 1.
    """
    sets = _num_sets(paths)
    places = {path: _place(path, sets) for path in paths}
    levels = {place: i for i, place in enumerate(sorted(set(places.values())))}
    factors = {
        path: decay ** (len(levels) - 1 - levels[place])
        for path, place in places.items()
    }
    if freeze_embeddings:
        frozen = filter(_EMBEDDINGS.search, paths)
        factors |= dict.fromkeys(frozen, 0.0)
    return factors


def _num_sets(paths: Sequence[str]) -> dict[str, int]:
    """Returns how many sets of weights each half of the block has."""
    sets: dict[str, int] = {}
    for match in filter(None, map(_BLOCK.search, paths)):
        half = match["half"]
        sets[half] = max(sets.get(half, 0), int(match["set"]) + 1)
    return sets


def _place(path: str, sets: Mapping[str, int]) -> tuple[int, int]:
    """Returns where a weight stands, from below."""
    if _EMBEDDINGS.search(path):
        return 0, 0
    if _PROJECTION.search(path):
        return 1, 0
    match = _BLOCK.search(path)
    if match:
        last = (int(match["set"]) + 1) * max(sets.values())
        return 2, last // sets[match["half"]]
    return 3, 0
