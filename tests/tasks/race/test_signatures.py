"""Raw text gives the predictions of the Python path: choices."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.metrics.classification import softmax
from albert_tf.tasks.race import signatures
from albert_tf.tasks.race.data import MultipleChoiceData
from albert_tf.tasks.race.examples import MultipleChoiceExample

INPUTS = {"input_ids": 0, "input_mask": 0, "segment_ids": 0}
BLANK_QUESTIONS = ["a _ b", "_", "__ is ____", "_ _", "", "no blank"]
BLANK_QUESTIONS += ["é ＿ 漢︳字", "\0\n_\n_"]
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
        article=article,
        question=question,
        options=tuple(options),
    )


def test_options_take_the_places_of_blanks():
    found = signatures.complete(
        tf.constant(BLANK_QUESTIONS),
        tf.constant([BLANK_OPTIONS] * len(BLANK_QUESTIONS)),
    )

    expected = [
        text
        for question in BLANK_QUESTIONS
        for text in example("", question, BLANK_OPTIONS).choice_texts()
    ]
    assert [text.decode() for text in found.numpy()] == expected


@pytest.mark.parametrize(
    ("blanks", "size"), [(20_000, 1_000), (16, 9_000), (500, 500)]
)
def test_blanks_that_grow_too_long_are_an_invalid_argument(blanks, size):
    question = tf.constant(["_a" * blanks])
    options = tf.constant([["x" * size, ""]])

    with pytest.raises(tf.errors.InvalidArgumentError, match="3 times its len"):
        signatures.complete(question, options)


def test_fifteen_blanks_of_a_batch_are_filled():
    question = "Text between the blanks, _ " * 15
    options = ["an option of usual length"] * 4

    found = signatures.complete(
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
    data = MultipleChoiceData(
        tokenizer=exported.tokenizer, lengths=exported.settings.choice_lengths()
    )
    rows = []
    for record in data.records(examples, is_training=False):
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
    check_choices(exported("multiple_choice"), MADE)
