"""Raw text gives the predictions of the Python path: labels and numbers."""

import itertools

import numpy as np

from albert_tf.metrics.classification import softmax
from albert_tf.tasks.classification.data import ClassificationData
from albert_tf.tasks.classification.examples import ClassificationExample

TEXTS = [
    "The house stood on a hill.",
    "",
    "a " * 100,
    "Café ½ 1,234,",
    "漢字 👩‍👩‍👧",
]
PAIRS = [*itertools.product(TEXTS, repeat=2)]
INPUTS = {"input_ids": 0, "input_mask": 0, "segment_ids": 0}


def python_logits(exported, pairs):
    """Features and model, as a fine-tuning run makes them."""
    data = ClassificationData(
        name="custom",
        labels=exported.config.labels,
        score_names=("accuracy",),
        tokenizer=exported.tokenizer,
        max_seq_length=exported.config.max_seq_length,
    )
    examples = [
        ClassificationExample(guid=str(number), text_a=a, text_b=b)
        for number, (a, b) in enumerate(pairs)
    ]
    records = list(data.records(examples, is_training=False))
    return exported.outputs_of(records, INPUTS)["logits"]


def test_labels_and_probabilities(exported):
    exported = exported("classifier")
    texts_a, texts_b = zip(*PAIRS, strict=True)
    found = exported.ask(text_a=texts_a, text_b=texts_b)

    logits = python_logits(exported, PAIRS)
    places = logits.argmax(-1)
    assert [label.decode() for label in found["prediction"]] == [
        exported.config.labels[place] for place in places
    ]
    assert len(set(places)) > 1
    np.testing.assert_allclose(
        found["probabilities"], softmax(logits), atol=1e-5
    )


def test_numbers(exported):
    texts_a, texts_b = zip(*PAIRS, strict=True)
    found = exported("regression").ask(text_a=texts_a, text_b=texts_b)

    logits = python_logits(exported("regression"), PAIRS)
    np.testing.assert_allclose(found["score"], logits[:, 0], atol=1e-4)
