"""From settings to an optimizer.

Source: google-research/albert, `optimization.create_optimizer`.
"""

import keras

from albert_tf.optimization import optimizers, schedules
from albert_tf.optimization.optimizer_config import OptimizerConfig


def create_optimizer(config: OptimizerConfig) -> keras.optimizers.Optimizer:
    """Returns the optimizer that a config describes, not built yet.

    Under `model.fit` it does all that the config says: schedule, clipping by
    global norm, update. A loop that calls `update_step` takes the rate from
    `schedules.learning_rate` and clips with `clipping` itself.

    Args:
        config: The settings. Make the optimizer inside the scope of the
            `tf.distribute` strategy, if there is one.
    """
    if config.name == "lamb":
        optimizer_class = optimizers.AlbertLamb
        options = {"corrected": config.corrected_lamb}
    else:
        optimizer_class = optimizers.AlbertAdamW
        options = {}
    return optimizer_class(
        schedules.WarmUpAndDecay(config),
        weight_decay=config.weight_decay,
        beta_1=config.beta_1,
        beta_2=config.beta_2,
        epsilon=config.epsilon,
        global_clipnorm=config.clip_norm,
        **options,
    )
