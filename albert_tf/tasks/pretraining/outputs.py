"""Masked words and the order of two texts, answered: the model half."""

import tensorflow as tf

from albert_tf.tasks.task import Batch, ModelOutputs, Totals

NUM_TOP = 5


class LikeliestTokens(ModelOutputs):
    """Computes what `MaskedTextData` makes answers of.

    The outputs are `top_ids` int32 and `top_probabilities` `[B, 8, 5]`, and
    `sentence_order_logits` `[B, 2]`; those of the objectives of the model.
    """

    def final_outputs(self, batch: Batch) -> Totals:
        """Returns the outputs for a batch."""
        outputs = super().final_outputs(batch)
        logits = outputs.pop("masked_lm_logits", None)
        if logits is not None:
            values, ids = tf.math.top_k(tf.nn.softmax(logits), NUM_TOP)
            outputs |= {"top_ids": ids, "top_probabilities": values}
        return outputs
