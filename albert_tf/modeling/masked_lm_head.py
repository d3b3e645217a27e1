"""Logits over the vocabulary at the masked positions.

Source: google-research/albert, `run_pretraining.get_masked_lm_output`.
"""

from typing import Any

import keras
from keras import ops

from albert_tf import config as config_lib
from albert_tf.modeling import activations, initialization
from albert_tf.modeling.layer_norm import LayerNorm


def gather_positions(sequence: Any, positions: Any) -> Any:
    """Picks vectors out of each sequence.

    Args:
        sequence: Float tensor `[B, S, H]`.
        positions: Int tensor `[B, P]`, 0 to S - 1.

    Returns:
        Float tensor `[B, P, H]`.
    """
    batch, length, width = ops.shape(sequence)
    starts = ops.arange(batch, dtype=positions.dtype)[:, None] * length
    flat = ops.reshape(sequence, (batch * length, width))
    return ops.take(flat, positions + starts, axis=0)


class MaskedLmHead(keras.layers.Layer):
    """Predicts the pieces at chosen positions.

    H to E, activation, layer normalisation; then the word embeddings serve
    as decoder, so that the only weight of width V here is a bias.

    Args:
        config: Shape of the model.
        seed: Seed of the first values of the weights.
        dtype: Keras dtype policy.
        name: Name of the layer. Checkpoint readers know the variables by it.

    Call arguments:
        sequence_output: Float tensor `[B, S, H]`.
        positions: Int tensor `[B, P]`, 0 to S - 1; unused slots hold 0.
        word_embeddings: Float tensor `[V, E]`, the table of the embeddings.

    Returns:
        Float32 tensor `[B, P, V]`, logits.
    """

    def __init__(
        self,
        config: config_lib.AlbertConfig,
        *,
        seed: int,
        dtype: Any = None,
        name: str = "masked_lm_head",
    ) -> None:
        super().__init__(dtype=dtype, name=name)
        self.config = config
        self.transform = initialization.dense(
            config.embedding_size,
            stddev=config.initializer_range,
            seed=seed,
            name="transform",
            dtype=self.dtype_policy,
        )
        self.activation = activations.activation(config.hidden_act)
        self.layer_norm = LayerNorm(
            config.embedding_size, dtype=self.dtype_policy
        )
        self.build()

    def build(self, input_shape: Any = None) -> None:
        self.transform.build((None, self.config.hidden_size))
        self.layer_norm.build()
        self.output_bias = self.add_weight(
            name="output_bias",
            shape=(self.config.vocab_size,),
            initializer="zeros",
            autocast=False,
        )

    def call(
        self, sequence_output: Any, positions: Any, word_embeddings: Any
    ) -> Any:
        hidden = gather_positions(sequence_output, positions)  # [B, P, H]
        hidden = self.activation(self.transform(hidden))  # [B, P, E]
        hidden = self.layer_norm(hidden)
        logits = ops.matmul(hidden, ops.transpose(word_embeddings))
        return ops.cast(logits, "float32") + self.output_bias
