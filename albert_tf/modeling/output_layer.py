"""The last layer of every head but the masked LM's: vectors to logits.

Source: google-research/albert, `run_pretraining.get_sentence_order_output`,
`classifier_utils.create_model`, `squad_utils.create_v1_model`.
"""

from typing import Any

import keras
from keras import ops

from albert_tf.modeling import initialization

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
