"""Pretraining: masked n-grams and sentence order.

Floor: tasks.

Source: Lan et al. 2020, section 3.1; google-research/albert,
`run_pretraining.py` (losses, and metrics of the evaluation).
"""

from collections.abc import Mapping, Sequence

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling import losses, pretraining_model
from albert_tf.tasks import task

_TARGETS = {"mlm": "masked_lm", "sop": "sentence_order"}


class PretrainingTask:
    """The two losses of ALBERT, with equal weight, or one of them.

    Args:
        config: Shape of the model.
        objectives: `mlm`, `sop` or both.
        seed: For the initial weights.
        dtype: Keras dtype policy of the layers.

    Raises:
        ValueError: No objective, or one of another name.
    """

    def __init__(
        self,
        config: AlbertConfig,
        *,
        objectives: Sequence[str] = pretraining_model.OBJECTIVES,
        seed: int = 0,
        dtype: str = "float32",
    ) -> None:
        self.objectives = tuple(objectives)
        self.model = pretraining_model.PretrainingModel(
            config, objectives=self.objectives, seed=seed, dtype=dtype
        )

    @property
    def total_names(self) -> tuple[str, ...]:
        """Keys of the sums that `loss` returns."""
        names = [_TARGETS[objective] for objective in self.objectives]
        parts = ("loss", "weight", "correct")
        return (
            "examples",
            "tokens",
            *(f"{name}_{part}" for name in names for part in parts),
        )

    def loss_denominators(self, batch: task.Batch) -> task.Totals:
        """Weights of the masked tokens and of the pairs; see `task.Task`."""
        weights = {
            "masked_lm": batch["masked_lm_weights"],
            "sentence_order": task.example_weights(batch),
        }
        names = [_TARGETS[objective] for objective in self.objectives]
        return {name: tf.reduce_sum(weights[name]) for name in names}

    def loss(
        self,
        batch: task.Batch,
        loss_denominators: task.Totals,
        *,
        seed: tf.Tensor | None,
    ) -> tuple[tf.Tensor, task.Totals]:
        """This batch's share of both losses; see `task.Task`."""
        outputs = self.model(batch, training=seed is not None, seed=seed)
        weights = task.example_weights(batch)
        sums = {
            "examples": tf.reduce_sum(weights),
            "tokens": tf.reduce_sum(
                tf.cast(batch["input_mask"], tf.float32) * weights[:, None]
            ),
        }
        total = tf.zeros([])
        if "mlm" in self.objectives:
            measured = losses.masked_lm_sums(
                outputs["masked_lm_logits"],
                batch["masked_lm_ids"],
                batch["masked_lm_weights"],
            )
            _record(sums, "masked_lm", measured)
            total += measured[0] / (
                loss_denominators["masked_lm"] + losses.MASKED_LM_EPSILON
            )
        if "sop" in self.objectives:
            measured = losses.sentence_order_sums(
                outputs["sentence_order_logits"],
                batch["sentence_order_labels"],
                weights,
            )
            _record(sums, "sentence_order", measured)
            total += measured[0] / loss_denominators["sentence_order"]
        return total, sums

    def training_scores(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Losses of one step: `loss`, `masked_lm_loss`, ..."""
        scores = {}
        if "mlm" in self.objectives:
            scores["masked_lm_loss"] = sums["masked_lm_loss"] / (
                sums["masked_lm_weight"] + losses.MASKED_LM_EPSILON
            )
        if "sop" in self.objectives:
            scores["sentence_order_loss"] = (
                sums["sentence_order_loss"] / sums["sentence_order_weight"]
            )
        return {"loss": sum(scores.values())} | scores

    def evaluation_scores(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Weighted means over the set, as the reference's evaluation has."""
        scores = {}
        for name in (_TARGETS[objective] for objective in self.objectives):
            weight = max(sums[f"{name}_weight"], 1e-30)
            scores[f"{name}_loss"] = sums[f"{name}_loss"] / weight
            scores[f"{name}_accuracy"] = sums[f"{name}_correct"] / weight
        return scores


def _record(
    sums: task.Totals,
    name: str,
    measured: tuple[tf.Tensor, tf.Tensor, tf.Tensor],
) -> None:
    loss, weight, correct = measured
    sums[f"{name}_loss"] = loss
    sums[f"{name}_weight"] = weight
    sums[f"{name}_correct"] = correct
