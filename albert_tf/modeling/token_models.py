"""ALBERT that labels every token.

Source: Devlin et al. 2019, section 5.3; transformers,
`AlbertForTokenClassification`.
"""

from collections.abc import Mapping
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.modeling import Tensor, base, dropout, layers
from albert_tf.modeling.albert_model import ModelWithHead


@base.register
class TokenClassifierModel(ModelWithHead):
    """An `AlbertModel` with a linear layer over the vector of each token.

    Args:
        num_labels: Number of labels, K.
        dropout_prob: Dropout rate of the vectors in training.

    Returns:
        Dict of `logits`, float32 `[B, S, K]`; those of padding mean nothing.
    """

    def __init__(
        self,
        config: AlbertConfig,
        *,
        num_labels: int,
        dropout_prob: float = 0.1,
        **kwargs: Any,
    ) -> None:
        super().__init__(config, **kwargs)
        self.num_labels = num_labels
        self.dropout_prob = dropout_prob
        self.task_head = layers.output_layer(self, "task_head", num_labels)
        self.build_layers()

    def call(
        self,
        inputs: Mapping[str, Tensor],
        training: bool | None = None,
        seed: Tensor | None = None,
        **options: Any,
    ) -> dict[str, Tensor]:
        seed = self.albert.dropout_seed(training, seed)
        encoded = self.albert(inputs, training=training, seed=seed, **options)
        vectors = dropout.dropout(
            encoded["sequence_output"],
            rate=self.dropout_prob,
            seed=seed,
            dropout_index=dropout.HEAD_INDEX,
        )
        return {"logits": self.task_head(vectors)}
