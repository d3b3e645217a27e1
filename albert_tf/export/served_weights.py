"""A model's weights as a SavedModel holds them: once, in a precision.

Floor: export.
"""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf


class ServedWeights:
    """Copies of the weights of a Keras model, for use in its place.

    A graph that is traced within `scope` reads these, so that nothing of the
    Keras model is saved.

    Args:
        variables: The weights.
        precision: `float32`, or `bfloat16` to halve their size. Vectors,
            which are few values, stay float32.

    Attributes:
        copies: The variables to save.
    """

    def __init__(
        self, variables: Sequence[keras.Variable], *, precision: str
    ) -> None:
        self._originals = list(variables)
        self.copies = [
            tf.Variable(
                tf.cast(tf.constant(v.numpy()), _dtype(v, precision)),
                trainable=False,
                name=v.path,
            )
            for v in self._originals
        ]

    def scope(self) -> Any:
        """Returns a context in which the model computes with the copies."""
        return keras.StatelessScope(
            state_mapping=[
                (original, tf.cast(copy, original.dtype))
                for original, copy in zip(
                    self._originals, self.copies, strict=True
                )
            ]
        )


def _dtype(variable: keras.Variable, precision: str) -> str:
    return precision if len(variable.shape) > 1 else "float32"
