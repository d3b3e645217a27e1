"""Makes a training step fast: `kernels.Kernels` in place of `operations`.

The models do not know this folder. A training step finds it in `registry`.
"""

from albert_tf.modeling.fused.attention import FlashAttention
from albert_tf.modeling.fused.kernels import (
    Kernels,
    casting_once,
    computing_with,
)

__all__ = ["FlashAttention", "Kernels", "casting_once", "computing_with"]
