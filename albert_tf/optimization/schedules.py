"""Learning rates: a linear warm-up, then a polynomial decay to 0.

Source: google-research/albert, `optimization.create_optimizer`.
"""

import dataclasses
from typing import Any

import keras
from keras import ops

from albert_tf.modeling import Tensor
from albert_tf.optimization.optimizer_config import OptimizerConfig


def learning_rate(step: Tensor, config: OptimizerConfig) -> Tensor:
    """Returns the learning rate of a step, float32.

    The decay runs over all of `num_train_steps` from step 0, and the warm-up
    replaces its beginning. So the rate of step 0 is 0, and at the end of the
    warm-up it drops a little, onto the curve of the decay.

    `step` is an integer tensor of any shape, counted from 0.
    """
    step = ops.convert_to_tensor(step)
    # Subtract integers: in float32, 1 - step / num_train_steps would keep only
    # two correct digits at the end of a long run.
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
    """Wraps `learning_rate` as a Keras schedule."""

    def __init__(self, config: OptimizerConfig) -> None:
        self.config = config

    def __call__(self, step: Tensor) -> Tensor:
        """Returns the learning rate of `step`, a float32 tensor."""
        return learning_rate(step, self.config)

    def get_config(self) -> dict[str, Any]:
        """Returns the fields of the config, for `from_config`."""
        # The config may be a run's, with fields that are not the optimizer's.
        names = [field.name for field in dataclasses.fields(OptimizerConfig)]
        return {name: getattr(self.config, name) for name in names}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "WarmUpAndDecay":
        """Restores a schedule from the fields of its config."""
        return cls(OptimizerConfig(**config))
