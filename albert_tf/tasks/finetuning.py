"""The base of the model halves of fine-tuning: a loss that is a mean.

Each has one loss, the weighted mean over the rows of a batch (sequences,
questions or windows). Its scores in the training log are means, too.
"""

import abc
from collections.abc import Mapping

from keras import ops

from albert_tf.modeling import Tensor, losses
from albert_tf.tasks.task import (
    AnswerTask,
    Batch,
    ComputeOutputs,
    Totals,
    model_outputs,
)

# Keeps the scores of a set without examples at 0 instead of 0 / 0.
_LEAST_WEIGHT = 1e-30


class MeanLossTask(AnswerTask, abc.ABC):
    """A `task.Task` whose subclasses have the `model` and `_measure`.

    `accuracies` maps fields of `LossSums` to names of scores in the log;
    `loss_options` are extra arguments of the model's call in `loss`.
    """

    accuracies: Mapping[str, str] = {"correct": "accuracy"}
    sequence_outputs: frozenset[str] = frozenset()
    loss_options: Mapping[str, bool] = {}
    # Whether baselines have a score of the weights before the training.
    compares_start = False

    @abc.abstractmethod
    def _measure(
        self, outputs: Totals, batch: Batch, weights: Tensor
    ) -> losses.LossSums:
        """Returns the sums of a batch, by a function of `modeling.losses`.

        `weights` are 0 for rows that only pad the batch.
        """

    @property
    def total_names(self) -> tuple[str, ...]:
        """Keys of the metric totals that `loss` returns."""
        return ("examples", "weights", "tokens", "loss", *self.accuracies)

    def _weights(self, batch: Batch) -> Tensor:
        """Returns the weights of the rows in the loss, float32 `[B]`."""
        return losses.example_weights(batch)

    def loss_denominators(self, batch: Batch) -> Totals:
        """Returns the sum of the weights of the rows."""
        return {"weights": ops.sum(self._weights(batch))}

    def loss(
        self,
        batch: Batch,
        loss_denominators: Totals,
        *,
        seed: Tensor | None,
        compute_outputs: ComputeOutputs = model_outputs,
        **options: object,
    ) -> tuple[Tensor, Totals]:
        """Returns the batch's share of the mean loss, and metric totals."""
        is_real = losses.example_weights(batch)
        weights = self._weights(batch)
        by_depth = compute_outputs(
            self.model,
            batch,
            training=seed is not None,
            seed=seed,
            **self.loss_options,
            **options,
        )
        measured, *shallow = (
            self._measure(outputs, batch, weights) for outputs in by_depth
        )
        losses_by_depth = [sums.loss for sums in (measured, *shallow)]
        loss = sum(losses_by_depth) / len(losses_by_depth)
        mask = ops.cast(batch["input_mask"], "float32")
        # [B, ...]: all axes but the first belong to one example.
        num_tokens = ops.sum(mask, axis=list(range(1, len(mask.shape))))
        totals = {
            "examples": ops.sum(is_real),
            "weights": measured.weight,
            "tokens": ops.sum(num_tokens * is_real),
            "loss": loss,
        } | {name: getattr(measured, name) for name in self.accuracies}
        return loss / loss_denominators["weights"], totals

    def start_outputs(self, batch: Batch) -> Totals:
        """Returns the outputs of weights before the training."""
        return self.outputs(batch)

    def training_scores(self, totals: Mapping[str, float]) -> dict[str, float]:
        """Returns the weighted means over all rows."""
        weight = max(totals["weights"], _LEAST_WEIGHT)
        names = {"loss": "loss", **self.accuracies}
        return {score: totals[name] / weight for name, score in names.items()}
