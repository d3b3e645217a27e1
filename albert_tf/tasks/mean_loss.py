"""What the model halves of all fine-tuning tasks share.

The loss of a batch is a mean over its rows (sequences, questions or windows),
and so are the scores of the training log.

Floor: tasks.
"""

import abc
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from albert_tf.modeling import losses
from albert_tf.tasks.task import Batch, Totals

# Keeps the scores of a set without examples at 0 instead of 0 / 0.
_LEAST_EXAMPLES = 1e-30


class MeanLossTask(abc.ABC):
    """A `task.FinetuningTask` with one loss, the mean over the rows.

    A subclass sets `model`, and implements `_measure`. It sets `accuracies`
    where they are others than `accuracy`: by name of a field of the totals of
    its loss, the name of the score that is its mean.
    """

    model: keras.Model
    accuracies: Mapping[str, str] = {"correct": "accuracy"}
    sequence_outputs: frozenset[str] = frozenset()

    @property
    def total_names(self) -> tuple[str, ...]:
        """Keys of the metric totals that `loss` returns."""
        return ("examples", "tokens", "loss", *self.accuracies)

    def loss_denominators(self, batch: Batch) -> Totals:
        """Returns the number of examples, without those that are padding."""
        return {"examples": tf.reduce_sum(losses.example_weights(batch))}

    def loss(
        self,
        batch: Batch,
        loss_denominators: Totals,
        *,
        seed: tf.Tensor | None,
    ) -> tuple[tf.Tensor, Totals]:
        """Returns this batch's share of the loss, and its metric totals."""
        weights = losses.example_weights(batch)
        measured = self._measure(batch, weights, seed)
        mask = tf.cast(batch["input_mask"], tf.float32)
        # [B, ...]: all axes but the first are those of one example.
        num_tokens = tf.reduce_sum(mask, axis=list(range(1, mask.shape.rank)))
        totals = {
            "examples": measured.weight,
            "tokens": tf.reduce_sum(num_tokens * weights),
            "loss": measured.loss,
        } | {name: getattr(measured, name) for name in self.accuracies}
        return measured.loss / loss_denominators["examples"], totals

    @abc.abstractmethod
    def _measure(
        self, batch: Batch, weights: tf.Tensor, seed: tf.Tensor | None
    ) -> Any:
        """Computes the loss of a batch.

        Args:
            batch: The batch.
            weights: float32 `[B]`, 0 for rows that are padding.
            seed: int32 `[2]` for dropout in training; None in evaluation.

        Returns:
            A named tuple of `albert_tf.modeling.losses` with the fields
            `loss`, `weight`, and those that `accuracies` names.
        """

    def outputs(self, batch: Batch) -> Totals:
        """Returns the outputs of the model, without dropout."""
        return dict(self.model(batch, training=False))

    def training_scores(self, totals: Mapping[str, float]) -> dict[str, float]:
        """Returns `loss` and the accuracies of one step."""
        return self.evaluation_scores(totals)

    def evaluation_scores(
        self, totals: Mapping[str, float]
    ) -> dict[str, float]:
        """Returns the means of the loss and of the accuracies over a set."""
        num_examples = max(totals["examples"], _LEAST_EXAMPLES)
        names = {"loss": "loss", **self.accuracies}
        return {
            score: totals[name] / num_examples for name, score in names.items()
        }
