"""ALBERT that finds where an answer starts and ends: SQuAD 1.1.

Source: Devlin et al. 2019, section 4.2; google-research/albert,
`squad_utils.create_v1_model`.
"""

from collections.abc import Mapping
from typing import Any

import keras

from albert_tf import config as config_lib
from albert_tf.modeling import initialization
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.output_layer import OutputLayer


class SpanModel(keras.Model):
    """An `AlbertModel` and two logits for each position.

    As in the reference, nothing is masked: positions of the question and of
    padding have logits too, and the head drops no values.

    Args:
        config: Shape of the model.
        seed: Seed of the first values of the weights, and of dropout where
            the call gives none. The encoder's are those of
            `AlbertModel(config, seed=seed)`.
        dtype: Keras dtype policy; None for Keras' global one.
        name: Name of the model.

    Call arguments:
        inputs: Dict of what `AlbertModel` takes. Other entries are ignored.
        training: Whether to drop values at the rates of the config.
        seed: Int tensor `[2]` that decides the dropout masks; None to draw
            one from the model's own generator.

    Returns:
        Dict of `start_logits` and `end_logits`, float32 `[B, S]`.

    Raises:
        ValueError: When called, a sequence is longer than
            `max_position_embeddings`.
    """

    def __init__(
        self,
        config: config_lib.AlbertConfig,
        *,
        seed: int = 0,
        dtype: Any = None,
        name: str = "span_model",
    ) -> None:
        super().__init__(dtype=dtype, name=name)
        self.config = config
        self.albert = AlbertModel(config, seed=seed, dtype=self.dtype_policy)
        # In float32 whatever the precision: logits of bfloat16, which has 128
        # values from 2 to 4, would make ties between positions.
        self.span_head = OutputLayer(
            2,
            hidden_size=config.hidden_size,
            seed=initialization.derive_seed(seed, "span_head"),
            dtype="float32",
            name="span_head",
        )
        self.built = True

    def call(
        self,
        inputs: Mapping[str, Any],
        training: bool | None = None,
        seed: Any | None = None,
    ) -> dict[str, Any]:
        encoded = self.albert(inputs, training=training, seed=seed)
        logits = self.span_head(encoded["sequence_output"])  # [B, S, 2]
        return {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}
