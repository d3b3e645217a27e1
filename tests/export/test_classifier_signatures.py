"""Raw text gives the predictions of the Python path: labels and numbers."""

import itertools

import numpy as np
import pytest

from albert_tf.metrics.classification import softmax
from albert_tf.modeling.sequence_models import ClassifierModel
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


def python_path(exported, pairs):
    """Returns logits and predictions, as a fine-tuning run makes them."""
    data = ClassificationData(
        name="custom",
        labels=exported.job.labels or (),
        score_names=("accuracy",),
        tokenizer=exported.tokenizer,
        max_seq_length=exported.job.max_seq_length,
    )
    examples = [
        ClassificationExample(guid=str(number), text_a=a, text_b=b)
        for number, (a, b) in enumerate(pairs)
    ]
    records = list(data.records(examples, is_training=False))
    outputs = exported.outputs_of(records, INPUTS)
    return outputs["logits"], data.predictions(outputs)


def ask(exported, pairs):
    texts_a, texts_b = zip(*pairs, strict=True)
    return exported.ask(text_a=texts_a, text_b=texts_b)


def check_equal(exported, pairs):
    found = ask(exported, pairs)

    logits, places = python_path(exported, pairs)
    assert set(found) == {"probabilities", "prediction"}
    assert [label.decode() for label in found["prediction"]] == [
        exported.job.labels[place] for place in places
    ]
    assert len(set(places)) > 1
    np.testing.assert_allclose(
        found["probabilities"], softmax(logits), atol=1e-5
    )


def test_labels_and_probabilities(exported_classifier):
    check_equal(exported_classifier, PAIRS)


def test_chinese_texts(
    export_task, tiny_config, tiny_chinese_vocabulary, chinese_texts
):
    exported = export_task(
        ClassifierModel(tiny_config, num_labels=3),
        tiny_chinese_vocabulary,
        task="classifier",
        labels=("好", "坏", "c"),
        max_seq_length=20,
    )

    check_equal(exported, [*itertools.product(chinese_texts, repeat=2)])


def test_real_texts(exported_classifier, shared_data):
    path = shared_data / "data" / "race" / "RACE" / "dev" / "high"
    texts = [
        file.read_text(encoding="utf-8")
        for file in sorted(path.glob("*.txt"))[:12]
    ]

    check_equal(exported_classifier, [(t[100:400], t[400:500]) for t in texts])


def test_numbers(exported_regression):
    found = ask(exported_regression, PAIRS)

    _, numbers = python_path(exported_regression, PAIRS)
    assert set(found) == {"score"}
    np.testing.assert_allclose(found["score"], numbers, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "outputs"),
    [
        ("exported_classifier", {"logits", "probabilities"}),
        ("exported_regression", {"logits", "score"}),
    ],
)
def test_ids(name, outputs, request):
    exported = request.getfixturevalue(name)
    ids = np.random.default_rng(1).integers(5, 300, (3, 11), np.int32)
    batch = {
        "input_ids": ids,
        "input_mask": ids * 0 + 1,
        "segment_ids": ids * 0,
    }

    found = exported.ask("tokens", **batch)

    assert set(found) == outputs
    expected = exported.model(batch)["logits"]
    np.testing.assert_allclose(found["logits"], expected, atol=1e-5)
