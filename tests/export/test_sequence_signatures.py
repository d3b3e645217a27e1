"""Raw text gives the predictions of the Python path: labels and choices."""

import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints.metadata import Metadata
from albert_tf.export import sequence_signatures
from albert_tf.metrics.classification import sigmoid, softmax
from albert_tf.tasks import early_exit
from albert_tf.tasks.classification.data import ClassificationData
from albert_tf.tasks.classification.examples import ClassificationExample
from albert_tf.tasks.race import examples
from albert_tf.tasks.race.examples import (
    ChoiceLengths,
    MultipleChoiceExample,
    make_records,
)

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
        labels=exported.config.labels or exported.known.labels or (),
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

    logits = label_logits(exported, PAIRS)
    places = logits.argmax(-1)
    assert [label.decode() for label in found["prediction"]] == [
        exported.config.labels[place] for place in places
    ]
    assert len(set(places)) > 1
    assert [label.decode() for label in found["labels"][0]] == [
        *exported.config.labels
    ]
    np.testing.assert_allclose(
        found["probabilities"], softmax(logits), atol=1e-5
    )


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


def test_scaled_numbers_are_answered_in_their_own_units(exported):
    texts_a, texts_b = zip(*PAIRS, strict=True)
    found = exported("regression").ask(text_a=texts_a, text_b=texts_b)["score"]

    logits = label_logits(exported("regression"), PAIRS)[:, 0]
    np.testing.assert_allclose(found, 1e3 + 5 * logits, rtol=1e-6)
    assert np.ptp(found) > 0.1


BLANK_QUESTIONS = ["a _ b", "_", "__", "", "no blank", "é ＿ 漢︳字", "x_"]
BLANK_OPTIONS = ["one", "", "zwölf 漢", "_"]
OPTIONS = ("a house", "", "the very long option of them all", "Café ½")
ARTICLES = ["The house stood on a hill. " * 4, "", "Short.", "漢字\0 x"]
QUESTIONS = [
    "What is it?",
    "It is _ .",
    "_",
    "",
    "Both _ and ＿ of them ︳",
    "The question that is too long to fit, is it not? Where was the man?",
]


def example(article, question, options, number=1):
    return MultipleChoiceExample(
        guid=str(number),
        passage_id="",
        article=article,
        question=question,
        options=tuple(options),
    )


def test_options_take_the_places_of_blanks():
    found = sequence_signatures.complete(
        tf.constant(BLANK_QUESTIONS),
        tf.constant([BLANK_OPTIONS] * len(BLANK_QUESTIONS)),
    )

    expected = [
        text
        for question in BLANK_QUESTIONS
        for text in example("", question, BLANK_OPTIONS).choice_texts()
    ]
    assert [text.decode() for text in found.numpy()] == expected


def test_all_blanks_are_known():
    for code_point in sequence_signatures.BLANKS:
        assert examples.BLANK.fullmatch(chr(code_point))
    assert len(sequence_signatures.BLANKS) == 7


@pytest.mark.parametrize(
    ("blanks", "size"), [(20_000, 1_000), (16, 9_000), (500, 500)]
)
def test_blanks_that_grow_too_long_are_an_invalid_argument(blanks, size):
    question = tf.constant(["_" * blanks])
    options = tf.constant([["x" * size, ""]])

    with pytest.raises(tf.errors.InvalidArgumentError, match="3 times its len"):
        sequence_signatures.complete(question, options)


def test_fifteen_blanks_of_a_batch_are_filled():
    question = "Text between the blanks, _ " * 15
    options = ["an option of usual length"] * 4

    found = sequence_signatures.complete(
        tf.constant([question] * 32), tf.constant([options] * 32)
    )

    assert found.shape == [128]


MADE = [
    example(article, question, OPTIONS, number)
    for number, (article, question) in enumerate(
        itertools.product(ARTICLES, QUESTIONS)
    )
]


def choice_logits(exported, examples):
    """Features and model, as a fine-tuning run makes them."""
    lengths = ChoiceLengths(
        max_seq_length=exported.config.max_seq_length,
        max_qa_length=exported.config.max_qa_length,
    )
    records = list(make_records(examples, exported.tokenizer, lengths))
    rows = []
    for record in records:
        batch = {name: record[name][None] for name in INPUTS}
        rows.append(exported.model(batch)["logits"][0])
    return np.stack(rows)


def check_choices(exported, examples):
    found = exported.ask(
        article=[one.article for one in examples],
        question=[one.question for one in examples],
        options=[one.options for one in examples],
    )

    logits = choice_logits(exported, examples)
    assert found["choice"].dtype == np.int32
    assert found["choice"].tolist() == logits.argmax(-1).tolist()
    assert len(set(found["choice"])) > 1
    np.testing.assert_allclose(
        found["probabilities"], softmax(logits), atol=1e-5
    )


def test_made_questions(exported):
    check_choices(exported("race"), MADE)


def test_real_questions(exported, shared_data):
    folder = shared_data / "data" / "race" / "RACE" / "dev" / "middle"
    files = sorted(folder.glob("*.txt"))[:6]
    asked = [one for file in files for one in examples.read_questions(file)]

    check_choices(exported("race"), asked)


@pytest.mark.parametrize(
    "name", [pytest.param("classifier", marks=pytest.mark.slow), "race"]
)
def test_the_export_decides_at_the_layer_of_the_prediction(
    name, export_task, tiny_config
):
    export = export_task(
        name,
        albert_config=dataclasses.replace(tiny_config, num_hidden_layers=6),
        exit_patience=1,
    )
    rng = np.random.default_rng(0)
    # Lengths differ, so that there are several groups.
    shape = (8, 4, 40) if name == "race" else (16, 40)
    lengths = rng.integers(4, 41, shape[:-1])
    mask = (np.arange(40) < lengths[..., None]).astype(np.int32)
    ids = rng.integers(5, 300, shape).astype(np.int32) * mask
    batch = {"input_ids": ids, "input_mask": mask, "segment_ids": mask * 0}

    found = export.ask("tokens", **batch)

    expected = early_exit.outputs(
        export.model,
        {name: tf.constant(values) for name, values in batch.items()},
        patience=1,
    )
    assert len({*found["num_layers"]}) > 1
    assert min(found["num_layers"]) < 6
    np.testing.assert_array_equal(found["num_layers"], expected["num_layers"])
    np.testing.assert_allclose(found["logits"], expected["logits"], atol=1e-4)


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
