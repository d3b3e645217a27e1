"""An ALBERT with a linear layer of any name over its pooled output."""

from albert_tf.config import AlbertConfig
from albert_tf.modeling import layers
from albert_tf.modeling.albert_model import ModelWithHead
from albert_tf.modeling.sequence_models import ClassifierModel


class PooledModel(ClassifierModel):
    """A `ClassifierModel` of a head that other programs do not know.

    Args:
        head_name: Checkpoints call the variables `heads/<head_name>_head/...`.
        num_labels: Number of logits, K.
        dropout_prob: Dropout rate of the pooled output in training.

    Returns:
        Dict of `logits`, float32 `[B, K]`.
    """

    def __init__(
        self,
        config: AlbertConfig,
        *,
        head_name: str,
        num_labels: int,
        dropout_prob: float = 0.1,
        **kwargs: object,
    ) -> None:
        # The layer of a classifier has a name that others know.
        ModelWithHead.__init__(self, config, **kwargs)
        self.head_name = head_name
        self.num_labels = num_labels
        self.dropout_prob = dropout_prob
        self.task_head = layers.output_layer(
            self, f"{head_name}_head", num_labels
        )
        self.build_layers()
