"""Numerical trouble: a loss that diverges, and the loss scale of float16.

Floor: training.

Source: Micikevicius et al. 2018, "Mixed precision training", section 3.2, for
the loss scale.
"""

import dataclasses
import math

import tensorflow as tf

# The running level averages about this many steps; jumps are not judged before
# that many were seen.
HORIZON = 50
# A jump is a loss above the running level by all of: half of the level; this
# many times the mean absolute deviation of single steps, so that small noisy
# batches pass; and one nat, so that one hard example of a nearly solved task
# passes.
RELATIVE_JUMP = 0.5
DEVIATIONS = 8.0
ABSOLUTE_JUMP = 1.0

INITIAL_LOSS_SCALE = 2.0**15
# At this scale, a gradient that is not finite is not an overflow of float16.
SMALLEST_LOSS_SCALE = 1.0
LARGEST_LOSS_SCALE = 2.0**24
GROWTH_STEPS = 2000


class TrainingDiverged(ValueError):
    """The loss or its gradient is not finite, or the loss has jumped."""


@dataclasses.dataclass
class LossLevel:
    """Running level of a loss; its fields are saved in checkpoints.

    Args:
        mean: Exponential moving average of the loss.
        deviation: Exponential moving average of its distance from `mean`.
        num_steps: Number of steps seen.
    """

    mean: float = 0.0
    deviation: float = 0.0
    num_steps: int = 0

    def problem(self, loss: float, *, detects_jumps: bool = True) -> str | None:
        """Describes what is wrong with the loss of the next step, if anything.

        >>> LossLevel().problem(float("nan"))
        'the loss is nan'

        Args:
            loss: Loss of the next step.
            detects_jumps: Whether a jump counts as divergence.
        """
        if not math.isfinite(loss):
            return f"the loss is {loss}"
        if not detects_jumps or self.num_steps < HORIZON:
            return None
        margin = max(
            ABSOLUTE_JUMP,
            RELATIVE_JUMP * self.mean,
            DEVIATIONS * self.deviation,
        )
        if loss > self.mean + margin:
            return (
                f"the loss jumped to {loss:.4g} from a running level of "
                f"{self.mean:.4g}"
            )
        return None

    def update(self, loss: float) -> None:
        """Adds the loss of a step that has no problem."""
        self.num_steps += 1
        share = 1 / min(self.num_steps, HORIZON)
        distance = abs(loss - self.mean) if self.num_steps > 1 else 0.0
        self.mean += share * (loss - self.mean)
        self.deviation += share * (distance - self.deviation)


def initial_loss_scale() -> list[float]:
    """Returns the loss scale and the number of steps since it changed."""
    return [INITIAL_LOSS_SCALE, 0.0]


def updated_loss_scale(state: tf.Tensor, is_finite: tf.Tensor) -> tf.Tensor:
    """Doubles the scale after many finite steps; halves it after an overflow.

    Args:
        state: float32 `[2]`, the scale and the number of steps since it
            changed.
        is_finite: bool `[]`, whether the gradients of the step were finite.

    Returns:
        float32 `[2]`, the state after the step.
    """
    scale, steps = state[0], state[1] + 1
    grows = steps >= GROWTH_STEPS
    if_finite = tf.stack(
        [
            tf.where(grows, tf.minimum(2 * scale, LARGEST_LOSS_SCALE), scale),
            tf.where(grows, tf.zeros_like(steps), steps),
        ]
    )
    if_not = tf.stack(
        [tf.maximum(scale / 2, SMALLEST_LOSS_SCALE), tf.zeros_like(steps)]
    )
    return tf.where(is_finite, if_finite, if_not)
