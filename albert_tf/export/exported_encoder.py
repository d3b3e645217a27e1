"""A model's weights as a SavedModel holds them: once, in a precision.

Floor: export.

The encoder as graph functions: every distinct block is one, traced once.

Data flow: input ids -> [this file] -> vectors.

Layers that share weights share their operations too, so that the graph, like
the weights, does not grow with the depth.

Floor: export.

Source: `modeling.albert_model` and `modeling.encoder`, whose results these
equal.
"""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from albert_tf.export import signature
from albert_tf.modeling.albert_model import AlbertModel


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


NUM_INPUTS = 3


class ServedEncoder:
    """Calls the layers of an `AlbertModel` with the weights that are served.

    Args:
        albert: Called for its structure.
        weights: The weights.
    """

    def __init__(self, albert: AlbertModel, weights: ServedWeights) -> None:
        self._albert = albert
        self._weights = weights
        self._encode = tf.function(
            self._run,
            autograph=False,
            input_signature=[signature.integers(None, None)] * NUM_INPUTS,
        )
        self._blocks: dict[tuple[int, int], Any] = {}

    def __call__(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Encodes sequences.

        Args:
            input_ids: Int32 `[B, S]`.
            input_mask: Int32 `[B, S]`, 1 for a real token, 0 for padding.
            segment_ids: Int32 `[B, S]`.

        Returns:
            In the compute dtype: the sequence output `[B, S, H]` and the
            pooled output `[B, H]`.
        """
        return self._encode(input_ids, input_mask, segment_ids)

    def _run(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        encoder = self._albert.encoder
        checks = self._checks(input_ids, input_mask, segment_ids)
        with tf.control_dependencies(checks):
            input_ids = tf.identity(input_ids)
        with self._weights.scope():
            hidden = self._albert.embeddings(input_ids, segment_ids)
            if encoder.embedding_projection is not None:
                hidden = encoder.embedding_projection(hidden)  # [B, S, H]
        # A slice with new axes is one that LiteRT does not know.
        mask = tf.expand_dims(tf.expand_dims(input_mask, 1), 1)
        passes = encoder.plan.attention, encoder.plan.feed_forward
        for attention, feed_forward in zip(*passes, strict=True):
            hidden = self._block(attention, feed_forward)(hidden, mask)
        with self._weights.scope():
            pooled = tf.tanh(self._albert.pooler(hidden[:, 0]))
        return hidden, pooled

    def _block(self, attention: int, feed_forward: int) -> Any:
        """Returns the function of a pair of sublayers."""
        indices = attention, feed_forward
        if indices not in self._blocks:
            self._blocks[indices] = self._make_block(*indices)
        return self._blocks[indices]

    def _make_block(self, attention: int, feed_forward: int) -> Any:
        encoder = self._albert.encoder

        def block(hidden: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
            with self._weights.scope():
                hidden = encoder.attention_sublayers[attention](hidden, mask)
                return encoder.feed_forward_sublayers[feed_forward](hidden)

        width = self._albert.config.hidden_size
        hidden = tf.TensorSpec((None, None, width), self._albert.compute_dtype)
        mask = signature.integers(None, 1, 1, None)
        return tf.function(
            block, autograph=False, input_signature=[hidden, mask]
        )

    def _checks(self, *inputs: tf.Tensor) -> list[tf.Operation]:
        longest = self._albert.config.max_position_embeddings
        shapes = [tf.shape(values) for values in inputs]
        # Others could be repeated silently, to the shape of the largest.
        is_same = [tf.reduce_all(shape == shapes[0]) for shape in shapes[1:]]
        return [
            tf.Assert(
                shapes[0][1] <= longest,
                [
                    f"Sequences may have at most {longest} tokens. Received:",
                    shapes[0],
                ],
            ),
            tf.Assert(
                tf.reduce_all(is_same),
                [
                    "input_ids, input_mask and segment_ids must be of one "
                    "shape. Received:",
                    *shapes,
                ],
            ),
        ]
