"""Loss scale of float16: doubled while gradients are finite, else halved.

Floor: training.

Source: Micikevicius et al. 2018, "Mixed precision training", section 3.2.
"""

import tensorflow as tf

INITIAL_SCALE = 2.0**15
# At this one, a gradient that is not finite is not the fault of the scale.
SMALLEST_SCALE = 1.0
GROWTH_STEPS = 2000
LARGEST_SCALE = 2.0**24


def initial() -> list[float]:
    """Returns the scale and the number of steps since it last changed."""
    return [INITIAL_SCALE, 0.0]


def updated(state: tf.Tensor, is_finite: tf.Tensor) -> tf.Tensor:
    """Returns the state after a step.

    Args:
        state: float32 `[2]`: the scale, and steps since it last changed.
        is_finite: bool `[]`, whether the step's gradients were finite.
    """
    scale, steps = state[0], state[1] + 1
    grows = steps >= GROWTH_STEPS
    if_finite = tf.stack(
        [
            tf.where(grows, tf.minimum(2 * scale, LARGEST_SCALE), scale),
            tf.where(grows, tf.zeros_like(steps), steps),
        ]
    )
    if_not = tf.stack(
        [tf.maximum(scale / 2, SMALLEST_SCALE), tf.zeros_like(steps)]
    )
    return tf.where(is_finite, if_finite, if_not)
