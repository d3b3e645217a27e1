"""Classification and regression, the model half.

Source: Devlin et al. 2019, section 4.1; Lan et al. 2020, appendix A.3;
google-research/albert, `classifier_utils`.
"""

from collections.abc import Sequence

from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.modeling import Tensor, losses
from albert_tf.modeling.sequence_models import ClassifierModel
from albert_tf.tasks import head_flags
from albert_tf.tasks.head_flags import HeadFlags
from albert_tf.tasks.label_task import LabelTask
from albert_tf.tasks.task import Batch


class ClassificationTask(LabelTask):
    """Predicts labels, or a number, for a sequence.

    `label_ids` are int32 indices of labels `[B]`; float32 numbers `[B]`; or,
    with `multi_label`, float32 0 and 1 `[B, K]`. The outputs are `logits`,
    float32 `[B, K]`.

    Args:
        num_labels: Number of labels, K; 0 for regression, where K is 1.
        multi_label: Whether a sequence has any number of labels.
        class_weights: K weights of sequences by their label, in the loss and
            the accuracy of the training log; empty if all are 1.
        head: Dropout rate of the pooled output, and early exit.
    """

    def __init__(
        self,
        config: AlbertConfig,
        *,
        num_labels: int,
        multi_label: bool = False,
        class_weights: Sequence[float] = (),
        head: HeadFlags = head_flags.DEFAULT_HEAD,
        seed: int = 0,
        dtype: str = "float32",
    ) -> None:
        head_flags.check_single_label(
            head.exit_patience,
            has_one_label=bool(num_labels) and not multi_label,
        )
        super().__init__(head)
        self._class_weights = tuple(class_weights)
        if multi_label:
            self._sums = losses.multi_label_sums
        elif not num_labels:
            self._sums = losses.regression_sums
            self.accuracies = {}
        self.model = ClassifierModel(
            config,
            num_labels=num_labels or 1,
            dropout_prob=head.dropout_prob,
            seed=seed,
            dtype=dtype,
        )

    def _weights(self, batch: Batch) -> Tensor:
        weights = losses.example_weights(batch)
        if not self._class_weights:
            return weights
        return weights * ops.take(self._class_weights, batch["label_ids"])
