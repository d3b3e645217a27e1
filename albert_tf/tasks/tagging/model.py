"""Tagging, the model half."""

from typing import Any

from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.modeling import Tensor, losses
from albert_tf.modeling.sequence_models import TokenClassifierModel
from albert_tf.tasks.finetuning import MeanLossTask
from albert_tf.tasks.task import Batch, Totals


class TaggingTask(MeanLossTask):
    """Predicts the tags of words, at their first tokens.

    `tag_ids` are int32 `[B, S]`, -1 where there is none; the loss is the mean
    over all others, see `loss_denominators`. The outputs are `logits`, float32
    `[B, S, K]`.
    """

    sequence_outputs = frozenset({"logits"})

    def __init__(
        self, config: AlbertConfig, *, words_per_record: float, **options: Any
    ) -> None:
        self.model = TokenClassifierModel(config, **options)
        self._words_per_record = words_per_record

    def loss_denominators(self, batch: Batch) -> Totals:
        """Returns the number of words that as many rows have on average.

        The texts of a batch are of similar length: divided by the number of
        its own, the words of short texts would count more than others.
        """
        num_rows = ops.sum(losses.example_weights(batch))
        return {"weights": num_rows * self._words_per_record}

    def _weights(self, batch: Batch) -> Tensor:
        """Returns the weights of all tokens in the loss, float32 `[B, S]`."""
        has_tag = ops.cast(batch["tag_ids"] >= 0, "float32")
        return has_tag * losses.example_weights(batch)[:, None]

    def _measure(
        self, outputs: Totals, batch: Batch, weights: Tensor
    ) -> losses.LossSums:
        tag_ids = ops.maximum(batch["tag_ids"], 0)
        return losses.cross_entropy_sums(outputs["logits"], tag_ids, weights)
