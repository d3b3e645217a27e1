import pytest
import tensorflow as tf

from albert_tf.export import choice_texts
from albert_tf.tasks.race import examples
from albert_tf.tasks.race.examples import MultipleChoiceExample

QUESTIONS = ["a _ b", "_", "__", "", "no blank", "é ＿ 漢︳字", "x_"]
OPTIONS = ["one", "", "zwölf 漢", "_"]


def test_options_take_the_places_of_blanks():
    found = choice_texts.complete(
        tf.constant(QUESTIONS), tf.constant([OPTIONS] * len(QUESTIONS))
    )

    expected = [
        text
        for question in QUESTIONS
        for text in MultipleChoiceExample(
            guid="1",
            passage_id="1",
            article="",
            question=question,
            options=tuple(OPTIONS),
        ).choice_texts()
    ]
    assert [text.decode() for text in found.numpy()] == expected


def test_all_blanks_are_known():
    for code_point in choice_texts.BLANKS:
        assert examples.BLANK.fullmatch(chr(code_point))
    assert len(choice_texts.BLANKS) == 7


def test_texts_that_grow_too_long_are_an_invalid_argument():
    question = tf.constant(["_" * 20_000])
    options = tf.constant([["x" * 1_000, ""]])

    with pytest.raises(
        tf.errors.InvalidArgumentError, match="most 16777216 characters"
    ):
        choice_texts.complete(question, options)
