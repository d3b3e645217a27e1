"""Raw text gives the choices of the Python path."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.export import race_signatures
from albert_tf.metrics.classification import softmax
from albert_tf.modeling.sequence_models import MultipleChoiceModel
from albert_tf.tasks.race import examples, features, passage_files
from albert_tf.tasks.race.examples import MultipleChoiceExample
from albert_tf.tasks.race.features import ChoiceLengths

QUESTIONS = ["a _ b", "_", "__", "", "no blank", "é ＿ 漢︳字", "x_"]
OPTIONS = ["one", "", "zwölf 漢", "_"]


def test_options_take_the_places_of_blanks():
    found = race_signatures.complete(
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
    for code_point in race_signatures.BLANKS:
        assert examples.BLANK.fullmatch(chr(code_point))
    assert len(race_signatures.BLANKS) == 7


def test_texts_that_grow_too_long_are_an_invalid_argument():
    question = tf.constant(["_" * 20_000])
    options = tf.constant([["x" * 1_000, ""]])

    with pytest.raises(
        tf.errors.InvalidArgumentError, match="most 16777216 characters"
    ):
        race_signatures.complete(question, options)


INPUTS = ("input_ids", "input_mask", "segment_ids")
race_signatures_OPTIONS = (
    "a house",
    "",
    "the very long option of them all",
    "Café ½",
)
ARTICLES = ["The house stood on a hill. " * 4, "", "Short.", "漢字\0 x"]
race_signatures_QUESTIONS = [
    "What is it?",
    "It is _ .",
    "_",
    "",
    "Both _ and ＿ of them ︳",
    "The question that is too long to fit, is it not? Where was the man?",
]


def example(article, question, options, number):
    return MultipleChoiceExample(
        guid=str(number),
        passage_id="",
        article=article,
        question=question,
        options=options,
    )


MADE = [
    example(article, question, race_signatures_OPTIONS, i)
    for i, (article, question) in enumerate(
        (article, question)
        for article in ARTICLES
        for question in race_signatures_QUESTIONS
    )
]


def python_logits(exported, examples):
    """Features and model, as a fine-tuning run makes them."""
    lengths = ChoiceLengths(
        max_seq_length=exported.job.max_seq_length,
        max_qa_length=exported.job.max_qa_length,
    )
    records = list(features.make_records(examples, exported.tokenizer, lengths))
    rows = []
    for record in records:
        batch = {name: record[name][None] for name in INPUTS}
        rows.append(exported.model(batch)["logits"][0])
    return np.stack(rows)


def check_equal(exported, examples):
    found = exported.ask(
        article=[one.article for one in examples],
        question=[one.question for one in examples],
        options=[one.options for one in examples],
    )

    logits = python_logits(exported, examples)
    assert found["choice"].dtype == np.int32
    assert found["choice"].tolist() == logits.argmax(-1).tolist()
    assert len(set(found["choice"])) > 1
    np.testing.assert_allclose(
        found["probabilities"], softmax(logits), atol=1e-5
    )


def test_made_questions(exported_race):
    check_equal(exported_race, MADE)


def test_chinese_questions(
    export_task, tiny_config, tiny_chinese_vocabulary, chinese_texts
):
    exported = export_task(
        MultipleChoiceModel(tiny_config),
        tiny_chinese_vocabulary,
        task="race",
        max_seq_length=32,
        max_qa_length=10,
    )
    examples = [
        example(article, question, tuple(chinese_texts[:4]), number)
        for number, (article, question) in enumerate(
            itertools.product(chinese_texts, [*chinese_texts, "一_丁＿？"])
        )
    ]

    check_equal(exported, examples)


def test_real_questions(exported_race, shared_data):
    folder = shared_data / "data" / "race" / "RACE" / "dev" / "middle"
    files = sorted(folder.glob("*.txt"))[:6]
    examples = [
        one for file in files for one in passage_files.read_passages(file)
    ]

    check_equal(exported_race, examples)


def test_ids(exported_race):
    ids = np.random.default_rng(1).integers(5, 300, (3, 4, 11), np.int32)
    batch = {
        "input_ids": ids,
        "input_mask": ids * 0 + 1,
        "segment_ids": ids * 0,
    }

    found = exported_race.ask("tokens", **batch)

    logits = exported_race.model(batch)["logits"]
    assert set(found) == {"logits", "probabilities"}
    np.testing.assert_allclose(found["logits"], logits, atol=1e-5)
    np.testing.assert_allclose(
        found["probabilities"], softmax(logits.numpy()), atol=1e-5
    )


def test_no_questions(exported_race):
    none = tf.constant([], tf.string)

    found = exported_race.ask(
        article=none, question=none, options=tf.reshape(none, (0, 4))
    )

    assert found["choice"].shape == (0,)
    assert found["probabilities"].shape == (0, 4)


def test_a_text_of_100_000_characters(exported_race):
    article = "the house on the hill " * 5_000
    question = "is _ " * 2_000

    found = exported_race.ask(
        article=[article],
        question=[question],
        options=[["a", "the house", "", article[:20]]],
    )

    assert np.isfinite(found["probabilities"]).all()
