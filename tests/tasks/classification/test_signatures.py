"""Raw text gives the predictions of the Python path: labels and numbers."""

import itertools

import numpy as np
import pytest

from albert_tf.checkpoints.metadata import Metadata
from albert_tf.metrics.classification import sigmoid
from albert_tf.tasks.classification.data import ClassificationData
from albert_tf.tasks.classification.decision import Decision
from albert_tf.tasks.labelled_texts import ClassificationExample

TEXTS = [
    "The house stood on a hill.",
    "",
    "a " * 100,
    "Café ½ 1,234,",
    "漢字 👩‍👩‍👧",
]
PAIRS = [*itertools.product(TEXTS, repeat=2)]
INPUTS = {"input_ids": 0, "input_mask": 0, "segment_ids": 0}


def label_logits(exported, pairs):
    """Features and model, as a fine-tuning run makes them."""
    data = ClassificationData(
        name="custom",
        labels=exported.settings.labels or exported.known.labels or (),
        score_names=("accuracy",),
        tokenizer=exported.tokenizer,
        max_seq_length=exported.settings.max_seq_length,
    )
    examples = [
        ClassificationExample(guid=str(number), text_a=a, text_b=b)
        for number, (a, b) in enumerate(pairs)
    ]
    records = list(data.records(examples, is_training=False))
    return exported.outputs_of(records, INPUTS)["logits"]


def test_several_labels_of_a_text(exported):
    exported = exported("several_labels")
    texts_a, texts_b = zip(*PAIRS, strict=True)
    found = exported.ask(text_a=texts_a, text_b=texts_b)

    wanted = sigmoid(label_logits(exported, PAIRS))
    np.testing.assert_allclose(found["probabilities"], wanted, atol=1e-5)
    is_far = np.abs(wanted - exported.known.thresholds) > 1e-4
    is_predicted = found["prediction"] != b""
    np.testing.assert_array_equal(
        is_predicted[is_far], (wanted >= exported.known.thresholds)[is_far]
    )
    assert 0 < is_predicted.mean() < 1
    labels = np.array([label.encode() for label in exported.known.labels])
    np.testing.assert_array_equal(
        found["prediction"], np.where(is_predicted, labels, b"")
    )


def test_a_label_is_decided_as_the_evaluation_chose(export_task):
    known = Metadata(labels=("a", "b"), temperature=3.0, thresholds=(0.7, 0.3))
    exported = export_task(
        "classifier", sizes={"num_labels": 2}, labels=known.labels, known=known
    )
    texts_a, texts_b = zip(*PAIRS, strict=True)

    found = exported.ask(text_a=texts_a, text_b=texts_b)

    logits = label_logits(exported, PAIRS)
    wanted = Decision(3.0, (0.7, 0.3))
    np.testing.assert_allclose(
        found["probabilities"], wanted.probabilities(logits), atol=1e-5
    )
    predictions = wanted.predictions(logits)
    np.testing.assert_array_equal(
        found["prediction"], np.array([b"a", b"b"])[predictions]
    )
    assert (predictions != logits.argmax(axis=-1)).any()
    assert 0 < predictions.mean() < 1


def test_scaled_numbers_are_answered_in_their_own_units(exported):
    texts_a, texts_b = zip(*PAIRS, strict=True)
    found = exported("regression").ask(text_a=texts_a, text_b=texts_b)["score"]

    logits = label_logits(exported("regression"), PAIRS)[:, 0]
    numbers = 2.5 + 50 * logits
    # Those of STS-B are clipped, as in its submission.
    np.testing.assert_allclose(found, numbers.clip(0, 5), atol=1e-3)
    assert 0 < np.mean((found > 0) & (found < 5)) < 1


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("regression", {"exit_patience": 1}, "cannot be used for regression"),
        (
            "classifier",
            {"exit_patience": 1, "known": Metadata(multi_label=True)},
            "and multi-label classification",
        ),
    ],
)
def test_models_that_cannot_be_left_early(name, values, words, export_task):
    with pytest.raises(ValueError, match=words):
        export_task(name, **values)
