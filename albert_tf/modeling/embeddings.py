"""Embeddings: word, segment type and position, summed and normalized.

Their width is E; the encoder projects them to H. Everything here is computed
in float32: rows are looked up, not multiplied, so that a lower precision would
save nothing.

Source: Lan et al. 2020, section 3.1 (factorized embedding);
google-research/albert, `modeling.embedding_postprocessor`.
"""

from typing import Any

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.modeling import Tensor, base, dropout, layers


@base.register
class Table(keras.layers.Embedding):
    """An `Embedding` layer whose weights are float32, or quantized.

    Its variable has the path of the layer itself, as in TF1 checkpoints.
    """

    input_width = None  # The inputs are ids, `[B, S]`.

    def add_weight(self, *args: object, **kwargs: object) -> keras.Variable:
        return super().add_weight(*args, **(kwargs | {"autocast": False}))

    def build(self, input_shape: object = None) -> None:
        super().build(input_shape)
        self._embeddings._path = self.path

    @property
    def matrix(self) -> Tensor:
        """All rows, float `[rows, E]`."""
        if self.quantization_mode is None:
            return self.embeddings
        return self(ops.arange(self.input_dim))

    def quantize(self, mode: object = None, **options: object) -> None:
        # Keras refuses subclasses of `Embedding`.
        super().quantize(mode, **(options | {"type_check": False}))


class Embeddings(base.AlbertLayer):
    """Turns token ids and segment ids into vectors.

    Call arguments:
        input_ids: Int tensor `[B, S]`, 0 to V - 1.
        segment_ids: Int tensor `[B, S]`, 0 to type_vocab_size - 1.
        position_ids: Int tensor `[B, S]`; None for 0, 1, 2, ...

    Returns:
        Float tensor `[B, S, E]` in the compute dtype.
    """

    def __init__(self, config: AlbertConfig, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        self.word_embeddings = self._table("word_embeddings", config.vocab_size)
        self.token_type_embeddings = self._table(
            "token_type_embeddings", config.type_vocab_size
        )
        self.position_embeddings = self._table(
            "position_embeddings", config.max_position_embeddings
        )
        embedding_size = config.embedding_size
        self.layer_norm = layers.LayerNorm(embedding_size, dtype="float32")

    def _table(self, name: str, num_rows: int) -> Table:
        return Table(
            num_rows,
            self.config.embedding_size,
            embeddings_initializer=layers.truncated_normal(
                self.config.initializer_range, seed=self.seed, name=name
            ),
            dtype="float32",
            name=name,
        )

    def call(
        self,
        input_ids: Tensor,
        segment_ids: Tensor,
        position_ids: Tensor | None = None,
        seed: Tensor | None = None,
    ) -> Tensor:
        if position_ids is None:
            length = ops.shape(input_ids)[1]
            longest = self.config.max_position_embeddings
            if isinstance(length, int) and length > longest:
                raise ValueError(
                    f"Sequences may have at most {longest} tokens "
                    f"(`max_position_embeddings`). Received: {length}."
                )
            positions = self.position_embeddings.matrix[:length]
            # An exported model may hold its tables in a lower precision.
            positions = ops.cast(positions, "float32")
        else:
            positions = self.position_embeddings(position_ids)
        # With one type, ids are ignored: transformers 5 returns no segments.
        if self.config.type_vocab_size == 1:
            segment_ids = ops.zeros_like(segment_ids)
        words = self.word_embeddings(input_ids)  # [B, S, E]
        types = self.token_type_embeddings(segment_ids)
        embedded = self.layer_norm(words, types, positions)  # adds them first
        rate, index = self.config.hidden_dropout_prob, dropout.EMBEDDINGS_INDEX
        embedded = dropout.dropout(embedded, rate, seed, index)
        return ops.cast(embedded, self.compute_dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return (*input_shape, self.config.embedding_size)
