"""Logits of the order of two segments.

Source: Lan et al. 2020, section 3.1 (inter-sentence coherence loss);
google-research/albert, `run_pretraining.get_sentence_order_output`.
"""

from typing import Any

import keras
from keras import ops

from albert_tf import config as config_lib
from albert_tf.modeling import initialization

NUM_ORDERS = 2


class SentenceOrderHead(keras.layers.Layer):
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
        super().__init__(dtype=dtype, name=name)
        self.config = config
        self.seed = seed
        self.build()

    def build(self, input_shape: Any = None) -> None:
        # TF1: `[out, in]`, unlike every kernel.
        self.output_weights = self.add_weight(
            name="output_weights",
            shape=(NUM_ORDERS, self.config.hidden_size),
            initializer=initialization.truncated_normal(
                self.config.initializer_range,
                seed=self.seed,
                name="output_weights",
            ),
        )
        self.output_bias = self.add_weight(
            name="output_bias",
            shape=(NUM_ORDERS,),
            initializer="zeros",
            autocast=False,
        )

    def call(self, pooled_output: Any) -> Any:
        logits = ops.matmul(pooled_output, ops.transpose(self.output_weights))
        return ops.cast(logits, "float32") + self.output_bias
