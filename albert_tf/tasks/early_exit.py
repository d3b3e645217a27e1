"""Early exit: examples leave the model once they have been decided.

After every layer, the classifier is applied to the pooled output. An example
whose prediction has stayed the same for `patience` layers is dropped from the
batch, so that the layers above compute less.

Data flow: embeddings -> layer -> prediction -> [this file] -> next layer.

Source: Zhou et al. 2020, "BERT Loses Patience: Fast and Robust Inference with
Early Exit", section 3.2.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.modeling.sequence_models import ClassifierModel
from albert_tf.modeling.shared_weights import LayerCall
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
        classify: Function from the output of a layer to logits, float32
            `[R / C, K]`, one row for each example.
        hidden: Float tensor `[B x C, S, H]`, the C choices of each of B
            examples one after the other.
        mask: Int tensor `[B x C, 1, 1, S]`.
        patience: Number of layers in a row with the same prediction after
            which an example leaves; at least 1.
        num_choices: C.

    Returns:
        `logits`, float32 `[B, K]`, of the last layer that each example has
        passed, and `num_layers`, int32 `[B]`, the number of that layer.
    """
    hidden = blocks[0](hidden, mask)
    logits = classify(hidden)
    prediction = tf.argmax(logits, axis=1)
    examples = tf.range(tf.shape(logits)[0])
    num_layers, num_same = tf.ones_like(examples), tf.zeros_like(examples)
    for layer, block in enumerate(blocks[1:], start=2):
        if layer > patience + 1:
            # Some may have been decided by the layer below.
            left = tf.cast(tf.where(num_same < patience)[:, 0], tf.int32)
            examples = tf.gather(examples, left)
            prediction = tf.gather(prediction, left)
            num_same = tf.gather(num_same, left)
            rows = left[:, None] * num_choices + tf.range(num_choices)
            rows = tf.reshape(rows, [-1])
            hidden, mask = tf.gather(hidden, rows), tf.gather(mask, rows)
        hidden = block(hidden, mask)
        own_logits = classify(hidden)
        places = examples[:, None]
        logits = tf.tensor_scatter_nd_update(logits, places, own_logits)
        num_layers = tf.tensor_scatter_nd_update(
            num_layers, places, tf.fill(tf.shape(examples), layer)
        )
        is_same = tf.argmax(own_logits, axis=1) == prediction
        prediction = tf.argmax(own_logits, axis=1)
        num_same = tf.where(is_same, num_same + 1, 0)
    return {"logits": logits, "num_layers": num_layers}


def outputs(
    model: ClassifierModel,
    batch: Batch,
    *,
    patience: int,
) -> Totals:
    """Returns the outputs of a model whose examples may leave early.

    Args:
        model: The model; of multiple choice, its scorer.
        batch: `input_ids`, `input_mask` and `segment_ids`, int32 `[B, S]`, or
            `[B, C, S]` with C choices, whose logits are those of the example.
        patience: As for `run`.

    Returns:
        `logits`, float32 `[B, K]` or `[B, C]`, and `num_layers`, int32 `[B]`.
    """
    albert: Any = model.albert
    head: Any = model.task_head
    encoder = albert.encoder
    shape = tf.shape(batch["input_ids"])
    is_multiple_choice = batch["input_ids"].shape.rank == 3
    num_choices = shape[1] if is_multiple_choice else 1
    ids, input_mask, segment_ids = (
        tf.reshape(batch[name], [-1, shape[-1]])
        for name in ("input_ids", "input_mask", "segment_ids")
    )

    def classify(hidden: tf.Tensor) -> tf.Tensor:
        logits = head(tf.tanh(albert.pooler(hidden[:, 0])))
        if is_multiple_choice:
            return tf.reshape(logits, [-1, num_choices])
        return logits

    def make_block(attention: LayerCall, feed_forward: LayerCall) -> Block:
        return lambda hidden, mask: feed_forward(attention(hidden, mask))

    hidden = albert.embeddings(ids, segment_ids)
    if encoder.embedding_projection is not None:
        hidden = encoder.embedding_projection(hidden)
    return run(
        [make_block(*sublayers) for sublayers in encoder.block_calls()],
        classify,
        hidden,
        input_mask[:, None, None],
        patience=patience,
        num_choices=num_choices,
    )
