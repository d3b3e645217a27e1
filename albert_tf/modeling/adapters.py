"""Adapters: what a shared block adds to its linear maps in each pass.

All passes of a shared block have its weights. With adapters, each pass adds
to every kernel a matrix of rank R of its own, so that the passes may differ a
little for a few weights more. It is 0 at first.

Source: Hu et al. 2021, "LoRA"; Bae et al. 2024, "Relaxed Recursive
Transformers", section 2.3, for one in each pass.
"""

from typing import Any

from keras import ops

from albert_tf import config as config_lib
from albert_tf.modeling import base, layers


@base.register
class Adapters(base.AlbertLayer):
    """The adapters of one linear layer, for all P passes of its block.

    Their variables, `down` `[P, in, R]` and `up` `[P, R, out]`, have a matrix
    for each call that `fused.shared_weights` makes.

    Args:
        num_passes: P.
        width: Size of the inputs.
        units: Size of the outputs.

    Call arguments:
        inputs: Float tensor `[..., in]`, those of the linear layer.

    Returns:
        Float tensor `[..., out]`, to be added to its product.
    """

    default_name = "adapters"

    def __init__(
        self,
        config: config_lib.AlbertConfig,
        *,
        num_passes: int,
        width: int,
        units: int,
        **kwargs: Any,
    ) -> None:
        super().__init__(config, **kwargs)
        self.num_passes = num_passes
        self.width = width
        self.units = units

    def build(self, input_shape: Any = None) -> None:
        rank = self.config.adapter_rank
        self.down = self.add_weight(
            name="down",
            shape=(self.num_passes, self.width, rank),
            initializer=layers.truncated_normal(
                self.config.initializer_range, seed=self.seed, name="down"
            ),
            autocast=False,
        )
        self.up = self.add_weight(
            name="up",
            shape=(self.num_passes, rank, self.units),
            initializer="zeros",
            autocast=False,
        )

    def call(self, inputs: Any) -> Any:
        down = ops.cast(self.down, inputs.dtype)
        up = ops.cast(self.up, inputs.dtype)
        return ops.matmul(ops.matmul(inputs, down), up)


def add_to(encoder: Any) -> None:
    """Gives adapters to the linear layers that several blocks share."""
    halves = zip(*encoder.sublayers_of_blocks, strict=True)
    for sublayers, uses in zip(
        (encoder.attention_sublayers, encoder.feed_forward_sublayers),
        halves,
        strict=True,
    ):
        for index, sublayer in enumerate(sublayers):
            for layer in sublayer._flatten_layers(include_self=False):
                if isinstance(layer, layers.Linear) and uses.count(index) > 1:
                    layer.adapters = Adapters(
                        encoder.config,
                        num_passes=uses.count(index),
                        width=layer.input_width,
                        units=layer.units,
                        seed=layers.derive_seed(sublayer.seed, layer.name),
                        dtype=layer.dtype_policy,
                    )
