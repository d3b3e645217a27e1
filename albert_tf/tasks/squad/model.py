"""SQuAD 1.1 and 2.0, the model halves.

Source: Devlin et al. 2019, section 4.1; Lan et al. 2020, appendix A.3;
google-research/albert, `squad_utils`.
"""

from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.modeling import Tensor, losses
from albert_tf.modeling.span_models import BeamSpanModel, SpanModel
from albert_tf.tasks.finetuning import MeanLossTask
from albert_tf.tasks.task import AnswerTask, Batch, Totals


class SpanTask(MeanLossTask):
    """Predicts the first and the last token of an answer: SQuAD 1.1.

    Labels are `start_positions` and `end_positions`, int32 `[B]`, outputs
    `start_logits` and `end_logits`, float32 `[B, S]`.
    """

    accuracies = {"correct": "span_accuracy"}
    sequence_outputs = frozenset(("start_logits", "end_logits"))

    def __init__(self, config: AlbertConfig, **options: object) -> None:
        self.model = SpanModel(config, **options)

    def _measure(
        self, outputs: Totals, batch: Batch, weights: Tensor
    ) -> losses.LossSums:
        return losses.span_sums(
            outputs, batch["start_positions"], batch["end_positions"], weights
        )


class BeamSpanOutputs(AnswerTask):
    """Computes the outputs of a `BeamSpanModel`, or of its export."""

    @property
    def min_length(self) -> int:
        """A beam needs as many positions as its size."""
        return int(max(self.model.start_n_top, self.model.end_n_top))


class BeamSpanTask(MeanLossTask, BeamSpanOutputs):
    """Predicts an answer by beam search, and whether there is one: SQuAD 2.0.

    Batches also have `p_mask` float32 `[B, S]` and `is_impossible` float32
    `[B]`. The outputs are `start_top_log_probs` float32 and `start_top_index`
    int32 `[B, k1]`, `end_top_log_probs` and `end_top_index` `[B, k1 * k2]`, and
    `cls_logits` float32 `[B]`.
    """

    accuracies = {
        "correct": "span_accuracy",
        "answerable_correct": "answerable_accuracy",
    }
    # The head is given the true start in evaluation, too.
    loss_options = {"teacher_forcing": True}

    def __init__(self, config: AlbertConfig, **options: Any) -> None:
        self.model = BeamSpanModel(config, **options)

    def _measure(
        self, outputs: Totals, batch: Batch, weights: Tensor
    ) -> losses.LossSums:
        return losses.beam_span_sums(outputs, batch, weights)
