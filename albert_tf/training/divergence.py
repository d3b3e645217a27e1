"""Notices that a run has gone wrong: a loss that is not finite, or a jump.

Floor: training. Plain Python: the numbers come from the log of each step.

Loss scale of float16: doubled while gradients are finite, else halved.

Floor: training.

Source: Micikevicius et al. 2018, "Mixed precision training", section 3.2.
"""

import dataclasses
import math

import tensorflow as tf

# The running level is a mean over about this many steps, and no verdict is
# given before it has seen as many.
HORIZON = 50
# A jump is a loss above its level by half, by this many times the mean
# absolute deviation of single steps, so that small noisy batches pass, and by
# one nat, so that one hard example of a task that is all but learnt passes.
RELATIVE_JUMP = 0.5
DEVIATIONS = 8.0
ABSOLUTE_JUMP = 1.0


@dataclasses.dataclass
class LossLevel:
    """The running level of a loss; its fields travel in checkpoints.

    Args:
        mean: Exponential mean of the loss.
        deviation: Exponential mean of its distance from `mean`.
        num_steps: Steps seen.
    """

    mean: float = 0.0
    deviation: float = 0.0
    num_steps: int = 0

    def problem(self, loss: float, *, checks_jumps: bool = True) -> str | None:
        """Says what is wrong with the loss of the next step, if anything.

        >>> LossLevel().problem(float("nan"))
        'the loss is nan'

        Args:
            loss: Of the next step.
            checks_jumps: Whether a jump is wrong, too.
        """
        if not math.isfinite(loss):
            return f"the loss is {loss}"
        if not checks_jumps or self.num_steps < HORIZON:
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
        """Takes in the loss of a step that has no problem."""
        self.num_steps += 1
        share = 1 / min(self.num_steps, HORIZON)
        distance = abs(loss - self.mean) if self.num_steps > 1 else 0.0
        self.mean += share * (loss - self.mean)
        self.deviation += share * (distance - self.deviation)


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
