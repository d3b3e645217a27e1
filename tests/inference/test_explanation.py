import functools
import json

import numpy as np
import pytest

import albert_tf
from albert_tf.checkpoints.metadata import Metadata
from tests.exported_models import write_checkpoint
from tests.inference.test_predictor import CONFIG


class Counting:
    """A predictor whose answer is a function of its input."""

    text_columns = ()

    def __init__(self, answer):
        self._answer = answer

    def predict(self, inputs, batch_size):
        return [self._answer(item) for item in inputs]

    explain = albert_tf.Predictor.explain


def of_cats(item):
    """An answer that depends on the cats of a text."""
    share = 0.5 + 0.1 * " ".join(
        item if isinstance(item, tuple) else [item]
    ).count("cat")
    return {
        "prediction": "yes",
        "probabilities": {"yes": share, "no": 1 - share},
    }


def changes(explanation):
    return {
        (word["field"], word["text"]): pytest.approx(word["change"])
        for word in explanation.words
        if abs(word["change"]) > 1e-9
    }


def test_a_text_without_an_answer_has_its_likeliest_label_explained():
    predictor = Counting(lambda item: of_cats(item) | {"prediction": None})

    explanation = predictor.explain("The cat sat.")

    assert explanation.of == "probability of yes"
    assert changes(explanation) == {("text_a", "cat"): 0.1}


def test_a_word_is_worth_what_its_absence_costs():
    predictor = Counting(of_cats)

    one = predictor.explain("The cat, don't 猫 sit.")
    other = predictor.explain(("a cat", "no cat-fish"), label="no")

    assert one.of == "probability of yes" and one.value == pytest.approx(0.6)
    words = [word["text"] for word in one.words]
    assert words == ["The", "cat", "don't", "猫", "sit"]
    assert changes(one) == {("text_a", "cat"): 0.1}
    for word in one.words:
        text = one.texts[word["field"]][word["start"] : word["end"]]
        assert text == word["text"]
    assert changes(other) == {
        ("text_a", "cat"): -0.1,
        ("text_b", "cat-fish"): -0.1,
    }
    json.dumps(other.words)


def test_an_accent_belongs_to_its_letter():
    explanation = Counting(of_cats).explain("Scho\u0308n, नमस्ते! „Größe“ ที่")

    words = [word["text"] for word in explanation.words]
    assert words == ["Scho\u0308n", "नमस्ते", "Größe", "ที่"]


def test_of_a_long_text_neighbours_are_left_out_together():
    explanation = Counting(of_cats).explain("a b c " * 199 + "my cat")

    assert len(explanation.words) == 200
    assert explanation.words[0]["text"] == "a b c"
    assert changes(explanation) == {("text_a", "my cat"): 0.1}


def test_the_answer_and_entities_are_not_left_out():
    def of_question(item):
        question, context = item["question"], item["context"]
        found = "Ann" if "Who" in question else context[:3]
        start = context.index(found)
        score = 0.9 if "sat" in context else 0.5
        return {
            "answer": found,
            "start": start,
            "end": start + 3,
            "score": score,
        }

    def of_tags(item):
        start = item.index("Ann")
        score = 0.75 if "Mrs" in item else 0.25
        entity = {"label": "PER", "text": "Ann", "score": score}
        return {"entities": [entity | {"start": start, "end": start + 3}]}

    row = {"id": "x", "question": "Who sat?", "context": "Here Ann sat."}
    question = Counting(of_question).explain(row)
    tags = Counting(of_tags).explain("Mrs Ann sat.")

    assert [word["text"] for word in question.words] == [
        "Who",
        "sat",
        "Here",
        "sat",
    ]
    assert changes(question) == {
        ("question", "Who"): 0.9,
        ("context", "sat"): pytest.approx(0.4),
    }
    assert [word["text"] for word in tags.words] == ["Mrs", "sat"]
    assert changes(tags) == {("text_a", "Mrs"): 0.5}


def test_a_notebook_shows_colors_and_no_markup_of_the_text():
    page = Counting(of_cats).explain("<b> cat")._repr_html_()

    assert 'rgba(40, 160, 70, 1.00)">cat<' in page
    assert "&lt;" in page and "<b>" not in page


@pytest.mark.parametrize(
    ("make_model", "head", "item"),
    [
        (
            functools.partial(albert_tf.ClassifierModel, num_labels=1),
            None,
            "a b",
        ),
        (
            functools.partial(albert_tf.ClassifierModel, num_labels=2),
            None,
            "a b",
        ),
        (
            albert_tf.MultipleChoiceModel,
            "multiple_choice",
            ("an article", "a question", ["c", "d"]),
        ),
        (albert_tf.SpanModel, "span", ("Who sat?", "The cat sat.")),
    ],
)
def test_models_are_explained(make_model, head, item, tmp_path, tiny_spm_model):
    write_checkpoint(
        tmp_path,
        make_model(CONFIG),
        vocabulary=str(tiny_spm_model),
        metadata=Metadata(head=head),
    )
    predictor = albert_tf.load_predictor(tmp_path)

    explanation = predictor.explain(item)

    assert explanation.answer == predictor.predict([item])[0]
    assert np.all(np.isfinite([word["change"] for word in explanation.words]))
    assert len(explanation.words) >= 2


@pytest.mark.parametrize(
    ("answer", "item", "options", "message"),
    [
        ({"vector": [1.0]}, "a", {}, "Only a label, a number"),
        ({"entities": []}, "a", {}, "Only a label, a number"),
        (
            {"prediction": 1.5},
            "a",
            {"label": "x"},
            "Only an answer with labels",
        ),
        (of_cats("a"), "a", {"label": "x"}, "`label` must be one of yes, no"),
        (of_cats("a"), "?!", {}, "no word to leave out"),
        (
            {"entities": [{"label": "a", "text": "b", "score": 1}]},
            ["b"],
            {},
            "Pass a text",
        ),
    ],
)
def test_what_cannot_be_explained(answer, item, options, message):
    with pytest.raises(ValueError, match=message):
        Counting(lambda _: answer).explain(item, **options)
