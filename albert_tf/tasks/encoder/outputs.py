"""Vectors of texts: the model half."""

from typing import Any

import tensorflow as tf

from albert_tf.tasks.encoder.data import VectorData
from albert_tf.tasks.task import Batch, ModelOutputs, Totals


class VectorOutputs(ModelOutputs):
    """Computes `vector`, float32 `[B, H]`, as `data` says; see `VectorData`."""

    def __init__(self, data: VectorData, model: Any) -> None:
        super().__init__(model)
        self._data = data

    def final_outputs(self, batch: Batch) -> Totals:
        """Returns the vectors of a batch."""
        sequence = super().final_outputs(batch)["sequence_output"]
        sequence = tf.cast(sequence, tf.float32)
        vector = sequence[:, 0]
        if self._data.pooling == "mean":
            mask = tf.cast(batch["input_mask"], tf.float32)[:, :, None]
            total = tf.reduce_sum(sequence * mask, 1)
            vector = total / tf.reduce_sum(mask, 1)
        if self._data.normalizes:
            vector = tf.math.l2_normalize(vector, axis=-1)
        return {"vector": vector}
