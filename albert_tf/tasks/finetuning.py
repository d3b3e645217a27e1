"""Fine-tuning, the model halves: classification, multiple choice, SQuAD.

Each has one loss, the weighted mean over the rows of a batch (sequences,
questions or windows), and so are its scores in the training log. Batches have
int32 `input_ids`, `input_mask` and `segment_ids`, `[B, S]`, and the labels. All
take the config of the encoder, the seed of the initial weights and Keras's
dtype policy.

Source: Devlin et al. 2019, section 4.1; Lan et al. 2020, appendix A.3;
google-research/albert, `classifier_utils.create_model`,
`race_utils.create_model`, `squad_utils.create_v1_model` and
`create_v2_model`.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling import losses
from albert_tf.modeling.sequence_models import (
    ClassifierModel,
    MultipleChoiceModel,
)
from albert_tf.modeling.span_models import BeamSpanModel, SpanModel
from albert_tf.tasks import early_exit, head_flags
from albert_tf.tasks.head_flags import HeadFlags
from albert_tf.tasks.task import Batch, Totals

# Keeps the scores of a set without examples at 0 instead of 0 / 0.
_LEAST_WEIGHT = 1e-30
# Padding values of the arrays along the sequence.
_PAD_VALUES = {"input_ids": 0, "input_mask": 0, "segment_ids": 0, "p_mask": 1}


class _MeanLossTask(abc.ABC):
    """A `task.FinetuningTask`, but for `model` and `_measure`.

    `accuracies` are names of scores by the field of the totals that they are
    the mean of, `options` those of the model's call for a loss.
    """

    model: keras.Model
    accuracies: Mapping[str, str] = {"correct": "accuracy"}
    sequence_outputs: frozenset[str] = frozenset()
    options: Mapping[str, bool] = {}
    _exit_patience = 0

    @abc.abstractmethod
    def _measure(
        self, outputs: Totals, batch: Batch, weights: tf.Tensor
    ) -> Any:
        """Returns the sums of a batch, of a kind of `modeling.losses`.

        `weights` are 0 for rows that only pad the batch.
        """

    @property
    def total_names(self) -> tuple[str, ...]:
        return ("examples", "weights", "tokens", "loss", *self.accuracies)

    def _weights(self, batch: Batch) -> tf.Tensor:
        """Returns the weights of the rows in the loss, float32 `[B]`."""
        return losses.example_weights(batch)

    def loss_denominators(self, batch: Batch) -> Totals:
        return {"weights": tf.reduce_sum(self._weights(batch))}

    def loss(
        self,
        batch: Batch,
        loss_denominators: Totals,
        *,
        seed: tf.Tensor | None,
        **computation: Any,
    ) -> tuple[tf.Tensor, Totals]:
        is_real = losses.example_weights(batch)
        weights = self._weights(batch)
        outputs = self.model(
            batch,
            training=seed is not None,
            seed=seed,
            **self.options,
            **computation,
        )
        measured = self._measure(outputs, batch, weights)
        loss = measured.loss
        if "exit_logits" in outputs:
            loss = self._exit_loss(outputs["exit_logits"], batch, weights)
        mask = tf.cast(batch["input_mask"], tf.float32)
        # [B, ...]: all axes but the first are those of one example.
        num_tokens = tf.reduce_sum(mask, axis=list(range(1, mask.shape.rank)))
        totals = {
            "examples": tf.reduce_sum(is_real),
            "weights": measured.weight,
            "tokens": tf.reduce_sum(num_tokens * is_real),
            "loss": loss,
        } | {name: getattr(measured, name) for name in self.accuracies}
        return loss / loss_denominators["weights"], totals

    def _exit_loss(
        self, exit_logits: tf.Tensor, batch: Batch, weights: tf.Tensor
    ) -> tf.Tensor:
        """Returns the mean of the losses of L layers, weighted by depth.

        The logits are float32 `[L, B, K]`. Source: Zhou et al. 2020, eq. 4.
        """
        depths = range(1, exit_logits.shape[0] + 1)
        losses_by_depth = [
            depth * self._measure({"logits": logits}, batch, weights).loss
            for depth, logits in zip(
                depths, tf.unstack(exit_logits), strict=True
            )
        ]
        return tf.add_n(losses_by_depth) / sum(depths)

    def outputs(self, batch: Batch) -> Totals:
        return dict(self.model(batch, training=False))

    def final_outputs(self, batch: Batch) -> Totals:
        """Returns the outputs, with early exit if there is any."""
        if not self._exit_patience:
            return self.outputs(batch)
        return early_exit.outputs(
            # Multiple choice has a model of one choice.
            self.model,
            batch,
            patience=self._exit_patience,
        )

    def training_scores(self, totals: Mapping[str, float]) -> dict[str, float]:
        return self.evaluation_scores(totals)

    def evaluation_scores(
        self, totals: Mapping[str, float]
    ) -> dict[str, float]:
        weight = max(totals["weights"], _LEAST_WEIGHT)
        names = {"loss": "loss", **self.accuracies}
        return {score: totals[name] / weight for name, score in names.items()}


class ClassificationTask(_MeanLossTask):
    """Predicts labels, or a number, for a sequence.

    `label_ids` are int32 indices of labels `[B]`; float32 numbers `[B]`; or,
    with `multi_label`, float32 0 and 1 `[B, K]`. The outputs are `logits`,
    float32 `[B, K]`.

    Args:
        num_labels: Number of labels, K; 0 for regression, where K is 1.
        multi_label: Whether a sequence has any number of labels.
        class_weights: K weights of sequences by their label, in the loss and
            the accuracy of the training log; empty for 1.
        head: Dropout rate of the pooled output, and early exit.
    """

    def __init__(
        self,
        config: AlbertConfig,
        *,
        num_labels: int,
        multi_label: bool = False,
        class_weights: Sequence[float] = (),
        head: HeadFlags = head_flags.DEFAULT_HEAD,
        seed: int = 0,
        dtype: str = "float32",
    ) -> None:
        head_flags.check_single_label(
            head.exit_patience,
            has_one_label=bool(num_labels) and not multi_label,
        )
        self._exit_patience = head.exit_patience
        self._class_weights = tuple(class_weights)
        self._sums: Callable[..., losses.LossSums] = losses.weighted_sums
        if multi_label:
            self._sums = losses.multi_label_sums
        elif not num_labels:
            self._sums = losses.regression_sums
            self.accuracies = {}
        self.model = ClassifierModel(
            config,
            num_labels=num_labels or 1,
            dropout_prob=head.dropout_prob,
            trains_exits=head.exit_losses,
            seed=seed,
            dtype=dtype,
        )

    def _weights(self, batch: Batch) -> tf.Tensor:
        weights = losses.example_weights(batch)
        if not self._class_weights:
            return weights
        return weights * tf.gather(
            tf.constant(self._class_weights), batch["label_ids"]
        )

    def _measure(
        self, outputs: Totals, batch: Batch, weights: tf.Tensor
    ) -> losses.LossSums:
        return self._sums(outputs["logits"], batch["label_ids"], weights)


class MultipleChoiceTask(_MeanLossTask):
    """Predicts which of any number of choices is right.

    Sequences are `[B, C, S]`, `label_ids` int32 `[B]`. The outputs are
    `logits`, float32 `[B, C]`. `head` has the dropout rate of the pooled
    output, and early exit.
    """

    def __init__(
        self,
        config: AlbertConfig,
        *,
        head: HeadFlags = head_flags.DEFAULT_HEAD,
        seed: int = 0,
        dtype: str = "float32",
    ) -> None:
        self._exit_patience = head.exit_patience
        self.model = MultipleChoiceModel(
            config,
            dropout_prob=head.dropout_prob,
            trains_exits=head.exit_losses,
            seed=seed,
            dtype=dtype,
        )

    def _measure(
        self, outputs: Totals, batch: Batch, weights: tf.Tensor
    ) -> losses.LossSums:
        return losses.weighted_sums(
            outputs["logits"], batch["label_ids"], weights
        )


class SpanTask(_MeanLossTask):
    """Predicts the first and the last token of an answer: SQuAD 1.1.

    Labels are `start_positions` and `end_positions`, int32 `[B]`, outputs
    `start_logits` and `end_logits`, float32 `[B, S]`.
    """

    accuracies = {"correct": "span_accuracy"}
    sequence_outputs = frozenset(("start_logits", "end_logits"))

    def __init__(
        self, config: AlbertConfig, *, seed: int = 0, dtype: str = "float32"
    ) -> None:
        self.model = SpanModel(config, seed=seed, dtype=dtype)

    def _measure(
        self, outputs: Totals, batch: Batch, weights: tf.Tensor
    ) -> losses.LossSums:
        return losses.span_sums(
            outputs, batch["start_positions"], batch["end_positions"], weights
        )


class BeamSpanTask(_MeanLossTask):
    """Predicts an answer by beam search, and whether there is one: SQuAD 2.0.

    Batches also have `p_mask` float32 `[B, S]` and `is_impossible` float32
    `[B]`. The outputs are `start_top_log_probs` float32 and `start_top_index`
    int32 `[B, k1]`, `end_top_log_probs` and `end_top_index` `[B, k1 * k2]`, and
    `cls_logits` float32 `[B]`.

    Args:
        start_n_top: Beam size for start positions, k1.
        end_n_top: Beam size for end positions, per start position, k2.
        dropout_prob: Dropout rate before the score of no answer.
    """

    accuracies = {
        "correct": "span_accuracy",
        "answerable_correct": "answerable_accuracy",
    }
    # The head is given the true start in evaluation, too.
    options = {"teacher_forcing": True}

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
        self, outputs: Totals, batch: Batch, weights: tf.Tensor
    ) -> losses.BeamSpanSums:
        return losses.beam_span_sums(outputs, batch, weights)

    def outputs(self, batch: Batch) -> Totals:
        """Returns the outputs of the model, without dropout."""
        # A beam needs as many positions as its size.
        length = tf.shape(batch["input_ids"])[1]
        missing = [[0, 0], [0, tf.maximum(0, self._min_length - length)]]
        padded = {
            name: tf.pad(batch[name], missing, constant_values=pad_value)
            for name, pad_value in _PAD_VALUES.items()
        }
        return super().outputs({**batch, **padded})
