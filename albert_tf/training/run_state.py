"""What a run remembers between two updates, besides the weights."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from albert_tf.training import step as step_lib
from albert_tf.training.loss_level import LossLevel


@dataclasses.dataclass
class RunState:
    """What a run remembers besides weights and optimizer slots.

    Args:
        step: Number of updates done.
        skipped_batches: Number of batches that rollbacks skipped.
        examples_read: Number of training examples read, by the sequence
            length of their records.
        seconds: Time that the run has taken; counted with a time budget.
        phase: Index of the phase of the last update.
        learning_rate_multiplier: Halved by each rollback.
        num_rollbacks: Number of rollbacks.
        loss_scale: Scale and age, see `step.updated_loss_scale`.
        level: Running level of the loss.
        window: Totals over the steps since the last log line.
        best_score: Best evaluation score so far; None before the first.
        best_loss: Loss of the best evaluation; None if unknown or not finite.
        evaluations_since_best: Number of evaluations since the first one with
            the best score.
    """

    step: int = 0
    skipped_batches: int = 0
    examples_read: dict[str, int] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0
    phase: int = 0
    learning_rate_multiplier: float = 1.0
    num_rollbacks: int = 0
    loss_scale: list[float] = dataclasses.field(
        default_factory=step_lib.initial_loss_scale
    )
    level: LossLevel = dataclasses.field(default_factory=LossLevel)
    window: dict[str, float] = dataclasses.field(default_factory=dict)
    best_score: float | None = None
    best_loss: float | None = None
    evaluations_since_best: int = 0

    @property
    def data_position(self) -> int:
        """Number of global batches consumed."""
        return self.step + self.skipped_batches

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "RunState":
        """Restores what `dataclasses.asdict` returned."""
        level = LossLevel(**values["level"])
        return cls(**{**values, "level": level})
