"""Multiple choice, the TensorFlow half: which of C texts fits best.

Floor: tasks.

Source: google-research/albert, `race_utils.create_model`; Lan et al. 2020,
appendix A.3.
"""

from collections.abc import Mapping

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling import losses
from albert_tf.modeling.sequence_models import MultipleChoiceModel
from albert_tf.tasks import task


class MultipleChoiceTask:
    """A `finetuning.FinetuningTask`: one score for each choice.

    Its batches have `input_ids`, `input_mask`, `segment_ids` `[B, C, S]` and
    `label_ids` `[B]`.

    Args:
        config: Shape of the model.
        dropout_prob: Share of the pooled output that is dropped in training.
        seed: For the initial weights.
        dtype: Keras dtype policy of the layers.
    """

    total_names = ("examples", "tokens", "loss", "correct")
    sequence_outputs: frozenset[str] = frozenset()

    def __init__(
        self,
        config: AlbertConfig,
        *,
        dropout_prob: float = 0.1,
        seed: int = 0,
        dtype: str = "float32",
    ) -> None:
        self.model = MultipleChoiceModel(
            config, dropout_prob=dropout_prob, seed=seed, dtype=dtype
        )

    def loss_denominators(self, batch: task.Batch) -> task.Totals:
        """The number of questions; see `task.Task`."""
        return {"examples": tf.reduce_sum(task.example_weights(batch))}

    def loss(
        self,
        batch: task.Batch,
        loss_denominators: task.Totals,
        *,
        seed: tf.Tensor | None,
    ) -> tuple[tf.Tensor, task.Totals]:
        """This batch's share of the cross entropy; see `task.Task`."""
        outputs = self.model(batch, training=seed is not None, seed=seed)
        weights = task.example_weights(batch)
        measured = losses.classification_sums(
            outputs["logits"], batch["label_ids"], weights
        )
        mask = tf.cast(batch["input_mask"], tf.float32)
        sums = {
            "examples": measured.weight,
            "tokens": tf.reduce_sum(mask * weights[:, None, None]),
            "loss": measured.loss,
            "correct": measured.correct,
        }
        return measured.loss / loss_denominators["examples"], sums

    def outputs(self, batch: task.Batch) -> dict[str, tf.Tensor]:
        """Returns `logits`, float32 `[B, C]`."""
        return {"logits": self.model(batch, training=False)["logits"]}

    def training_scores(self, sums: Mapping[str, float]) -> dict[str, float]:
        """`loss` and `accuracy` of one step."""
        return self.evaluation_scores(sums)

    def evaluation_scores(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Means over the set: `loss` and `accuracy`."""
        num_examples = max(sums["examples"], 1e-30)
        return {
            "loss": sums["loss"] / num_examples,
            "accuracy": sums["correct"] / num_examples,
        }
