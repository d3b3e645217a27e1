"""The model half of a task, as the training loop sees it.

It uses Keras, which is not imported here: a command checks its data first.
`task_data.py` has the data half.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

    from albert_tf.tasks.finetuning import MeanLossTask

Batch: TypeAlias = "Mapping[str, tf.Tensor]"
Totals: TypeAlias = "dict[str, tf.Tensor]"


# Returns outputs of a model, for a batch and options of a call.
ComputeOutputs: TypeAlias = "Callable[..., list[Totals]]"


def model_outputs(model: Any, batch: Batch, **options: Any) -> list[Totals]:
    """Returns a list of one: the outputs of a model for a batch."""
    return [model(model.inputs_of(batch), **options)]


class Task(Protocol):
    """The model half: a model, and a loss that is a sum over its targets.

    The training loop adds up `loss_denominators` over a step before it computes
    a loss, so that all targets of the global batch have the same weight.
    """

    model: "keras.Model"

    @property
    def total_names(self) -> tuple[str, ...]:
        """Keys of the metric totals that `loss` returns."""

    def loss_denominators(self, batch: Batch) -> Totals:
        """Returns, by loss, the float32 `[]` weight of the batch's targets."""

    def loss(
        self,
        batch: Batch,
        loss_denominators: Totals,
        *,
        seed: "tf.Tensor | None",
        compute_outputs: ComputeOutputs = model_outputs,
        **options: object,
    ) -> "tuple[tf.Tensor, Totals]":
        """Returns this batch's share of the loss, and its metric totals.

        Args:
            batch: Tensors of one micro-batch.
            loss_denominators: Denominators of the global batch.
            seed: int32 `[2]` for dropout in training; None in evaluation.
            compute_outputs: Function of the model, the batch and the options;
                the loss is the mean over the outputs that it returns.
            **options: Arguments of the model's call, such as `depth`.
        """

    def training_scores(self, totals: Mapping[str, float]) -> dict[str, float]:
        """Returns the values to log for a step, from its metric totals."""


class AnswerTask:
    """The model half that answers examples: the outputs of a model, unchanged.

    The model is a Keras model, or an export. `sequence_outputs` are the
    names of the outputs whose second axis is the sequence.
    """

    def __init__(
        self, model: Any, sequence_outputs: frozenset[str] = frozenset()
    ) -> None:
        self.model = model
        self.sequence_outputs = sequence_outputs

    @property
    def min_length(self) -> int:
        """The least length of a batch, in tokens."""
        return 1

    def outputs(self, batch: Batch) -> Totals:
        """Returns the outputs of the model, without dropout."""
        return dict(self.model(self.model.inputs_of(batch), training=False))

    @property
    def final_outputs(self) -> Callable[[Batch], Totals]:
        """The function of outputs for final scores and predictions.

        They are float32 or int32 `[B, ...]`: the model's, or, with early
        exit, of the layer at which each example leaves, and its number,
        `num_layers` int32 `[B]`.
        """
        return self.outputs


# Makes the model half from a config, `seed` and Keras's dtype policy, `dtype`;
# called in the scope of the strategy.
MakeTask: TypeAlias = "Callable[..., MeanLossTask]"
