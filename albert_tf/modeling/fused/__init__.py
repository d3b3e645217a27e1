"""What makes a training step on a CPU fast, behind a few plain operations.

Each operation computes a formula of the paper with the operations of the back
end. Given a `Fusion`, it is compiled as one kernel, and so is its gradient, in
closed form. No other place knows what is compiled.
"""

from albert_tf.modeling.fused.fusion import (
    Fusion,
    copy_for_gradients,
    sum_of_all,
)
from albert_tf.modeling.fused.operations import (
    add_and_normalize,
    attend,
    cross_entropy,
    gelu,
    gelu_erf,
    linear,
)

__all__ = [
    "Fusion",
    "add_and_normalize",
    "attend",
    "cross_entropy",
    "copy_for_gradients",
    "gelu",
    "gelu_erf",
    "linear",
    "sum_of_all",
]
