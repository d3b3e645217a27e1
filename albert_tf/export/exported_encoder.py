"""The encoder of an exported model: weights stored once, blocks traced once.

Layers that share weights also share operations, so that the graph, like the
weights, does not grow with the depth of the model.

Data flow: input ids -> [this file] -> vectors.
Floor: export.

Source: `modeling.albert_model` and `modeling.encoder`; the results are equal.
"""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from albert_tf.export import length_groups, signature
from albert_tf.modeling.albert_model import AlbertModel


class ExportedWeights:
    """Holds copies of a Keras model's weights, for use in their place.

    A graph that is traced within `scope` reads the copies, so that nothing of
    the Keras model is saved.

    Args:
        variables: The weights.
        precision: `float32`, or `bfloat16` to halve the size of the matrices.
            Vectors, which are few values, stay float32.

    Attributes:
        copies: The variables to save.
    """

    def __init__(
        self, variables: Sequence[keras.Variable], *, precision: str
    ) -> None:
        self._originals = list(variables)
        self.copies = [
            tf.Variable(
                tf.cast(
                    tf.constant(variable.numpy()),
                    precision if len(variable.shape) > 1 else "float32",
                ),
                trainable=False,
                name=variable.path,
            )
            for variable in self._originals
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


class ExportedEncoder:
    """Runs the layers of an `AlbertModel` with exported weights."""

    def __init__(self, albert: AlbertModel, weights: ExportedWeights) -> None:
        self._albert = albert
        self._weights = weights
        self._encode = tf.function(
            self._run,
            autograph=False,
            input_signature=[signature.integers(None, None)]
            * len(signature.ID_INPUTS),
        )
        self._blocks: dict[tuple[int, int], Any] = {}

    def __call__(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Encodes sequences; all inputs are int32 `[B, S]`.

        Returns the sequence output `[B, S, H]`, zero behind the last token of a
        row, and the pooled output `[B, H]`, in the compute dtype. A batch costs
        about what its tokens cost, however long the longest row is.
        """
        return self._encode(input_ids, input_mask, segment_ids)

    def _run(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        checks = self._checks(input_ids, input_mask, segment_ids)
        with tf.control_dependencies(checks):
            input_ids = tf.identity(input_ids)
        return length_groups.encode_in_groups(
            self._run_group,
            input_ids,
            input_mask,
            segment_ids,
            hidden_size=self._albert.config.hidden_size,
            dtype=self._albert.compute_dtype,
        )

    def _run_group(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        encoder = self._albert.encoder
        with self._weights.scope():
            hidden = self._albert.embeddings(input_ids, segment_ids)
            if encoder.embedding_projection is not None:
                hidden = encoder.embedding_projection(hidden)  # [B, S, H]
        # LiteRT does not support slices that add axes.
        mask = tf.expand_dims(tf.expand_dims(input_mask, 1), 1)
        for sublayers in encoder.blocks:
            if sublayers not in self._blocks:
                self._blocks[sublayers] = self._make_block(*sublayers)
            hidden = self._blocks[sublayers](hidden, mask)
        with self._weights.scope():
            pooled = tf.tanh(self._albert.pooler(hidden[:, 0]))
        return hidden, pooled

    def _make_block(self, attention: int, feed_forward: int) -> Any:
        """Returns a graph function of two sublayers, given by index."""
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
        # Different shapes could be broadcast silently.
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
                    "input_ids, input_mask and segment_ids must have the same "
                    "shape. Received:",
                    *shapes,
                ],
            ),
        ]
