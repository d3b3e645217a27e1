"""What a classifier can be asked: the label, or the number, of a text or two.

Data flow: text -> ids -> [this file] -> probabilities, label.
Floor: export.

Source: google-research/albert, run_classifier.py (`serving_input_receiver_fn`)
for the ids; raw text and names of labels are ours.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from albert_tf.export import encoder_signatures, signature
from albert_tf.export.exported_encoder import ServedEncoder, ServedWeights
from albert_tf.export.exported_text import ServedText
from albert_tf.export.signature import Signature
from albert_tf.export.tokens import TextGraph
from albert_tf.modeling.sequence_models import ClassifierModel

Tensors = dict[str, tf.Tensor]

_WARMUP_TEXTS = {
    "text_a": "A first sentence.",
    "text_b": "A second one, some words longer.",
}


class LogitsOfIds:
    """The numeric half: ids to logits.

    Args:
        model: Called for its structure.
        weights: Its weights.
    """

    def __init__(self, model: ClassifierModel, weights: ServedWeights) -> None:
        self._head: Any = model.task_head
        self._weights = weights
        self._encode = ServedEncoder(model.albert, weights)

    def __call__(self, **ids: tf.Tensor) -> tf.Tensor:
        """Returns float32 `[B, K]`; see `ServedEncoder`."""
        _, pooled = self._encode(**ids)
        with self._weights.scope():
            return self._head(pooled)


def make_signatures(
    model: ClassifierModel,
    weights: ServedWeights,
    text_graph: TextGraph,
    *,
    labels: Sequence[str],
    max_seq_length: int,
) -> list[Signature]:
    """Traces what a classifier can be asked.

    Raw text gives `probabilities` `[B, K]` and `prediction` `[B]`, a label;
    ids give `logits` and `probabilities`. A regression gives `score` `[B]`
    instead of either.

    Args:
        model: Called for its structure.
        weights: Its weights.
        text_graph: Text to ids.
        labels: In the order of the logits; empty for regression.
        max_seq_length: Longest sequence made of raw text.
    """
    logits_of = LogitsOfIds(model, weights)
    encode = encoder_signatures.pair_inputs(
        ServedText(text_graph), max_seq_length=max_seq_length
    )

    def from_text(text_a: tf.Tensor, text_b: tf.Tensor) -> Tensors:
        logits = logits_of(**encode(text_a, text_b))
        if not labels:
            return {"score": logits[:, 0]}
        # Of labels that are as likely, the first.
        _, places = tf.math.top_k(logits, 1)
        return {
            "probabilities": tf.nn.softmax(logits),
            "prediction": tf.gather(tf.constant(list(labels)), places[:, 0]),
        }

    def from_ids(**ids: tf.Tensor) -> Tensors:
        logits = logits_of(**ids)
        if not labels:
            return {"logits": logits, "score": logits[:, 0]}
        return {"logits": logits, "probabilities": tf.nn.softmax(logits)}

    texts = {name: signature.strings(None) for name in _WARMUP_TEXTS}
    ids = {name: signature.integers(None, None) for name in signature.ID_INPUTS}
    return [
        Signature(
            name=signature.DEFAULT,
            function=signature.trace(from_text, **texts),
            warmup=signature.text_requests(**_WARMUP_TEXTS),
        ),
        Signature(
            name=signature.TOKENS,
            function=signature.trace(from_ids, **ids),
            warmup=signature.id_requests(),
        ),
    ]
