"""Activation functions by the name that `hidden_act` gives them.

Used by the feed-forward sublayer and by the masked-LM head's transform.

Source: google-research/albert, `modeling.get_activation`.
"""

from collections.abc import Callable
from typing import Any

from keras import ops

Activation = Callable[[Any], Any]


def gelu(inputs: Any) -> Any:
    """Gaussian error linear unit, in its tanh form.

    Args:
        inputs: Float tensor of any shape.

    Returns:
        Float tensor of the same shape and dtype.
    """
    # TF1: every released model was trained with the tanh form; the exact one
    # (by erf) moves the outputs by 5e-4 of their largest value.
    return ops.gelu(inputs, approximate=True)


def linear(inputs: Any) -> Any:
    """Returns `inputs`."""
    return inputs


_BY_NAME: dict[str, Activation] = {
    "gelu": gelu,
    "relu": ops.relu,
    "tanh": ops.tanh,
    "linear": linear,
}


def activation(name: str) -> Activation:
    """Returns the activation function of this name.

    Args:
        name: `gelu`, `relu`, `tanh` or `linear`; `AlbertConfig` has already
            refused any other.
    """
    return _BY_NAME[name]
