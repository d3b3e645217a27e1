"""The learning rate: a linear warm-up, then a polynomial decay to 0.

Source: google-research/albert, `optimization.create_optimizer`.
"""

import dataclasses
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
