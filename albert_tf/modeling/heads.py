"""The masked-LM head, and the output layer that is all of most other heads.

Floor: modeling.

Source: Lan et al. 2020, section 3.1 (inter-sentence coherence loss);
google-research/albert, `run_pretraining.get_masked_lm_output`,
`run_pretraining.get_sentence_order_output`, `classifier_utils.create_model`,
`squad_utils.create_v1_model`.
"""

from typing import Any

from keras import ops

from albert_tf import config as config_lib
from albert_tf.modeling import base, feed_forward, initialization
from albert_tf.modeling.layer_norm import LayerNorm

# TF1: the heads of the tasks do not use `initializer_range`.
TASK_STDDEV = 0.02


@base.register
class OutputLayer(base.SerializableLayer):
    """Computes logits by a linear layer, in float32 in every precision.

    Args:
        units: Number of logits, K.
        hidden_size: H.
        stddev: Standard deviation of the initial weights.
        name: Name of the layer. Checkpoints identify the variables by it.

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
        self.units = units
        self.hidden_size = hidden_size
        self.stddev = stddev
        self.seed = seed
        self.build((None, hidden_size))

    def build(self, input_shape: Any) -> None:
        # TF1: `[out, in]`, unlike every kernel.
        self.output_weights = self.add_weight(
            name="output_weights",
            shape=(self.units, self.hidden_size),
            initializer=initialization.truncated_normal(
                self.stddev, seed=self.seed, name="output_weights"
            ),
        )
        self.output_bias = self.add_weight(
            name="output_bias",
            shape=(self.units,),
            initializer="zeros",
            autocast=False,
        )

    def call(self, inputs: Any) -> Any:
        logits = ops.matmul(inputs, ops.transpose(self.output_weights))
        return ops.cast(logits, "float32") + self.output_bias

    def compute_output_shape(self, input_shape: Any) -> Any:
        return (*input_shape[:-1], self.units)


@base.register
class MaskedLmHead(base.SerializableLayer):
    """Predicts the tokens at masked positions.

    H to E, activation, layer normalization; then the word embeddings serve
    as decoder, so that the only weight of width V here is a bias.

    Args:
        name: Name of the layer. Checkpoints identify the variables by it.

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
        self.seed = seed
        self.transform = initialization.dense(
            self, "transform", config.embedding_size
        )
        self.activation = feed_forward.activation(config.hidden_act)
        self.layer_norm = LayerNorm(
            config.embedding_size, dtype=self.dtype_policy
        )
        self.build((None, None, config.hidden_size))

    def build(self, input_shape: Any) -> None:
        self.transform.build((None, None, self.config.hidden_size))
        self.layer_norm.build((None, None, self.config.embedding_size))
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

    def compute_output_shape(self, input_shape: Any) -> Any:
        return (input_shape[0], None, self.config.vocab_size)


def gather_positions(sequence: Any, positions: Any) -> Any:
    """Returns the vectors at the given positions of each sequence.

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
