"""Several models as one, whose outputs give the mean of their probabilities.

Data flow: batch -> outputs of each model -> [this file] -> outputs.
Source: Lan et al. 2020, section 4.9, whose leaderboard entries are ensembles.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
from keras import ops

from albert_tf.modeling import Tensor
from albert_tf.tasks.task import Batch, Totals

_PADDING_LOGIT = -1e9


class Ensemble(keras.Model):
    """Models that are called together; `mean` makes one output of theirs.

    It takes the outputs of the models and the inputs; see
    `HeadSpec.mean_outputs`.
    """

    def __init__(
        self, models: Sequence[Any], mean: Callable[..., Totals]
    ) -> None:
        super().__init__()
        self.models, self._mean = [*models], mean
        self.built = True

    def inputs_of(self, batch: Batch) -> dict[str, Any]:
        """Returns the inputs in a batch."""
        inputs: dict[str, Any] = self.models[0].inputs_of(batch)
        return inputs

    def call(self, inputs: Mapping[str, Tensor], training: bool = False) -> Any:
        """Returns the outputs that `mean` makes."""
        all_outputs = [
            model(inputs, training=training) for model in self.models
        ]
        return self._mean(all_outputs, inputs)


def softmax_logits(
    logits: Sequence[Tensor], mask: Tensor | None = None
) -> Tensor:
    """Returns logits whose softmax is the mean of those of several models.

    Those of equal models are theirs, as the mean of the denominators is kept.
    `mask` is 0 where logits, `[B, S]`, are of padding.
    """
    if mask is not None:
        logits = [ops.where(mask > 0, one, _PADDING_LOGIT) for one in logits]
    sums = [ops.logsumexp(one, axis=-1, keepdims=True) for one in logits]
    shares = [one - total for one, total in zip(logits, sums, strict=True)]
    return _log_mean(shares) + sum(sums) / len(sums)


def sigmoid_logits(logits: Sequence[Tensor]) -> Tensor:
    """Returns logits whose sigmoid is the mean of those of several models."""
    yes, no = (
        _log_mean([ops.log_sigmoid(sign * one) for one in logits])
        for sign in (1, -1)
    )
    return yes - no


def _log_mean(logs: Sequence[Tensor]) -> Tensor:
    return ops.logsumexp(ops.stack(logs), axis=0) - ops.log(float(len(logs)))
