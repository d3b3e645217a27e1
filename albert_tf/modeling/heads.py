"""The last layer of every head but the masked LM's: vectors to logits.

Source: google-research/albert, `run_pretraining.get_sentence_order_output`,
`classifier_utils.create_model`, `squad_utils.create_v1_model`.

Logits over the vocabulary at the masked positions.

Source: google-research/albert, `run_pretraining.get_masked_lm_output`.

Logits of the order of two segments.

Source: Lan et al. 2020, section 3.1 (inter-sentence coherence loss);
google-research/albert, `run_pretraining.get_sentence_order_output`.
"""

from typing import Any

import keras
from keras import ops

from albert_tf import config as config_lib
from albert_tf.modeling import activations, initialization
from albert_tf.modeling.layer_norm import LayerNorm

# TF1: the heads of the tasks do not look at `initializer_range`.
TASK_STDDEV = 0.02


class OutputLayer(keras.layers.Layer):
    """A linear layer whose logits are float32 in any precision.

    Args:
        units: K, how many logits.
        hidden_size: H.
        stddev: Standard deviation of the weights' first values.
        seed: Seed of the first values of the weights.
        dtype: Keras dtype policy.
        name: Name of the layer. Checkpoint readers know the variables by it.

    Call arguments:
        inputs: Float tensor `[..., H]`.

    Returns:
        Float32 tensor `[..., K]`.
    """

    def __init__(
        self,
        units: int,
        *,
        hidden_size: int,
        stddev: float = TASK_STDDEV,
        seed: int,
        dtype: Any = None,
        name: str,
    ) -> None:
        super().__init__(dtype=dtype, name=name)
        # TF1: `[out, in]`, unlike every kernel.
        self.output_weights = self.add_weight(
            name="output_weights",
            shape=(units, hidden_size),
            initializer=initialization.truncated_normal(
                stddev, seed=seed, name="output_weights"
            ),
        )
        self.output_bias = self.add_weight(
            name="output_bias",
            shape=(units,),
            initializer="zeros",
            autocast=False,
        )
        self.built = True

    def call(self, inputs: Any) -> Any:
        logits = ops.matmul(inputs, ops.transpose(self.output_weights))
        return ops.cast(logits, "float32") + self.output_bias


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
    """Predicts the tokens at chosen positions.

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


NUM_ORDERS = 2


class SentenceOrderHead(OutputLayer):
    """Tells segments in order (label 0) from swapped ones (label 1).

    Args:
        config: Shape of the model.
        seed: Seed of the first values of the weights.
        dtype: Keras dtype policy.
        name: Name of the layer. Checkpoint readers know the variables by it.

    Call arguments:
        pooled_output: Float tensor `[B, H]`.

    Returns:
        Float32 tensor `[B, 2]`, logits.
    """

    def __init__(
        self,
        config: config_lib.AlbertConfig,
        *,
        seed: int,
        dtype: Any = None,
        name: str = "sentence_order_head",
    ) -> None:
        super().__init__(
            NUM_ORDERS,
            hidden_size=config.hidden_size,
            stddev=config.initializer_range,
            seed=seed,
            dtype=dtype,
            name=name,
        )
