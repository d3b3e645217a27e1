"""ALBERT with the heads that it is pretrained with.

Source: Lan et al. 2020, section 3.1; google-research/albert,
`run_pretraining.model_fn_builder`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from albert_tf import config as config_lib
from albert_tf.modeling import initialization
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.heads import MaskedLmHead, SentenceOrderHead

OBJECTIVES = ("mlm", "sop")


class PretrainingModel(keras.Model):
    """An `AlbertModel` and one head for each objective.

    Args:
        config: Shape of the model.
        objectives: `mlm`, `sop`, or both; only their heads exist.
        seed: Seed of the first values of the weights, and of dropout where
            the call gives none. The encoder's are those of
            `AlbertModel(config, seed=seed)`.
        dtype: Keras dtype policy; None for Keras' global one.
        name: Name of the model.

    Call arguments:
        inputs: Dict of what `AlbertModel` takes, and, for `mlm`,
            `masked_lm_positions` `[B, P]`. Other entries are ignored, so
            that a whole batch may be given.
        training: Whether to drop values at the rates of the config.
        seed: Int tensor `[2]` that decides the dropout masks; None to draw
            one from the model's own generator.

    Returns:
        Dict of float32 tensors: for `mlm`, `masked_lm_logits` `[B, P, V]`;
        for `sop`, `sentence_order_logits` `[B, 2]`.

    Raises:
        ValueError: An objective is unknown, or there is none; or, when
            called, a sequence is longer than `max_position_embeddings`.
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
        _check_objectives(objectives)
        super().__init__(dtype=dtype, name=name)
        self.config = config
        self.albert = AlbertModel(config, seed=seed, dtype=self.dtype_policy)
        self.masked_lm_head = None
        self.sentence_order_head = None
        if "mlm" in objectives:
            self.masked_lm_head = self._head(MaskedLmHead, seed, "mlm")
        if "sop" in objectives:
            self.sentence_order_head = self._head(
                SentenceOrderHead, seed, "sop"
            )
        self.built = True

    def _head(self, layer_class: Any, seed: int, objective: str) -> Any:
        return layer_class(
            self.config,
            seed=initialization.derive_seed(seed, objective),
            dtype=self.dtype_policy,
        )

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


def _check_objectives(objectives: Sequence[str]) -> None:
    unknown = [name for name in objectives if name not in OBJECTIVES]
    if unknown or not objectives:
        raise ValueError(
            "`objectives` must be one or more of "
            f"{', '.join(OBJECTIVES)}. Received: "
            f"objectives={tuple(objectives)!r}."
        )
