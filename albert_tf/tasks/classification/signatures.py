"""The signatures of a classifier: the label or labels of a text, or a number.

Data flow: texts -> ids -> [this file] -> probabilities, label.
Source: google-research/albert, run_classifier.py, for the ids.
"""

import tensorflow as tf

from albert_tf.checkpoints.metadata import Metadata
from albert_tf.serving import model_inputs, signature
from albert_tf.serving.signature import Signature, Tensors
from albert_tf.tasks import head_flags, served_logits
from albert_tf.tasks.classification import glue
from albert_tf.tasks.classification.spec import ClassifierSettings
from albert_tf.tasks.spec import Exported

_HALF = 0.5


def _numbers(outputs: Tensors, metadata: Metadata, dtype: str) -> tf.Tensor:
    """Returns the numbers of a regression, `[B]` or `[B, K]`."""
    numbers = outputs["logits"]
    numbers = numbers[:, 0] if numbers.shape[1] == 1 else numbers
    if metadata.target_scale is not None:
        numbers = tf.cast(numbers, dtype) * metadata.target_scale
        numbers += metadata.target_mean or 0
    if limits := glue.prediction_range(metadata.task):
        numbers = tf.clip_by_value(numbers, *limits)
    return numbers


def make_signatures(exported: Exported) -> list[Signature]:
    """Returns the signatures of a classifier.

    Raw text gives `probabilities` `[B, K]`, their `labels` `[B, K]`, and
    `prediction` `[B]`, a label, or "" for no answer (more than two labels,
    all below their thresholds); ids give `logits` and `probabilities`. If a
    text has any number of labels, `prediction` is `[B, K]`: each predicted
    label, "" for the others. A regression gives `score` instead, `[B]`, or
    `[B, K]` for several numbers. With `exit_patience`, texts may leave the
    model early, and both signatures also give `num_layers` `[B]`.
    """
    settings: ClassifierSettings = exported.settings
    labels = exported.metadata.find_labels(
        exported.model.num_labels, settings.labels or None
    )
    metadata = settings.applied_to(exported.metadata)
    head_flags.check_single_label(
        settings.exit_patience,
        has_one_label=bool(labels) and not metadata.multi_label,
    )
    classify = served_logits.logits_of_ids(exported)
    names = tf.constant(list(labels), tf.string)
    # As in `Decision`, where they are described.
    thresholds = tf.constant(metadata.thresholds or [_HALF] * len(labels))
    to_probabilities = tf.sigmoid if metadata.multi_label else tf.nn.softmax
    temperature = metadata.temperature or 1.0

    def from_ids(**ids: tf.Tensor) -> Tensors:
        outputs = classify(**ids)
        if not labels:
            # As in `ClassificationData`, float64 for large numbers such as
            # timestamps; but LiteRT cannot multiply float64.
            dtype = "float32" if settings.runtime else "float64"
            return outputs | {"score": _numbers(outputs, metadata, dtype)}
        probabilities = to_probabilities(outputs["logits"] / temperature)
        return outputs | {"probabilities": probabilities}

    def from_text(text_a: tf.Tensor, text_b: tf.Tensor) -> Tensors:
        ids = model_inputs.encode_pairs(
            text_a,
            text_b,
            exported.tokenizer,
            max_seq_length=settings.max_seq_length,
        )
        outputs = from_ids(**ids)
        logits = outputs.pop("logits")
        if not labels:
            return outputs
        outputs["labels"] = tf.tile(names[None], [tf.shape(logits)[0], 1])
        if metadata.multi_label:
            is_predicted = outputs["probabilities"] >= thresholds
            return outputs | {"prediction": tf.where(is_predicted, names, "")}
        if metadata.thresholds:
            logits = outputs["probabilities"] - thresholds
        # `top_k` takes the first of equally likely labels.
        highest, best = tf.math.top_k(logits, 1)
        predictions = tf.gather(names, best[:, 0])
        if metadata.thresholds and len(labels) > 2:
            predictions = tf.where(highest[:, 0] >= 0, predictions, "")
        return outputs | {"prediction": predictions}

    return signature.text_and_token_signatures(
        from_text, from_ids, example=model_inputs.EXAMPLE
    )
