"""SQuAD, the TensorFlow half: where in a window an answer starts and ends.

Floor: tasks.

Source: google-research/albert, `squad_utils.create_v1_model` and
`create_v2_model`.
"""

from collections.abc import Mapping

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling import losses
from albert_tf.modeling.losses import BeamSpanSums, SpanSums
from albert_tf.modeling.span_models import BeamSpanModel, SpanModel
from albert_tf.tasks import task
from albert_tf.tasks.squad.predictions import BeamSearch

# The arrays along the sequence, and what they are filled up with.
_FILLING = {"input_ids": 0, "input_mask": 0, "segment_ids": 0, "p_mask": 1}


class SquadTask:
    """A `finetuning.FinetuningTask`: the first and the last token of an answer.

    Its batches have `input_ids`, `input_mask`, `segment_ids` int32 `[B, S]`
    and `start_positions`, `end_positions` int32 `[B]`; in version 2.0 also
    `p_mask` float32 `[B, S]` and `is_impossible` float32 `[B]`.

    Args:
        config: Shape of the model.
        beam_search: Settings of version 2.0; None for version 1.1.
        seed: For the initial weights.
        dtype: Keras dtype policy of the layers.
    """

    def __init__(
        self,
        config: AlbertConfig,
        *,
        beam_search: BeamSearch | None = None,
        seed: int = 0,
        dtype: str = "float32",
    ) -> None:
        self.model: SpanModel | BeamSpanModel
        if beam_search is None:
            self.model = SpanModel(config, seed=seed, dtype=dtype)
            self._shortest = 1
            return
        self._shortest = max(beam_search.start_n_top, beam_search.end_n_top)
        self.model = BeamSpanModel(
            config,
            start_n_top=beam_search.start_n_top,
            end_n_top=beam_search.end_n_top,
            dropout_prob=beam_search.dropout_prob,
            seed=seed,
            dtype=dtype,
        )

    @property
    def total_names(self) -> tuple[str, ...]:
        """Keys of the sums that `loss` returns."""
        names = ("examples", "tokens", "loss", "correct")
        if isinstance(self.model, SpanModel):
            return names
        return (*names, "answerable_correct")

    @property
    def sequence_outputs(self) -> frozenset[str]:
        """See `FinetuningTask.sequence_outputs`."""
        if isinstance(self.model, SpanModel):
            return frozenset(("start_logits", "end_logits"))
        return frozenset()

    def loss_denominators(self, batch: task.Batch) -> task.Totals:
        """The number of windows; see `task.Task`."""
        return {"examples": tf.reduce_sum(task.example_weights(batch))}

    def loss(
        self,
        batch: task.Batch,
        loss_denominators: task.Totals,
        *,
        seed: tf.Tensor | None,
    ) -> tuple[tf.Tensor, task.Totals]:
        """This batch's share of the loss; see `task.Task`.

        The head of version 2.0 is given the true start, whether it is trained
        or evaluated.
        """
        weights = task.example_weights(batch)
        measured = self._measure(batch, weights, seed)
        tokens = tf.cast(batch["input_mask"], tf.float32) * weights[:, None]
        sums = {
            "examples": measured.weight,
            "tokens": tf.reduce_sum(tokens),
            "loss": measured.loss,
            "correct": measured.correct,
        }
        if isinstance(measured, BeamSpanSums):
            sums["answerable_correct"] = measured.answerable_correct
        return measured.loss / loss_denominators["examples"], sums

    def _measure(
        self, batch: task.Batch, weights: tf.Tensor, seed: tf.Tensor | None
    ) -> SpanSums | BeamSpanSums:
        is_training = seed is not None
        if isinstance(self.model, SpanModel):
            outputs = self.model(batch, training=is_training, seed=seed)
            return losses.span_sums(
                outputs,
                batch["start_positions"],
                batch["end_positions"],
                weights,
            )
        outputs = self.model(
            batch, training=is_training, seed=seed, teacher_forcing=True
        )
        return losses.beam_span_sums(outputs, batch, weights)

    def outputs(self, batch: task.Batch) -> dict[str, tf.Tensor]:
        """Returns what the model says of each window.

        Returns:
            Version 1.1: `start_logits`, `end_logits` float32 `[B, S]`.
            Version 2.0: `start_top_log_probs` float32, `start_top_index` int32
            `[B, k1]`, `end_top_log_probs`, `end_top_index` `[B, k1 * k2]`,
            `cls_logits` float32 `[B]`.
        """
        batch = _fill_up(batch, self._shortest)
        return dict(self.model(batch, training=False))

    def training_scores(self, sums: Mapping[str, float]) -> dict[str, float]:
        """`loss` and accuracies of one step; see `evaluation_scores`."""
        return self.evaluation_scores(sums)

    def evaluation_scores(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Means over the windows.

        `loss`; `span_accuracy`, the share with both ends right; in version 2.0
        `answerable_accuracy`, the share in which it is right whether there is
        an answer.
        """
        num_windows = max(sums["examples"], 1e-30)
        scores = {
            "loss": sums["loss"] / num_windows,
            "span_accuracy": sums["correct"] / num_windows,
        }
        if "answerable_correct" in sums:
            scores["answerable_accuracy"] = (
                sums["answerable_correct"] / num_windows
            )
        return scores


def _fill_up(batch: task.Batch, length: int) -> task.Batch:
    """Returns a batch of at least a length: a beam needs as many positions."""
    missing = tf.maximum(0, length - tf.shape(batch["input_ids"])[1])
    return {
        name: tf.pad(
            values, [[0, 0], [0, missing]], constant_values=_FILLING[name]
        )
        if name in _FILLING
        else values
        for name, values in batch.items()
    }
