"""Classification and regression, the TensorFlow half.

Floor: tasks.

Source: Devlin et al. 2019, section 4.1 (a layer over the pooled `[CLS]`);
google-research/albert, `classifier_utils.create_model`.
"""

from collections.abc import Mapping

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling import losses
from albert_tf.modeling.sequence_models import ClassifierModel
from albert_tf.tasks import task


class ClassificationTask:
    """A `finetuning.FinetuningTask`: a label, or a number, for a sequence.

    Its batches have `input_ids`, `input_mask`, `segment_ids` int32 `[B, S]`
    and `label_ids` `[B]`: int32 places of labels, float32 for regression.

    Args:
        config: Shape of the model.
        num_labels: Labels to choose from; 0 for regression.
        dropout_prob: Share of the pooled output that is dropped in training.
        seed: For the initial weights.
        dtype: Keras dtype policy of the layers.
    """

    sequence_outputs: frozenset[str] = frozenset()

    def __init__(
        self,
        config: AlbertConfig,
        *,
        num_labels: int,
        dropout_prob: float = 0.1,
        seed: int = 0,
        dtype: str = "float32",
    ) -> None:
        self.is_regression = not num_labels
        self.model = ClassifierModel(
            config,
            num_labels=num_labels or 1,
            dropout_prob=dropout_prob,
            seed=seed,
            dtype=dtype,
        )

    @property
    def total_names(self) -> tuple[str, ...]:
        """Keys of the sums that `loss` returns."""
        names = ("examples", "tokens", "loss")
        return names if self.is_regression else (*names, "correct")

    def loss_denominators(self, batch: task.Batch) -> task.Totals:
        """The number of examples; see `task.Task`."""
        return {"examples": tf.reduce_sum(task.example_weights(batch))}

    def loss(
        self,
        batch: task.Batch,
        loss_denominators: task.Totals,
        *,
        seed: tf.Tensor | None,
    ) -> tuple[tf.Tensor, task.Totals]:
        """This batch's share of the loss; see `task.Task`.

        It is the mean over the examples of the cross entropy, or of the
        squared error.
        """
        logits = self.model(batch, training=seed is not None, seed=seed)[
            "logits"
        ]
        weights = task.example_weights(batch)
        tokens = tf.cast(batch["input_mask"], tf.float32) * weights[:, None]
        sums = {"tokens": tf.reduce_sum(tokens)}
        if self.is_regression:
            measured = losses.regression_sums(
                logits, batch["label_ids"], weights
            )
        else:
            measured = losses.classification_sums(
                logits, batch["label_ids"], weights
            )
            sums["correct"] = measured.correct
        sums |= {"examples": measured.weight, "loss": measured.loss}
        return measured.loss / loss_denominators["examples"], sums

    def outputs(self, batch: task.Batch) -> dict[str, tf.Tensor]:
        """Returns `logits`, float32 `[B, K]`."""
        logits = self.model(batch, training=False)["logits"]
        return {"logits": tf.cast(logits, tf.float32)}

    def training_scores(self, sums: Mapping[str, float]) -> dict[str, float]:
        """`loss`, and `accuracy` of labels, of one step."""
        return self.evaluation_scores(sums)

    def evaluation_scores(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Means over the set: `loss`, and `accuracy` of labels."""
        num_examples = max(sums["examples"], 1e-30)
        scores = {"loss": sums["loss"] / num_examples}
        if not self.is_regression:
            scores["accuracy"] = sums["correct"] / num_examples
        return scores
