"""What the training loop needs to know of a task, and nothing more.

Floor: tasks.
"""

from collections.abc import Mapping
from typing import Protocol

import keras
import tensorflow as tf

Batch = Mapping[str, tf.Tensor]
Sums = dict[str, tf.Tensor]


class Task(Protocol):
    """A model with a loss that is a sum over targets, and its scores.

    The loop adds `normalizers` over all replicas and micro-batches of a step
    before it asks for a loss, so that every target of the global batch weighs
    the same wherever it is computed.
    """

    model: keras.Model

    @property
    def sum_names(self) -> tuple[str, ...]:
        """Keys of the sums that `loss` returns."""
        ...

    def normalizers(self, batch: Batch) -> Sums:
        """Returns, by loss, the float32 `[]` weight of the batch's targets."""
        ...

    def loss(
        self, batch: Batch, normalizers: Sums, *, seed: tf.Tensor | None
    ) -> tuple[tf.Tensor, Sums]:
        """Returns this batch's share of the loss, and sums to be reported.

        Args:
            batch: Tensors of one micro-batch.
            normalizers: As `normalizers` returns them, of the global batch.
            seed: int32 `[2]` for dropout when training; None to evaluate.
        """
        ...

    def training_scores(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Turns the sums over a step's global batch into the log's values."""
        ...

    def evaluation_scores(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Turns the sums over an evaluation set into its scores."""
        ...


def example_weights(batch: Batch) -> tf.Tensor:
    """Returns float32 `[B]`: 0 for rows that only fill up a batch, else 1.

    Args:
        batch: Has `input_ids` `[B, ...]`, and `example_weights` if any row
            may be a filling one.
    """
    if "example_weights" in batch:
        return batch["example_weights"]
    return tf.ones(tf.shape(batch["input_ids"])[:1])
