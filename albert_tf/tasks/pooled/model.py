"""The model half of a `PooledHead`."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.modeling import Tensor
from albert_tf.modeling.losses import LossSums
from albert_tf.tasks.finetuning import MeanLossTask
from albert_tf.tasks.task import Batch, Totals

if TYPE_CHECKING:
    from albert_tf.tasks.pooled.head import PooledHead


def squared_error(logits: Tensor, labels: Tensor) -> Tensor:
    """Returns the mean over K numbers, `[B]`."""
    return ops.mean(ops.square(logits - labels), axis=-1)


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Returns the cross entropy of K classes, `[B]`; labels are int `[B]`."""
    return ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)


def binary_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Returns the mean over K labels, `[B]`."""
    losses = ops.binary_crossentropy(labels, logits, from_logits=True)
    return ops.mean(losses, axis=-1)


# By `PooledHead.loss`.
LOSSES: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    function.__name__: function
    for function in (squared_error, cross_entropy, binary_cross_entropy)
}


class PooledTask(MeanLossTask):
    """Trains a head with its `losses`; batches have `labels`."""

    accuracies = {}

    def __init__(
        self, config: AlbertConfig, *, head: "PooledHead", **options: object
    ) -> None:
        self._head = head
        self.model = head.head.make_model(config, None, **options)

    def _measure(
        self, outputs: Totals, batch: Batch, weights: Tensor
    ) -> LossSums:
        losses = self._head.losses(outputs["logits"], batch["labels"])
        if len(losses.shape) != 1:
            # `[B, 1]` would be multiplied by the weights to `[B, B]`.
            raise ValueError(
                f"`losses` of the head {self._head.name} must return a loss "
                f"for each text, `[B]`. Received: shape {losses.shape}."
            )
        return LossSums(
            loss=ops.sum(weights * losses),
            weight=ops.sum(weights),
            correct=0.0,
        )
