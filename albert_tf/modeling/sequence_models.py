"""ALBERT for classification, regression, multiple choice and tags.

Source: Devlin et al. 2019, sections 4.1 and 5.3; Lan et al. 2020, appendix A.3
(RACE); google-research/albert, `classifier_utils.create_model`,
`race_utils.create_model`; transformers, `AlbertForTokenClassification`.
"""

from collections.abc import Mapping
from typing import Any

from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.modeling import Tensor, dropout, layers
from albert_tf.modeling.albert_model import ModelWithHead


class ClassifierModel(ModelWithHead):
    """An `AlbertModel` with a linear layer over its pooled output.

    Args:
        num_labels: Number of labels, K; 1 for regression.
        dropout_prob: Dropout rate of the pooled output in training.

    Returns:
        Dict of `logits`, float32 `[B, K]`; in regression, the numbers.
    """

    # Which output of the encoder the linear layer is applied to.
    _encoded = "pooled_output"

    def __init__(
        self,
        config: AlbertConfig,
        *,
        num_labels: int,
        dropout_prob: float = 0.1,
        **kwargs: object,
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
        **options: object,
    ) -> dict[str, Tensor]:
        seed = self.albert.dropout_seed(training, seed)
        if self._encoded == "pooled_output":
            # Of the last block, the vector of `[CLS]` is read.
            first = ops.zeros_like(inputs["input_ids"][:, :1], "int32")
            options["output_positions"] = first
        encoded = self.albert(inputs, training=training, seed=seed, **options)
        rate, index = self.dropout_prob, dropout.HEAD_INDEX
        vectors = dropout.dropout(encoded[self._encoded], rate, seed, index)
        return {"logits": self.task_head(vectors)}


class MultipleChoiceModel(ClassifierModel):
    """A `ClassifierModel` with one output, applied to every choice.

    The choices of a question are encoded independently; their logits compete
    in the softmax of the loss. The inputs are `[B, C, S]`, the logits `[B, C]`.
    """

    # Question and choice.
    global_segment = 1
    input_rank = 3

    def __init__(self, config: AlbertConfig, **kwargs: Any) -> None:
        super().__init__(config, **(kwargs | {"num_labels": 1}))

    def call(
        self,
        inputs: Mapping[str, Tensor],
        training: bool | None = None,
        seed: Tensor | None = None,
        **options: Any,
    ) -> dict[str, Tensor]:
        _, num_choices, length = ops.shape(inputs["input_ids"])
        rows = {
            name: ops.reshape(inputs[name], (-1, length))  # [B x C, S]
            for name in self.input_specs()
            if name in inputs
        }
        scores = super().call(rows, training=training, seed=seed, **options)
        return {"logits": ops.reshape(scores["logits"], (-1, num_choices))}


class TokenClassifierModel(ClassifierModel):
    """An `AlbertModel` with a linear layer over the vector of each token.

    It is made as a `ClassifierModel` is; `logits` are float32 `[B, S, K]`, and
    those of padding mean nothing.
    """

    _encoded = "sequence_output"
