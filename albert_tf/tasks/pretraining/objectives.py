"""Pretraining: masked n-grams and sentence order.

Source: Lan et al. 2020, section 3.1; google-research/albert,
`run_pretraining.py`.
"""

from collections.abc import Mapping, Sequence

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.metrics.scores import Role, Score, Scores
from albert_tf.modeling import losses, pretraining_model
from albert_tf.tasks.task import (
    Batch,
    ComputeOutputs,
    Totals,
    model_outputs,
)

# Prefixes of the names of totals and scores, by objective.
_PREFIXES = {"mlm": "masked_lm", "sop": "sentence_order"}
# Labels of a batch, by prefix.
_LABELS = {
    "masked_lm": "masked_lm_ids",
    "sentence_order": "sentence_order_labels",
}
_PARTS = ("loss", "weight", "correct")
# Added to the denominators of the losses.
_EPSILONS = {"masked_lm": losses.MASKED_LM_EPSILON, "sentence_order": 0.0}
# Keeps the scores of a set without targets at 0 instead of 0 / 0.
_LEAST_WEIGHT = 1e-30


class PretrainingTask:
    """The two losses of ALBERT with equal weight, or one of them: a `Task`.

    `objectives` are `mlm`, `sop` or both; `seed` is that of the initial
    weights, `dtype` Keras's dtype policy.
    """

    def __init__(
        self,
        config: AlbertConfig,
        *,
        objectives: Sequence[str] = pretraining_model.OBJECTIVES,
        seed: int = 0,
        dtype: str = "float32",
    ) -> None:
        self._prefixes = [
            prefix for name, prefix in _PREFIXES.items() if name in objectives
        ]
        self.model = pretraining_model.PretrainingModel(
            config, objectives=tuple(objectives), seed=seed, dtype=dtype
        )

    @property
    def total_names(self) -> tuple[str, ...]:
        """See `Task`."""
        sums = (f"{name}_{part}" for name in self._prefixes for part in _PARTS)
        return ("examples", "tokens", *sums)

    def loss_denominators(self, batch: Batch) -> Totals:
        """Returns the weights of the masked tokens and of the pairs."""
        weights = _weights(batch)
        return {name: tf.reduce_sum(weights[name]) for name in self._prefixes}

    def loss(
        self,
        batch: Batch,
        loss_denominators: Totals,
        *,
        seed: tf.Tensor | None,
        compute_outputs: ComputeOutputs = model_outputs,
        **options: object,
    ) -> tuple[tf.Tensor, Totals]:
        """Returns this batch's share of both losses, and its totals."""
        by_depth = compute_outputs(
            self.model,
            batch,
            training=seed is not None,
            seed=seed,
            **options,
        )
        weights, is_real = _weights(batch), losses.example_weights(batch)
        mask = tf.cast(batch["input_mask"], tf.float32)
        totals = {
            "examples": tf.reduce_sum(is_real),
            "tokens": tf.reduce_sum(mask * is_real[:, None]),
        }
        loss = tf.zeros([])
        for name in self._prefixes:
            measured, *shallow = (
                losses.cross_entropy_sums(
                    outputs[f"{name}_logits"],
                    batch[_LABELS[name]],
                    weights[name],
                    self.model.operations,
                )
                for outputs in by_depth
            )
            for part in _PARTS:
                totals[f"{name}_{part}"] = getattr(measured, part)
            sums = [one.loss for one in (measured, *shallow)]
            denominator = loss_denominators[name] + _EPSILONS[name]
            loss += tf.add_n(sums) / len(sums) / denominator
        return loss, totals

    def training_scores(self, totals: Mapping[str, float]) -> dict[str, float]:
        """Returns the `loss` of a step, and the losses that it sums up."""
        scores = {}
        for name in self._prefixes:
            weight = totals[f"{name}_weight"] + _EPSILONS[name]
            loss = totals[f"{name}_loss"] / max(weight, _LEAST_WEIGHT)
            scores[f"{name}_loss"] = loss
        return {"loss": sum(scores.values())} | scores

    def evaluation_scores(self, totals: Mapping[str, float]) -> Scores:
        """Returns the weighted mean losses and accuracies over a set."""
        entries: list[Score] = []
        for name in self._prefixes:
            weight = max(totals[f"{name}_weight"], _LEAST_WEIGHT)
            loss = totals[f"{name}_loss"] / weight
            entries.append(Score(f"{name}_loss", loss, Role.LOSS))
            accuracy = totals[f"{name}_correct"] / weight
            entries.append(Score(f"{name}_accuracy", accuracy))
        return Scores(entries=tuple(entries))


def _weights(batch: Batch) -> Totals:
    """Returns the weights of masked tokens, and of pairs, by prefix."""
    return {
        "masked_lm": batch["masked_lm_weights"],
        "sentence_order": losses.example_weights(batch),
    }
