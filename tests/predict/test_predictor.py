"""Text in, answers out: forms of inputs, heads without a task, refusals.

The tests of the commands compare answers with the files of `--do_predict`.
"""

import dataclasses
import json

import pytest
import tensorflow as tf

import albert_tf
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.config import AlbertConfig

CONFIG = AlbertConfig(
    vocab_size=300,
    embedding_size=8,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=24,
    max_position_embeddings=64,
    initializer_range=0.5,
)
TEXTS = ["A house.", "", "The cat sat on the mat. " * 9, "half ½"]


@pytest.fixture
def classify(load):
    model = albert_tf.ClassifierModel(CONFIG, num_labels=2)
    return load(model, Metadata(labels=("ham", "spam")))


def test_one_input_a_list_an_iterator_and_a_dataset(classify):
    one_by_one = [classify.predict(text) for text in TEXTS]

    assert {*one_by_one[0]} == {"prediction", "probabilities"}
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS)
    for many in (TEXTS, (text for text in TEXTS), dataset):
        answers = classify.predict(many)
        assert isinstance(answers, list) == (many is TEXTS)
        for one, other in zip(answers, one_by_one, strict=True):
            assert one["prediction"] == other["prediction"]
            for label, value in one["probabilities"].items():
                assert value == pytest.approx(other["probabilities"][label])
    assert classify.predict([]) == []
    assert classify.predict(tf.constant(TEXTS[0])) == one_by_one[0]


def test_pairs_are_tuples_or_dicts(classify):
    pairs = [("a", "b"), {"text_a": "a", "text_b": "b"}, (b"a", b"b")]

    answers = [classify.predict(pair) for pair in pairs]

    assert answers[0] == answers[1] == answers[2]
    assert answers[0] != classify.predict("a")
    assert classify.predict({"text_a": "a"}) == classify.predict("a")


def test_several_labels_have_their_thresholds(load):
    model = albert_tf.ClassifierModel(CONFIG, num_labels=3)
    known = Metadata(
        labels=("a", "b", "c"), multi_label=True, thresholds=(0.0, 0.999, 0.0)
    )

    [answer] = load(model, known).predict(["A house."])

    assert answer["prediction"] == ["a", "c"]
    assert {*answer["probabilities"]} == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (3, "Input 1 has 3, which is no text"),
        ({"text": "a", "other": "b"}, "Input 1 must have text_a, text_b"),
        (("a", 3), "Input 1 has 3, which is no text"),
        (("a", "b", "c"), "Input 1 must have"),
        (None, "Input 1 has None, which is no text"),
        ({"text_a": ["a", "b"]}, "Input 1 has .* which is no text"),
    ],
)
def test_an_input_of_another_kind_is_named(item, message, classify):
    with pytest.raises(ValueError, match=message):
        classify.predict(["fine", item])


def test_a_folder_without_a_vocabulary(load):
    with pytest.raises(ValueError, match="no one vocabulary beside"):
        load(albert_tf.AlbertModel(CONFIG), vocabulary=None)


def test_heads_of_transformers_for_questions(load):
    model = albert_tf.SpanModel(CONFIG)

    with pytest.raises(ValueError, match="export_saved_model"):
        load(model, Metadata(null_from_cls=True))


def test_the_training_decides_the_length(load):
    config = dataclasses.replace(CONFIG, max_position_embeddings=16)
    predictor = load(albert_tf.ClassifierModel(config, num_labels=2))

    assert predictor.predict("snow " * 99) == predictor.predict("snow " * 98)


def test_a_model_of_one_text_takes_no_pair(load, tmp_path):
    settings = {"text_columns": ["text"], "max_seq_length": 16}
    (tmp_path / "run.json").write_text(json.dumps({"settings": settings}))
    predictor = load(albert_tf.ClassifierModel(CONFIG, num_labels=2))

    with pytest.raises(ValueError, match="trained on one text"):
        predictor.predict(("One.", "Two."))
    assert len(predictor.predict(["One.", "Two."])) == 2


@pytest.mark.parametrize("inputs", [None, 5])
def test_what_is_no_iterable_is_refused(inputs, classify):
    with pytest.raises(ValueError, match="Pass a text, a dict, or an iter"):
        classify.predict(inputs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_seq_length": 0}, "max_seq_length"),
        ({"max_seq_length": 65}, "max_seq_length"),
        ({"head": "span"}, "has no span head. It has: task"),
    ],
)
def test_what_the_model_does_not_have(options, message, load):
    with pytest.raises(ValueError, match=message):
        load(albert_tf.ClassifierModel(CONFIG, num_labels=2), **options)


@pytest.mark.parametrize("options", ["CDE", [], ["a"], ["a"] * 27])
def test_options_are_a_list(options, load):
    config = dataclasses.replace(CONFIG, max_position_embeddings=160)
    predictor = load(
        albert_tf.MultipleChoiceModel(config), Metadata(task="race")
    )

    with pytest.raises(ValueError, match="a list of 2 to 26 options"):
        predictor.predict(("An article.", "A question?", options))
