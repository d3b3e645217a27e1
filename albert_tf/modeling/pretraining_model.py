"""ALBERT with its pretraining heads.

Floor: modeling.

Source: Lan et al. 2020, section 3.1; google-research/albert,
`run_pretraining.model_fn_builder`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from keras import ops

from albert_tf import config as config_lib
from albert_tf.modeling import initialization, model_inputs, serialization
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.heads import MaskedLmHead, SentenceOrderHead

OBJECTIVES = ("mlm", "sop")


@serialization.register
class PretrainingModel(serialization.SerializableModel):
    """An `AlbertModel` with one head for each pretraining objective.

    Args:
        config: Configuration of the model.
        objectives: `mlm` (masked LM), `sop` (sentence order), or both; only
            the heads of these exist.
        seed: Seed of the initial weights, and of dropout where the call gives
            none. The encoder starts as `AlbertModel(config, seed=seed)`.
        dtype: Keras dtype policy; None for the global policy of Keras.
        name: Name of the model.

    Call arguments:
        inputs: Dict of the inputs of `AlbertModel` and, for `mlm`,
            `masked_lm_positions` `[B, P]`. Other entries are ignored, so
            that a whole batch can be passed.
        training: Whether to drop values at the rates of the config.
        seed: Int tensor `[2]` that decides the dropout masks; None draws one
            from the model's own generator.

    Returns:
        Dict of float32 tensors: for `mlm`, `masked_lm_logits` `[B, P, V]`;
        for `sop`, `sentence_order_logits` `[B, 2]`.

    Raises:
        ValueError: An objective is unknown, or there is none; or, when
            called, an input is missing or of the wrong kind, or a sequence is
            longer than `max_position_embeddings`.
    """

    def __init__(
        self,
        config: config_lib.AlbertConfig,
        *,
        objectives: Sequence[str] = OBJECTIVES,
        seed: int = 0,
        dtype: Any = None,
        name: str = "pretraining_model",
    ) -> None:
        if not objectives or set(objectives) - set(OBJECTIVES):
            raise ValueError(
                "`objectives` must be one or more of "
                f"{', '.join(OBJECTIVES)}. Received: "
                f"objectives={tuple(objectives)!r}."
            )
        super().__init__(dtype=dtype, name=name)
        self.config = config
        self.objectives = tuple(objectives)
        self.seed = seed
        self.albert = AlbertModel(config, seed=seed, dtype=self.dtype_policy)
        self.masked_lm_head = None
        self.sentence_order_head = None
        if "mlm" in objectives:
            self.masked_lm_head = self._head(MaskedLmHead, "mlm")
        if "sop" in objectives:
            self.sentence_order_head = self._head(SentenceOrderHead, "sop")
        self.built = True

    def _head(self, layer_class: Any, objective: str) -> Any:
        return layer_class(
            self.config,
            seed=initialization.derive_seed(self.seed, objective),
            dtype=self.dtype_policy,
        )

    def input_specs(self) -> dict[str, model_inputs.Spec]:
        specs = super().input_specs()
        if "mlm" in self.objectives:
            specs["masked_lm_positions"] = model_inputs.Spec()
        return specs

    def call(
        self,
        inputs: Mapping[str, Any],
        training: bool | None = None,
        seed: Any | None = None,
    ) -> dict[str, Any]:
        encoded = self.albert(inputs, training=training, seed=seed)
        outputs = {}
        if self.masked_lm_head is not None:
            outputs["masked_lm_logits"] = self.masked_lm_head(
                encoded["sequence_output"],
                inputs["masked_lm_positions"],
                ops.convert_to_tensor(self.albert.embeddings.word_embeddings),
            )
        if self.sentence_order_head is not None:
            outputs["sentence_order_logits"] = self.sentence_order_head(
                encoded["pooled_output"]
            )
        return outputs
