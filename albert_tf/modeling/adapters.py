"""Adapters: what a shared block adds to its linear maps in each pass.

Each pass adds to every kernel a matrix of rank R of its own, 0 at first, so
that the passes may differ a little for a few weights more.

Source: Hu et al. 2021, "LoRA"; Bae et al. 2024, "Relaxed Recursive
Transformers", section 2.3, for one in each pass.
"""

from typing import Any

from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.modeling import Tensor, base, layers


class Adapters(base.AlbertLayer):
    """The adapters of one linear layer, for all P passes of its block.

    Their variables are `down` `[P, in, R]` and `up` `[P, R, out]`. A call turns
    the inputs of the linear layer, `[..., in]`, into what is added to its
    product, `[..., out]`. `width` is the size of in, `units` that of out.
    """

    # See `fused.shared_weights.ids_of_stacks`.
    has_matrix_per_pass = True

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
        normal = layers.truncated_normal(
            self.config.initializer_range, seed=self.seed, name="down"
        )
        shape = (self.num_passes, self.width, rank)
        self.down = self.add_weight(shape, normal, autocast=False, name="down")
        shape = (self.num_passes, rank, self.units)
        self.up = self.add_weight(shape, "zeros", autocast=False, name="up")

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
