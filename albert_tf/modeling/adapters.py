"""Adapters: what a shared block adds to its linear maps in each pass.

All passes of a shared block have its weights. With adapters, each pass adds
to every kernel a matrix of rank R of its own, so that the passes may differ a
little for a few weights more. It is 0 at first.

Source: Hu et al. 2021, "LoRA"; Bae et al. 2024, "Relaxed Recursive
Transformers", section 2.3, for one in each pass.
"""

from typing import Any

from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.modeling import Tensor, base, layers
from albert_tf.modeling.fused import shared_weights


@base.register
class Adapters(base.AlbertLayer, shared_weights.HasMatrixPerPass):
    """The adapters of one linear layer, for all P passes of its block.

    Their variables are `down` `[P, in, R]` and `up` `[P, R, out]`.

    Args:
        num_passes: P.
        width: Size of the inputs.
        units: Size of the outputs.

    Call arguments:
        inputs: Float tensor `[..., in]`, those of the linear layer.

    Returns:
        Float tensor `[..., out]`, to be added to its product.
    """

    def __init__(
        self,
        config: AlbertConfig,
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

    def call(self, inputs: Tensor) -> Tensor:
        down = ops.cast(self.down, inputs.dtype)
        up = ops.cast(self.up, inputs.dtype)
        return ops.matmul(ops.matmul(inputs, down), up)


def add_to(sublayer: base.AlbertLayer, num_passes: int) -> None:
    """Gives adapters to the linear layers of a sublayer."""
    for layer in sublayer._flatten_layers(include_self=False):
        if isinstance(layer, layers.Linear):
            layer.adapters = Adapters(
                sublayer.config,
                num_passes=num_passes,
                width=layer.input_width,
                units=layer.units,
                seed=layers.derive_seed(sublayer.seed, layer.name),
                dtype=layer.dtype_policy,
            )
