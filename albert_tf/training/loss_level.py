"""Whether the loss of a step is out of line with those before it."""

import dataclasses
import math

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
