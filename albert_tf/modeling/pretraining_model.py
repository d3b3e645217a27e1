"""ALBERT with its pretraining heads: masked tokens and sentence order.

Source: Lan et al. 2020, section 3.1 (inter-sentence coherence loss);
google-research/albert, `run_pretraining.model_fn_builder` and
`run_pretraining.get_masked_lm_output`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from keras import ops
from keras.layers import InputSpec

from albert_tf import checks
from albert_tf.config import AlbertConfig
from albert_tf.modeling import Tensor, base, layers
from albert_tf.modeling.albert_model import ModelWithHead
from albert_tf.modeling.feed_forward import ACTIVATIONS

OBJECTIVES = ("mlm", "sop")
# Label 0: the segments are in order; label 1: they are swapped.
NUM_ORDERS = 2


class MaskedLmHead(base.AlbertLayer):
    """Predicts the tokens at masked positions.

    A linear layer from H to E, activation, layer normalization; the output
    matrix is the table of word embeddings, so only a bias of width V is new.

    Call arguments:
        hidden: Float tensor `[B, P, H]`, the vectors of masked positions.
        word_embeddings: Float tensor `[V, E]`, as in `Embeddings`.

    Returns:
        Float32 tensor `[B, P, V]`, logits.
    """

    def __init__(self, config: AlbertConfig, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        size, hidden_size = config.embedding_size, config.hidden_size  # E, H
        activation = ACTIVATIONS[config.hidden_act]
        self.transform = layers.dense(
            self, "transform", hidden_size, size, activation=activation
        )
        self.layer_norm = layers.LayerNorm(size, dtype=self.dtype_policy)

    def build(self, input_shape: object = None) -> None:
        super().build(input_shape)
        shape = (self.config.vocab_size,)
        self.output_bias = self.add_weight(
            shape, "zeros", "float32", autocast=False, name="output_bias"
        )

    def call(self, hidden: Tensor, word_embeddings: Tensor) -> Tensor:
        hidden = self.layer_norm(self.transform(hidden))  # [B, P, E]
        logits = ops.matmul(hidden, ops.transpose(word_embeddings))
        return ops.cast(logits, "float32") + self.output_bias

    def compute_output_shape(self, input_shape: Any) -> Any:
        return (input_shape[0], None, self.config.vocab_size)


class PretrainingModel(ModelWithHead):
    """An `AlbertModel` with one head for each pretraining objective.

    Args:
        objectives: `mlm` (masked LM), `sop` (sentence order), or both; only
            their heads are created.

    Call arguments:
        inputs: Dict of the inputs of `AlbertModel` and, for `mlm`,
            `masked_lm_positions` `[B, P]`.

    Returns:
        Dict of float32 tensors: for `mlm`, `masked_lm_logits` `[B, P, V]`;
        for `sop`, `sentence_order_logits` `[B, 2]`.
    """

    def __init__(
        self,
        config: AlbertConfig,
        *,
        objectives: Sequence[str] = OBJECTIVES,
        **kwargs: object,
    ) -> None:
        for objective in objectives:
            checks.check_choice("objectives", objective, OBJECTIVES)
        super().__init__(config, **kwargs)
        self.objectives = tuple(objectives)
        self.masked_lm_head = self.sentence_order_head = None
        if "mlm" in objectives:
            self.masked_lm_head = MaskedLmHead(
                config,
                seed=layers.derive_seed(self.seed, "mlm"),
                dtype=self.dtype_policy,
            )
        if "sop" in objectives:
            self.sentence_order_head = layers.OutputLayer(
                NUM_ORDERS,
                hidden_size=config.hidden_size,
                stddev=config.initializer_range,
                seed=layers.derive_seed(self.seed, "sop"),
                dtype=self.dtype_policy,
                name="sentence_order_head",
            )
        self.build_layers()

    def input_specs(self) -> dict[str, InputSpec]:
        specs = super().input_specs()
        if "mlm" in self.objectives:
            specs["masked_lm_positions"] = InputSpec("int32", ndim=2)
        return specs

    def call(
        self,
        inputs: Mapping[str, Tensor],
        training: bool | None = None,
        seed: Tensor | None = None,
        **options: object,
    ) -> dict[str, Tensor]:
        # The heads read `[CLS]` and the masked positions, nothing else.
        positions = ops.zeros_like(inputs["input_ids"][:, :1], "int32")
        if self.masked_lm_head is not None:
            masked = ops.cast(inputs["masked_lm_positions"], "int32")
            positions = ops.concatenate([positions, masked], axis=1)
        encoded = self.albert(
            inputs,
            training=training,
            seed=seed,
            output_positions=positions,
            **options,
        )
        outputs = {}
        if self.masked_lm_head is not None:
            table = self.albert.embeddings.word_embeddings.matrix
            outputs["masked_lm_logits"] = self.masked_lm_head(
                encoded["sequence_output"][:, 1:],
                ops.convert_to_tensor(table),
            )
        if self.sentence_order_head is not None:
            outputs["sentence_order_logits"] = self.sentence_order_head(
                encoded["pooled_output"]
            )
        return outputs
