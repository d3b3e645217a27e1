"""Classification and regression, the model half.

Floor: tasks.

Source: Devlin et al. 2019, section 4.1 (a layer over the pooled `[CLS]`);
google-research/albert, `classifier_utils.create_model`.
"""

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling import losses
from albert_tf.modeling.sequence_models import ClassifierModel
from albert_tf.tasks.mean_loss import MeanLossTask
from albert_tf.tasks.task import Batch


class ClassificationTask(MeanLossTask):
    """Predicts a label, or a number, for a sequence.

    Its batches have `input_ids`, `input_mask`, `segment_ids` int32 `[B, S]`
    and `label_ids` `[B]`: int32 indices of labels, or float32 numbers. Its
    outputs are `logits`, float32 `[B, K]`.

    Args:
        config: Shape of the model.
        num_labels: Number of labels, K; 0 for regression, where K is 1.
        dropout_prob: Dropout rate of the pooled output in training.
        seed: Seed of the initial weights.
        dtype: Keras dtype policy of the layers.
    """

    def __init__(
        self,
        config: AlbertConfig,
        *,
        num_labels: int,
        dropout_prob: float = 0.1,
        seed: int = 0,
        dtype: str = "float32",
    ) -> None:
        self.is_regression = not num_labels
        if self.is_regression:
            self.accuracies = {}
        self.model = ClassifierModel(
            config,
            num_labels=num_labels or 1,
            dropout_prob=dropout_prob,
            seed=seed,
            dtype=dtype,
        )

    def _measure(
        self, batch: Batch, weights: tf.Tensor, seed: tf.Tensor | None
    ) -> losses.LossSums:
        outputs = self.model(batch, training=seed is not None, seed=seed)
        measure = (
            losses.regression_sums
            if self.is_regression
            else losses.classification_sums
        )
        return measure(outputs["logits"], batch["label_ids"], weights)
