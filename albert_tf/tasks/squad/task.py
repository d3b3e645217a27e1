"""SQuAD, the model half: where in a window the answer starts and ends.

Floor: tasks.

Source: google-research/albert, `squad_utils.create_v1_model` and
`create_v2_model`.
"""

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling import losses
from albert_tf.modeling.span_models import BeamSpanModel, SpanModel
from albert_tf.tasks.mean_loss import MeanLossTask
from albert_tf.tasks.task import Batch, Totals


class SpanTask(MeanLossTask):
    """Predicts the first and the last token of an answer: SQuAD 1.1.

    Its batches have `input_ids`, `input_mask`, `segment_ids` int32 `[B, S]`
    and `start_positions`, `end_positions` int32 `[B]`. Its outputs are
    `start_logits` and `end_logits`, float32 `[B, S]`.

    Args:
        config: Shape of the model.
        seed: Seed of the initial weights.
        dtype: Keras dtype policy of the layers.
    """

    accuracies = {"correct": "span_accuracy"}
    sequence_outputs = frozenset(("start_logits", "end_logits"))

    def __init__(
        self, config: AlbertConfig, *, seed: int = 0, dtype: str = "float32"
    ) -> None:
        self.model = SpanModel(config, seed=seed, dtype=dtype)

    def _measure(
        self, batch: Batch, weights: tf.Tensor, seed: tf.Tensor | None
    ) -> losses.SpanSums:
        outputs = self.model(batch, training=seed is not None, seed=seed)
        return losses.span_sums(
            outputs, batch["start_positions"], batch["end_positions"], weights
        )


class BeamSpanTask(MeanLossTask):
    """Predicts an answer by beam search, and whether there is one: SQuAD 2.0.

    Its batches have the arrays of `SpanTask`'s, and `p_mask` float32 `[B, S]`
    and `is_impossible` float32 `[B]`. Its outputs are `start_top_log_probs`
    float32 and `start_top_index` int32 `[B, k1]`, `end_top_log_probs` and
    `end_top_index` `[B, k1 * k2]`, and `cls_logits` float32 `[B]`.

    Args:
        config: Shape of the model.
        start_n_top: Beam size for start positions, k1.
        end_n_top: Beam size for end positions, per start position, k2.
        dropout_prob: Dropout rate before the score of no answer.
        seed: Seed of the initial weights.
        dtype: Keras dtype policy of the layers.
    """

    accuracies = {
        "correct": "span_accuracy",
        "answerable_correct": "answerable_accuracy",
    }

    def __init__(
        self,
        config: AlbertConfig,
        *,
        start_n_top: int = 5,
        end_n_top: int = 5,
        dropout_prob: float = 0.1,
        seed: int = 0,
        dtype: str = "float32",
    ) -> None:
        self._min_length = max(start_n_top, end_n_top)
        self.model = BeamSpanModel(
            config,
            start_n_top=start_n_top,
            end_n_top=end_n_top,
            dropout_prob=dropout_prob,
            seed=seed,
            dtype=dtype,
        )

    def _measure(
        self, batch: Batch, weights: tf.Tensor, seed: tf.Tensor | None
    ) -> losses.BeamSpanSums:
        # The head is given the true start in evaluation, too.
        outputs = self.model(
            batch, training=seed is not None, seed=seed, teacher_forcing=True
        )
        return losses.beam_span_sums(outputs, batch, weights)

    def outputs(self, batch: Batch) -> Totals:
        """Returns the outputs of the model, without dropout."""
        return super().outputs(_pad_to(batch, self._min_length))


# Padding values of the arrays along the sequence.
_PAD_VALUES = {"input_ids": 0, "input_mask": 0, "segment_ids": 0, "p_mask": 1}


def _pad_to(batch: Batch, min_length: int) -> Batch:
    """Pads a batch to a length; a beam needs as many positions as its size."""
    missing = tf.maximum(0, min_length - tf.shape(batch["input_ids"])[1])
    return {
        name: tf.pad(
            values, [[0, 0], [0, missing]], constant_values=_PAD_VALUES[name]
        )
        if name in _PAD_VALUES
        else values
        for name, values in batch.items()
    }
