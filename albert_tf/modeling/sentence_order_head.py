"""Logits of the order of two segments.

Source: Lan et al. 2020, section 3.1 (inter-sentence coherence loss);
google-research/albert, `run_pretraining.get_sentence_order_output`.
"""

from typing import Any

from albert_tf import config as config_lib
from albert_tf.modeling.output_layer import OutputLayer

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
