"""Makes gradients dense and clips them by their global norm.

The optimizers do neither: across replicas the gradients are made dense and
reduced, then clipped, then applied, in the order that the training step
decides.

Source: google-research/albert, `optimization.create_optimizer` (global norm
1.0 for every task); the arithmetic is that of `tf.clip_by_global_norm`.
"""

import math
from collections.abc import Sequence
from typing import Any

from keras import ops

Tensor = Any


def densify(gradient: Tensor) -> Tensor:
    """Returns a gradient as one dense tensor.

    It may be the `tf.IndexedSlices` that TensorFlow makes for a gathered table;
    slices of the same row are added.
    """
    if not hasattr(gradient, "indices"):
        return ops.convert_to_tensor(gradient)
    return ops.segment_sum(
        gradient.values, gradient.indices, num_segments=gradient.shape[0]
    )


def clip_by_global_norm(
    gradients: Sequence[Tensor], clip_norm: float = 1.0
) -> tuple[list[Tensor], Tensor]:
    """Scales all gradients by one factor to limit their global norm.

    Args:
        gradients: At least one gradient; none may be None.
        clip_norm: Largest norm of all gradients together.

    Returns:
        The dense clipped gradients, and the float32 norm that they had before
        clipping. If the norm is not finite, every clipped gradient is NaN.
    """
    # Differs: on CPU and GPU the reference takes the slices of a gathered
    # table separately; this is the true norm, which it uses on TPU.
    dense = [densify(gradient) for gradient in gradients]
    squares = [ops.sum(ops.square(gradient)) for gradient in dense]
    norm = ops.sqrt(ops.sum(ops.stack(squares)))
    scale = clip_norm / ops.maximum(norm, clip_norm)
    # An infinite norm would give a scale of 0, which would hide the problem.
    scale = ops.where(ops.isfinite(norm), scale, math.nan)
    return [gradient * scale for gradient in dense], norm
