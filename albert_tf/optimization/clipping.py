"""Gradients made dense, measured and clipped, before an optimizer sees them.

The optimizers do none of this: across replicas the gradients are first made
dense and reduced, then clipped, then applied, and only the loop knows when.

Source: google-research/albert, `optimization.create_optimizer` (global norm
1.0 for every task); the arithmetic is that of `tf.clip_by_global_norm`.
"""

import math
from collections.abc import Sequence
from typing import Any

from keras import ops

Tensor = Any


def densify(gradient: Tensor) -> Tensor:
    """Returns the gradient as one dense tensor.

    Args:
        gradient: A tensor, or the `tf.IndexedSlices` that TensorFlow makes
            for a gathered table; slices of the same row are added up.
    """
    if not hasattr(gradient, "indices"):
        return ops.convert_to_tensor(gradient)
    return ops.segment_sum(
        gradient.values, gradient.indices, num_segments=gradient.shape[0]
    )


def clip_by_global_norm(
    gradients: Sequence[Tensor], clip_norm: float = 1.0
) -> tuple[list[Tensor], Tensor]:
    """Scales all gradients alike, so that their common norm has a limit.

    Args:
        gradients: At least one gradient; none may be None.
        clip_norm: Largest norm of all gradients together.

    Returns:
        The dense clipped gradients, and their norm before it, a float32
        scalar. If the norm is not finite, every clipped gradient is NaN.
    """
    # Differs: the reference counts the slices of a gathered table one by one
    # on CPU and GPU; this is the true norm, which it uses on TPU.
    dense = [densify(gradient) for gradient in gradients]
    squares = [ops.sum(ops.square(gradient)) for gradient in dense]
    norm = ops.sqrt(ops.sum(ops.stack(squares)))
    scale = clip_norm / ops.maximum(norm, clip_norm)
    # An infinite norm would give the scale 0, and hide what went wrong.
    scale = ops.where(ops.isfinite(norm), scale, math.nan)
    return [gradient * scale for gradient in dense], norm
