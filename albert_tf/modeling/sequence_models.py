"""ALBERT for classification, regression, multiple choice and tags.

Source: Devlin et al. 2019, sections 4.1 and 5.3; Lan et al. 2020, appendix A.3
(RACE); google-research/albert, `classifier_utils.create_model`,
`race_utils.create_model`; transformers, `AlbertForTokenClassification`.
"""

from collections.abc import Mapping
from typing import Any

from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.modeling import Tensor, base, dropout, layers
from albert_tf.modeling.albert_model import ModelWithHead


@base.register
class ClassifierModel(ModelWithHead):
    """An `AlbertModel` with a linear layer over its pooled output.

    Args:
        num_labels: Number of labels, K; 1 for regression.
        dropout_prob: Dropout rate of the pooled output in training.
        trains_exits: Whether to apply the head to the output of every block
            in training, for early exit.

    Returns:
        Dict of `logits`, float32 `[B, K]`; in regression, the numbers. With
        `trains_exits`, in training also `exit_logits`, float32 `[L, B, K]`, of
        each of L blocks.
    """

    def __init__(
        self,
        config: AlbertConfig,
        *,
        num_labels: int,
        dropout_prob: float = 0.1,
        trains_exits: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(config, **kwargs)
        self.num_labels = num_labels
        self.dropout_prob = dropout_prob
        self.trains_exits = trains_exits
        self.albert.output_hidden_states = trains_exits
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
        # Of the last block, the vector of `[CLS]` is read.
        output_positions = ops.zeros_like(inputs["input_ids"][:, :1], "int32")
        encoded = self.albert(
            inputs,
            training=training,
            seed=seed,
            output_positions=output_positions,
            **options,
        )
        logits = self._logits(encoded["pooled_output"], seed)
        if not (self.trains_exits and training):
            return {"logits": logits}
        exits = [
            self._logits(self.albert.pool(hidden), seed)
            for hidden in encoded["hidden_states"][1:-1]
        ]
        return {"logits": logits, "exit_logits": ops.stack([*exits, logits])}

    def _logits(self, pooled: Tensor, seed: Tensor | None) -> Tensor:
        rate, index = self.dropout_prob, dropout.HEAD_INDEX
        pooled = dropout.dropout(
            pooled, rate=rate, seed=seed, dropout_index=index
        )
        return self.task_head(pooled)


@base.register
class MultipleChoiceModel(ClassifierModel):
    """A `ClassifierModel` with one output, applied to every choice.

    The choices of a question are encoded independently; their logits compete
    in the softmax of the loss. The inputs are `[B, C, S]`, the logits `[B, C]`,
    the `exit_logits` `[L, B, C]`.
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
        outputs = {}
        for name, values in scores.items():  # [..., B x C, 1]
            shape = (*ops.shape(values)[:-2], -1, num_choices)
            outputs[name] = ops.reshape(values, shape)
        return outputs


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
