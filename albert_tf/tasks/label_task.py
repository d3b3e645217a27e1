"""The model half of tasks with a label over the pooled output.

Classification and multiple choice. Examples may leave the model early.
"""

from collections.abc import Callable

from albert_tf import registry
from albert_tf.modeling import Tensor, losses
from albert_tf.tasks.finetuning import MeanLossTask
from albert_tf.tasks.head_flags import HeadFlags
from albert_tf.tasks.task import Batch, Totals


class LabelTask(MeanLossTask):
    """A `MeanLossTask` of `logits` and `label_ids`; subclasses set `model`."""

    def __init__(self, head: HeadFlags) -> None:
        self._exit_patience = head.exit_patience
        self._sums: Callable[..., losses.LossSums] = losses.cross_entropy_sums

    def _measure(
        self, outputs: Totals, batch: Batch, weights: Tensor
    ) -> losses.LossSums:
        return self._sums(outputs["logits"], batch["label_ids"], weights)

    @property
    def final_outputs(self) -> Callable[[Batch], Totals]:
        """The function of outputs, with early exit if there is any."""
        return self._leaving_early if self._exit_patience else self.outputs

    def _leaving_early(self, batch: Batch) -> Totals:
        compute = registry.load(registry.EARLY_EXIT["outputs"])
        outputs: Totals = compute(
            self.model, batch, patience=self._exit_patience
        )
        return outputs
