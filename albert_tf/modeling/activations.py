"""Activation functions by the names that `hidden_act` can have.

The feed-forward sublayer and the masked-LM head use them.

Floor: modeling.

Source: google-research/albert, `modeling.get_activation`.
"""

from collections.abc import Callable
from typing import Any

from keras import ops

Activation = Callable[[Any], Any]


def activation(name: str) -> Activation:
    """Returns an activation function by name.

    Args:
        name: `gelu`, `relu`, `tanh` or `linear`; `AlbertConfig` accepts no
            other.
    """
    return _BY_NAME[name]


def gelu(inputs: Any) -> Any:
    """Computes the Gaussian error linear unit in its tanh form.

    Args:
        inputs: Float tensor of any shape.

    Returns:
        Float tensor of the same shape and dtype.
    """
    # TF1: every released model was trained with the tanh form; the exact one
    # (by erf) moves the outputs by 5e-4 of their largest value.
    return ops.gelu(inputs, approximate=True)


def linear(inputs: Any) -> Any:
    """Returns `inputs` unchanged."""
    return inputs


_BY_NAME: dict[str, Activation] = {
    "gelu": gelu,
    "relu": ops.relu,
    "tanh": ops.tanh,
    "linear": linear,
}
