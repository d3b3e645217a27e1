"""The signatures of a classifier: the label, or score, of one or two texts.

Data flow: text -> ids -> [this file] -> probabilities, label.
Floor: export.

Source: google-research/albert, run_classifier.py (`serving_input_receiver_fn`)
for the ids; raw text and names of labels are ours.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from albert_tf.export import pair_packing, signature
from albert_tf.export.exported_encoder import ExportedEncoder, ExportedWeights
from albert_tf.export.exported_text import ExportedText
from albert_tf.export.signature import Signature, Tensors
from albert_tf.modeling.sequence_models import ClassifierModel


class ExportedClassifier:
    """Computes the logits of a classifier with exported weights, from ids."""

    def __init__(
        self, model: ClassifierModel, weights: ExportedWeights
    ) -> None:
        self._head: Any = model.task_head
        self._weights = weights
        self._encode = ExportedEncoder(model.albert, weights)

    def __call__(self, **ids: tf.Tensor) -> tf.Tensor:
        """Returns float32 `[B, K]`; see `ExportedEncoder` for the inputs."""
        _, pooled = self._encode(**ids)
        with self._weights.scope():
            return self._head(pooled)


def make_signatures(
    model: ClassifierModel,
    weights: ExportedWeights,
    text_graph: ExportedText,
    *,
    labels: Sequence[str],
    max_seq_length: int,
) -> list[Signature]:
    """Traces the signatures of a classifier.

    Raw text gives `probabilities` `[B, K]` and `prediction` `[B]`, a label;
    ids give `logits` and `probabilities`. For regression there are no labels,
    and there is `score` `[B]` instead of probabilities and prediction. At most
    `max_seq_length` tokens are made of raw text.
    """
    classify = ExportedClassifier(model, weights)

    def from_text(text_a: tf.Tensor, text_b: tf.Tensor) -> Tensors:
        ids = pair_packing.encode_pairs(
            text_a, text_b, text_graph, max_seq_length=max_seq_length
        )
        logits = classify(**ids)
        if not labels:
            return {"score": logits[:, 0]}
        # `top_k` takes the first of equally likely labels.
        _, places = tf.math.top_k(logits, 1)
        return {
            "probabilities": tf.nn.softmax(logits),
            "prediction": tf.gather(tf.constant(list(labels)), places[:, 0]),
        }

    def from_ids(**ids: tf.Tensor) -> Tensors:
        logits = classify(**ids)
        if not labels:
            return {"logits": logits, "score": logits[:, 0]}
        return {"logits": logits, "probabilities": tf.nn.softmax(logits)}

    return signature.text_and_token_signatures(
        from_text, from_ids, example=pair_packing.EXAMPLE
    )
