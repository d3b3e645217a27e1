"""What a run remembers between two updates, besides weights and slots."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from albert_tf.training.step import INITIAL_LOSS_SCALE

# The running level averages about this many steps; jumps are not judged before
# that many were seen.
HORIZON = 50
FIRST_STEPS = 10
# A jump is a loss above the running level by all of: half of the level; this
# many times the mean absolute deviation of single steps, so that small noisy
# batches pass; and one nat, so that one hard example of a nearly solved task
# passes.
RELATIVE_JUMP = 0.5
DEVIATIONS = 8.0
ABSOLUTE_JUMP = 1.0


@dataclasses.dataclass
class DivergenceDetector:
    """Compares the loss of each step with its running level.

    `first` is the mean loss of the first steps, `mean` a moving average of the
    loss, and `deviation` one of its distance from `mean`.
    """

    first: float = 0.0
    mean: float = 0.0
    deviation: float = 0.0
    num_steps: int = 0

    def problem(self, loss: float, *, detects_jumps: bool = True) -> str | None:
        """Describes what is wrong with the loss of the next step, if anything.

        >>> DivergenceDetector().problem(float("nan"))
        'the loss is nan'
        """
        if not math.isfinite(loss):
            return f"the loss is {loss}"
        if not detects_jumps or self.num_steps < HORIZON:
            return None
        rise = max(ABSOLUTE_JUMP, RELATIVE_JUMP * self.first)
        if self.mean > self.first + rise:
            return (
                f"the running level of the loss, {self.mean:.4g}, is far above "
                f"that of the first steps, {self.first:.4g}"
            )
        margin = max(ABSOLUTE_JUMP, RELATIVE_JUMP * self.mean)
        margin = max(margin, DEVIATIONS * self.deviation)
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
        if self.num_steps <= FIRST_STEPS:
            self.first = self.mean
        self.deviation += share * (distance - self.deviation)


@dataclasses.dataclass
class RunState:
    """What a run remembers besides weights and optimizer slots.

    Args:
        examples_read: Number of training examples read, by their length.
        phase: Index of the phase of the last update.
        loss_scale: Scale, and number of steps since it changed; see
            `step.updated_loss_scale`.
        window: Totals over the steps since the last log line.
        best_score: Best evaluation score so far; None before the first.
        best_loss: Loss of the best evaluation; None if unknown or not finite.
        evaluations_since_best: Since the first one with the best score.
        needs_evaluation: Whether the evaluation after the step is not done.
    """

    step: int = 0
    examples_read: dict[str, int] = dataclasses.field(default_factory=dict)
    phase: int = 0
    loss_scale: list[float] = dataclasses.field(
        default_factory=lambda: [INITIAL_LOSS_SCALE, 0.0]
    )
    detector: DivergenceDetector = dataclasses.field(
        default_factory=DivergenceDetector
    )
    window: dict[str, float] = dataclasses.field(default_factory=dict)
    best_score: float | None = None
    best_loss: float | None = None
    evaluations_since_best: int = 0
    needs_evaluation: bool = False

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "RunState":
        """Restores what `dataclasses.asdict` returned."""
        detector = DivergenceDetector(**values["detector"])
        return cls(**{**values, "detector": detector})
