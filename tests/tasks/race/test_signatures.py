"""Blanks of questions in the graph are filled as in Python."""

import pytest
import tensorflow as tf

from albert_tf.tasks.race import signatures
from albert_tf.tasks.race.examples import MultipleChoiceExample

BLANK_QUESTIONS = ["a _ b", "_", "__ is ____", "_ _", "", "no blank"]
BLANK_QUESTIONS += ["é ＿ 漢︳字", "\0\n_\n_"]
BLANK_OPTIONS = ("one", "", "zwölf 漢", "_")


def test_options_take_the_places_of_blanks():
    found = signatures.complete(
        tf.constant(BLANK_QUESTIONS),
        tf.constant([BLANK_OPTIONS] * len(BLANK_QUESTIONS)),
    )

    examples = (
        MultipleChoiceExample(
            guid="1", article="", question=question, options=BLANK_OPTIONS
        )
        for question in BLANK_QUESTIONS
    )
    expected = [text for one in examples for text in one.choice_texts()]
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
