"""Embeddings: word, segment type and position, summed and normalized.

Their width is E; the encoder projects them to H. Everything here is computed
in float32, because rows of the tables are looked up, not multiplied, so that a
lower precision would save nothing.

Source: Lan et al. 2020, section 3.1 (factorized embedding);
google-research/albert, `modeling.embedding_postprocessor`.
"""

from typing import Any

import keras
from keras import ops

from albert_tf import config as config_lib
from albert_tf.modeling import base, dropout, fused, layers
from albert_tf.modeling.layers import LayerNorm


@base.register
class Embeddings(base.AlbertLayer):
    """Turns token ids and segment ids into vectors.

    Call arguments:
        input_ids: Int tensor `[B, S]`, 0 to V - 1.
        segment_ids: Int tensor `[B, S]`, 0 to type_vocab_size - 1.
        position_ids: Int tensor `[B, S]`, the row of the position table for
            each token; None for 0, 1, and so on.

    Returns:
        Float tensor `[B, S, E]` in the compute dtype.
    """

    default_name = "embeddings"

    def __init__(self, config: config_lib.AlbertConfig, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        self.layer_norm = LayerNorm(config.embedding_size, dtype="float32")

    def build(self, input_shape: Any = None) -> None:
        config, add_table = self.config, self._add_table
        self.word_embeddings = add_table("word_embeddings", config.vocab_size)
        self.token_type_embeddings = add_table(
            "token_type_embeddings", config.type_vocab_size
        )
        self.position_embeddings = add_table(
            "position_embeddings", config.max_position_embeddings
        )
        self.layer_norm.build((None, None, config.embedding_size))

    def _add_table(self, name: str, num_rows: int) -> keras.Variable:
        return self.add_weight(
            name=name,
            shape=(num_rows, self.config.embedding_size),
            initializer=layers.truncated_normal(
                self.config.initializer_range, seed=self.seed, name=name
            ),
            dtype="float32",
            autocast=False,
        )

    def call(
        self,
        input_ids: Any,
        segment_ids: Any,
        position_ids: Any | None = None,
        seed: Any | None = None,
        fusion: fused.Fusion | None = None,
    ) -> Any:
        positions = self.position_embeddings[: ops.shape(input_ids)[1]]
        if position_ids is not None:
            positions = ops.take(self.position_embeddings, position_ids, axis=0)
        words = ops.take(self.word_embeddings, input_ids, axis=0)
        types = ops.take(self.token_type_embeddings, segment_ids, axis=0)
        # An exported model may hold its tables in a lower precision.
        words, types, positions = (
            ops.cast(values, "float32") for values in (words, types, positions)
        )
        embedded = self.layer_norm(words, types, positions, fusion=fusion)
        embedded = dropout.dropout(
            embedded,  # [B, S, E]
            rate=self.config.hidden_dropout_prob,
            seed=seed,
            site=dropout.EMBEDDINGS_SITE,
        )
        return ops.cast(embedded, self.compute_dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return (*input_shape, self.config.embedding_size)
