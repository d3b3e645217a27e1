"""Learning rates: their course over the steps, and their layer-wise decay.

`learning_rate` is a linear warm-up followed by a polynomial decay to 0.

`learning_rate_multipliers` makes the learning rate fall from the head of a
model down to its embeddings. A published ALBERT shares one block among all
layers, so there is no rate for each layer. What has a rate of its own is a
*level*, a set of weights that are trained together. From the bottom:

1. the embeddings (tokens, segments, positions and their layer norm),
2. the projection from E to H, if the model has one,
3. each group of layers, beginning with the group of the first layers; where
   layers share nothing, every layer is a group,
4. the pooler and the task's head.

The head has the full rate, and each level has `decay` times the rate of the
level above. So an ALBERT with one group has four levels, with the multipliers
decay^3, decay^2, decay and 1. Where only one half of each layer is shared, the
shared half belongs to the level of the last layers that use it.

Source: google-research/albert, `optimization.create_optimizer`, for the first;
Howard and Ruder 2018 (ULMFiT), section 3.2, "discriminative fine-tuning", for
the second. The levels are ours.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from albert_tf.optimization.optimizer_config import OptimizerConfig

Tensor = Any

_ENCODER = re.compile(r"(^|/)(embeddings|encoder|pooler)/")
_EMBEDDINGS = re.compile(r"(^|/)embeddings/")
_PROJECTION = re.compile(r"(^|/)embedding_projection/")
_BLOCK = re.compile(r"(^|/)(?P<half>attention|feed_forward)_(?P<set>\d+)_\d+/")


def learning_rate(step: Tensor, config: OptimizerConfig) -> Tensor:
    """Returns the learning rate of a step.

    The decay runs over all of `num_train_steps` from step 0, and the warm-up
    replaces its beginning. So the rate of step 0 is 0, and at the end of the
    warm-up it drops a little, onto the curve of the decay.

    Args:
        step: Integers of any shape; the first step is 0. A Python or NumPy
            integer, an array, or a tensor or variable in a graph.
        config: Learning rate, steps, warm-up and power.

    Returns:
        A float32 tensor with the shape of `step`.
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
    """`learning_rate` as a Keras schedule."""

    def __init__(self, config: OptimizerConfig) -> None:
        # A subclass of the config has fields that do not belong here.
        names = [field.name for field in dataclasses.fields(OptimizerConfig)]
        self.config = OptimizerConfig(
            **{name: getattr(config, name) for name in names}
        )

    def __call__(self, step: Tensor) -> Tensor:
        """Returns the learning rate of `step`, a float32 tensor."""
        return learning_rate(step, self.config)

    def get_config(self) -> dict[str, Any]:
        """Returns the fields of the config, from which it is restored."""
        return dataclasses.asdict(self.config)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "WarmUpAndDecay":
        """Restores the schedule that `get_config` described."""
        return cls(OptimizerConfig(**config))


def learning_rate_multipliers(
    paths: Sequence[str],
    *,
    decay: float = 1.0,
    freeze_embeddings: bool = False,
    adapters_only: bool = False,
) -> dict[str, float]:
    """Returns the number that each weight's learning rate is multiplied by.

    >>> learning_rate_multipliers(
    ...     ["albert/embeddings/x", "albert/pooler/bias"], decay=0.5)
    {'albert/embeddings/x': 0.5, 'albert/pooler/bias': 1.0}

    Args:
        paths: `path` of all weights of the model.
        decay: Factor from one level to the level below, at most 1.
        freeze_embeddings: Whether the embeddings are not trained; their
            multiplier is then 0.
        adapters_only: Whether nothing of the encoder is trained but adapters.

    Returns:
        A multiplier from 0 to 1 for each path.
    """
    num_sets = _num_sets(paths)
    places = {path: _place(path, num_sets) for path in paths}
    levels = {place: i for i, place in enumerate(sorted(set(places.values())))}
    multipliers = {
        path: decay ** (len(levels) - 1 - levels[place])
        for path, place in places.items()
    }
    if freeze_embeddings:
        frozen = filter(_EMBEDDINGS.search, paths)
        multipliers |= dict.fromkeys(frozen, 0.0)
    if adapters_only:
        for path in filter(_ENCODER.search, paths):
            if "/adapters/" not in path:
                multipliers[path] = 0.0
    return multipliers


def _num_sets(paths: Sequence[str]) -> dict[str, int]:
    """Returns the number of sets of weights of each half of the layers."""
    sets: dict[str, int] = {}
    for match in filter(None, map(_BLOCK.search, paths)):
        half = match["half"]
        sets[half] = max(sets.get(half, 0), int(match["set"]) + 1)
    return sets


def _place(path: str, num_sets: Mapping[str, int]) -> tuple[int, int]:
    """Returns a sort key of the level that a weight belongs to."""
    if _EMBEDDINGS.search(path):
        return 0, 0
    if _PROJECTION.search(path):
        return 1, 0
    match = _BLOCK.search(path)
    if match:
        last = (int(match["set"]) + 1) * max(num_sets.values())
        return 2, last // num_sets[match["half"]]
    return 3, 0
