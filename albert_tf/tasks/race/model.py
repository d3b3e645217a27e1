"""Multiple choice, the model half.

Source: Lan et al. 2020, appendix A.3; google-research/albert, `race_utils`.
"""

from typing import Any

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling import losses
from albert_tf.modeling.sequence_models import MultipleChoiceModel
from albert_tf.tasks import head_flags
from albert_tf.tasks.finetuning import MeanLossTask
from albert_tf.tasks.head_flags import HeadFlags
from albert_tf.tasks.task import Batch, Totals


class MultipleChoiceTask(MeanLossTask):
    """Predicts which of any number of choices is right.

    Sequences are `[B, C, S]`, `label_ids` int32 `[B]`. The outputs are
    `logits`, float32 `[B, C]`. `head` has the dropout rate of the pooled
    output, and early exit.
    """

    def __init__(
        self,
        config: AlbertConfig,
        *,
        head: HeadFlags = head_flags.DEFAULT_HEAD,
        **options: Any,
    ) -> None:
        self._exit_patience = head.exit_patience
        self.model = MultipleChoiceModel(
            config,
            dropout_prob=head.dropout_prob,
            trains_exits=head.exit_losses,
            **options,
        )

    def _measure(
        self, outputs: Totals, batch: Batch, weights: tf.Tensor
    ) -> losses.LossSums:
        return losses.cross_entropy_sums(
            outputs["logits"], batch["label_ids"], weights
        )
