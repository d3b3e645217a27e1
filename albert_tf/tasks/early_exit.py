"""Early exit: examples leave the model once they have been decided.

An example whose prediction, of the pooled output, has stayed the same for
`patience` layers is dropped from the batch: the layers above compute less.

Data flow: embeddings -> layer -> prediction -> [this file] -> next layer.
Source: Zhou et al. 2020, "BERT Loses Patience", section 3.2.
"""

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
    blocks_per_layer: int = 1,
    num_choices: tf.Tensor | int = 1,
) -> Totals:
    """Applies layers to the examples that are not yet decided.

    Args:
        blocks: The blocks of the layers: functions of `hidden` and `mask`.
        classify: From the output of a layer to logits, float32 `[R / C, K]`.
        hidden: Float `[B x C, S, H]`, C choices of each of B examples.
        mask: Int tensor `[B x C, 1, 1, S]`.
        patience: How many times in a row the next layer must repeat a
            prediction before an example leaves; at least 1.
        blocks_per_layer: How many blocks a layer has, `inner_group_num`.
        num_choices: C.

    Returns:
        `logits` float32 `[B, K]` of the last layer of each example, and the
        number of that layer, `num_layers` int32 `[B]`.
    """
    first, *others = (
        _layer(blocks[start : start + blocks_per_layer])
        for start in range(0, len(blocks), blocks_per_layer)
    )
    hidden = first(hidden, mask)
    logits = classify(hidden)
    # Of the examples that are left: their numbers, their predictions, and how
    # many layers in a row have repeated them.
    examples = tf.range(tf.shape(logits)[0])
    prediction = tf.argmax(logits, axis=1)
    num_same = tf.zeros_like(examples)
    num_layers = tf.ones_like(examples)
    for layer, compute in enumerate(others, start=2):
        if layer > patience + 1:
            left = tf.cast(tf.where(num_same < patience)[:, 0], tf.int32)
            examples = tf.gather(examples, left)
            prediction = tf.gather(prediction, left)
            num_same = tf.gather(num_same, left)
            rows = left[:, None] * num_choices + tf.range(num_choices)
            rows = tf.reshape(rows, [-1])
            hidden, mask = tf.gather(hidden, rows), tf.gather(mask, rows)
        hidden = compute(hidden, mask)
        layer_logits, before = classify(hidden), prediction
        prediction = tf.argmax(layer_logits, axis=1)
        num_same = tf.where(prediction == before, num_same + 1, 0)
        places = examples[:, None]
        logits = tf.tensor_scatter_nd_update(logits, places, layer_logits)
        layers = tf.fill(tf.shape(examples), layer)
        num_layers = tf.tensor_scatter_nd_update(num_layers, places, layers)
    return {"logits": logits, "num_layers": num_layers}


def _layer(blocks: Sequence[Block]) -> Block:
    """Returns the blocks of a layer as one function."""

    def apply(hidden: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        for block in blocks:
            hidden = block(hidden, mask)
        return hidden

    return apply


def outputs(model: ClassifierModel, batch: Batch, *, patience: int) -> Totals:
    """Returns the outputs of `run` for a model that examples may leave early.

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
    blocks.append(encoder.at_first_position(last))
    return run(
        blocks,
        classify,
        albert.encoder.project(albert.embeddings(ids, segment_ids)),
        albert.attention_mask(input_mask, segment_ids),
        patience=patience,
        blocks_per_layer=albert.config.inner_group_num,
        num_choices=num_choices,
    )
