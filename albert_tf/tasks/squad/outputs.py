"""Outputs of a beam search for sequences that are shorter than the beam."""

from typing import Any

import tensorflow as tf

from albert_tf.tasks.task import Batch, ModelOutputs, Totals

# Padding values of the arrays along the sequence.
_PAD_VALUES = {"input_ids": 0, "input_mask": 0, "segment_ids": 0, "p_mask": 1}


def with_beam_length(batch: Batch, model: Any) -> dict[str, tf.Tensor]:
    """Pads a batch: a beam needs as many positions as its size."""
    min_length = max(model.start_n_top, model.end_n_top)
    length = tf.shape(batch["input_ids"])[1]
    missing = [[0, 0], [0, tf.maximum(0, min_length - length)]]
    padded = {
        name: tf.pad(batch[name], missing, constant_values=pad_value)
        for name, pad_value in _PAD_VALUES.items()
    }
    return {**batch, **padded}


class BeamSpanOutputs(ModelOutputs):
    """Computes the outputs of a `BeamSpanModel`, or of its export."""

    def final_outputs(self, batch: Batch) -> Totals:
        """Returns the outputs for a batch."""
        return super().final_outputs(with_beam_length(batch, self.model))
