"""ALBERT that labels every token.

Source: Devlin et al. 2019, section 5.3; transformers,
`AlbertForTokenClassification`.
"""

from collections.abc import Mapping
from typing import Any

from albert_tf.modeling import Tensor, base
from albert_tf.modeling.sequence_models import ClassifierModel


@base.register
class TokenClassifierModel(ClassifierModel):
    """An `AlbertModel` with a linear layer over the vector of each token.

    It is made as a `ClassifierModel` is; `logits` are float32 `[B, S, K]`, and
    those of padding mean nothing.
    """

    def call(
        self,
        inputs: Mapping[str, Tensor],
        training: bool | None = None,
        seed: Tensor | None = None,
        **options: Any,
    ) -> dict[str, Tensor]:
        seed = self.albert.dropout_seed(training, seed)
        encoded = self.albert(inputs, training=training, seed=seed, **options)
        return {"logits": self._logits(encoded["sequence_output"], seed)}
