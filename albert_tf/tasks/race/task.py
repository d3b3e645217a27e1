"""Multiple choice, the model half: scores each of C texts.

Floor: tasks.

Source: google-research/albert, `race_utils.create_model`; Lan et al. 2020,
appendix A.3.
"""

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling import losses
from albert_tf.modeling.sequence_models import MultipleChoiceModel
from albert_tf.tasks.mean_loss import MeanLossTask
from albert_tf.tasks.task import Batch


class MultipleChoiceTask(MeanLossTask):
    """Predicts which choice is right.

    Its batches have `input_ids`, `input_mask`, `segment_ids` int32
    `[B, C, S]` and `label_ids` int32 `[B]`; any number of choices C will do.
    Its outputs are `logits`, float32 `[B, C]`.

    Args:
        config: Shape of the model.
        dropout_prob: Dropout rate of the pooled output in training.
        seed: Seed of the initial weights.
        dtype: Keras dtype policy of the layers.
    """

    def __init__(
        self,
        config: AlbertConfig,
        *,
        dropout_prob: float = 0.1,
        seed: int = 0,
        dtype: str = "float32",
    ) -> None:
        self.model = MultipleChoiceModel(
            config, dropout_prob=dropout_prob, seed=seed, dtype=dtype
        )

    def _measure(
        self, batch: Batch, weights: tf.Tensor, seed: tf.Tensor | None
    ) -> losses.LossSums:
        outputs = self.model(batch, training=seed is not None, seed=seed)
        return losses.classification_sums(
            outputs["logits"], batch["label_ids"], weights
        )
