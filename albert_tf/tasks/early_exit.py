"""Early exit: examples leave the model once they have been decided.

An example whose prediction, of the pooled output, has stayed the same for
`patience` layers is dropped from the batch: the layers above compute less.

Data flow: embeddings -> layer -> prediction -> [this file] -> next layer.
Source: Zhou et al. 2020, "BERT Loses Patience", section 3.2.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.modeling import encoder
from albert_tf.modeling.sequence_models import ClassifierModel
from albert_tf.tasks.task import Batch, Totals

Block = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def run(
    blocks: Sequence[Block],
    classify: Callable[[tf.Tensor], tf.Tensor],
    hidden: tf.Tensor,
    mask: tf.Tensor,
    *,
    patience: int,
    num_choices: tf.Tensor | int = 1,
) -> Totals:
    """Applies layers to the examples that are not yet decided.

    Args:
        blocks: The layers: functions of `hidden` and `mask`.
        classify: From the output of a layer to logits, float32 `[R / C, K]`.
        hidden: Float `[B x C, S, H]`, C choices of each of B examples.
        mask: Int tensor `[B x C, 1, 1, S]`.
        patience: How many times in a row the next layer must repeat a
            prediction before an example leaves; at least 1.
        num_choices: C.

    Returns:
        `logits` float32 `[B, K]` of the last layer of each example, and the
        number of that layer, `num_layers` int32 `[B]`.
    """
    exits = _Exits(classify, patience, num_choices)
    *_, hidden = encoder.walk(blocks, hidden, mask, exits.leave)
    exits.decide(hidden)
    return {"logits": exits.logits, "num_layers": exits.num_layers}


@dataclasses.dataclass
class _Exits:
    """What is known of the examples of a batch after each layer."""

    classify: Callable[[tf.Tensor], tf.Tensor]
    patience: int
    num_choices: tf.Tensor | int
    layer: int = 0
    # The results of `run` so far.
    logits: tf.Tensor = None
    num_layers: tf.Tensor = None
    # Of the examples that are left: their numbers, their predictions, and how
    # many layers in a row have repeated them.
    examples: tf.Tensor = None
    prediction: tf.Tensor = None
    num_same: tf.Tensor = None

    def decide(self, hidden: tf.Tensor) -> None:
        """Classifies the examples that are left by the output of a layer."""
        logits = self.classify(hidden)
        prediction = tf.argmax(logits, axis=1)
        self.layer += 1
        if self.layer == 1:
            self.logits = logits
            self.examples = tf.range(tf.shape(logits)[0])
            self.num_layers = tf.ones_like(self.examples)
            self.num_same = tf.zeros_like(self.examples)
        else:
            rows = self.examples[:, None]
            self.logits = tf.tensor_scatter_nd_update(self.logits, rows, logits)
            layers = tf.fill(tf.shape(self.examples), self.layer)
            self.num_layers = tf.tensor_scatter_nd_update(
                self.num_layers, rows, layers
            )
            is_same = prediction == self.prediction
            self.num_same = tf.where(is_same, self.num_same + 1, 0)
        self.prediction = prediction

    def leave(
        self, hidden: tf.Tensor, mask: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the hidden states and masks of those that go on."""
        self.decide(hidden)
        if self.layer <= self.patience:
            return hidden, mask
        left = tf.cast(tf.where(self.num_same < self.patience)[:, 0], tf.int32)
        self.examples = tf.gather(self.examples, left)
        self.prediction = tf.gather(self.prediction, left)
        self.num_same = tf.gather(self.num_same, left)
        rows = left[:, None] * self.num_choices + tf.range(self.num_choices)
        rows = tf.reshape(rows, [-1])
        return tf.gather(hidden, rows), tf.gather(mask, rows)


def outputs(model: ClassifierModel, batch: Batch, *, patience: int) -> Totals:
    """Returns what `run` gives for a model whose examples may leave early.

    Of multiple choice, the batch is int32 `[B, C, S]`, and K is C.
    """
    albert: Any = model.albert
    head: Any = model.task_head
    shape = tf.shape(batch["input_ids"])
    is_multiple_choice = batch["input_ids"].shape.rank == 3
    num_choices = shape[1] if is_multiple_choice else 1
    ids, input_mask, segment_ids = (
        tf.reshape(batch[name], [-1, shape[-1]])
        for name in ("input_ids", "input_mask", "segment_ids")
    )

    def classify(hidden: tf.Tensor) -> tf.Tensor:
        logits = head(albert.pool(hidden))
        if is_multiple_choice:
            return tf.reshape(logits, [-1, num_choices])
        return logits

    *blocks, last = albert.encoder.blocks()
    return run(
        [*blocks, encoder.at_first_position(last)],
        classify,
        albert.encoder.project(albert.embeddings(ids, segment_ids)),
        albert.attention_mask(input_mask, segment_ids),
        patience=patience,
        num_choices=num_choices,
    )
