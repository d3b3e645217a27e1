"""Simple models: what they learn of few texts and words."""

import functools

import numpy as np
import pytest
from sklearn import linear_model, pipeline
from sklearn.feature_extraction import text

from albert_tf.metrics import simple_models

TEXTS = [
    (f"{greeting} {text} {number}", "")
    for number in range(6)
    for greeting in ("Hello,", "Please:")
    for text in ("the invoice is wrong", "where is my parcel")
]
KINDS = np.array([0, 1] * 12)
ASKED = [("an invoice, please", ""), ("no parcel yet", "")]


@pytest.mark.parametrize("few", [0, 40_000], ids=["many logits", "few"])
def test_texts_are_told_apart_by_their_words(monkeypatch, few):
    monkeypatch.setattr(simple_models, "_FEW_LOGITS", few)

    answers = simple_models.answer_texts(TEXTS, KINDS, 3, ASKED)

    assert answers.logits.shape == (2, 3)
    assert answers.logits.argmax(axis=-1).tolist() == [0, 1]
    # No text has the third label.
    assert np.exp(answers.logits[:, 2]).max() < 0.01
    assert answers.num_trained == 24


def test_single_texts_have_the_model_that_the_docs_describe():
    count = functools.partial(text.TfidfVectorizer, sublinear_tf=True)
    model = pipeline.make_pipeline(
        pipeline.make_union(
            count(ngram_range=(1, 2), token_pattern=r"\w+"),
            count(analyzer="char_wb", ngram_range=(2, 4)),
        ),
        linear_model.LogisticRegression(C=10, class_weight="balanced"),
    )
    model.fit([first for first, _ in TEXTS], KINDS)
    wanted = model.predict_proba([first for first, _ in ASKED])

    logits = simple_models.answer_texts(TEXTS, KINDS, 2, ASKED).logits

    np.testing.assert_allclose(np.exp(logits), wanted, atol=1e-4)


def test_a_text_may_have_several_labels_also_such_that_all_have():
    labels = np.stack([KINDS, 1 - KINDS, np.ones(24)], axis=1)

    logits = simple_models.answer_texts(TEXTS, labels, 3, ASKED).logits

    assert (logits > 0).tolist() == [[False, True, True], [True, False, True]]


def test_numbers_have_a_ridge_regression():
    answers = simple_models.answer_texts(TEXTS, 10.0 * KINDS, 0, ASKED)

    low, high = answers.logits[:, 0]
    assert low < 4 < 6 < high


def test_a_pair_is_known_by_what_both_texts_share():
    rng = np.random.default_rng(0)
    words = [f"{a}{b}" for a in "bdfglmnprst" for b in "aeiou"]
    pairs, labels = [], []
    for number in range(200):
        first, second = (rng.choice(words, 4) for _ in range(2))
        second = first if number % 2 else second
        pairs.append((" ".join(first), " ".join(rng.permutation(second))))
        labels.append(number % 2)

    labels = np.array(labels)
    answers = simple_models.answer_texts(pairs[:150], labels, 2, pairs[150:])

    assert np.mean(answers.logits.argmax(axis=-1) == labels[150:]) > 0.9


@pytest.mark.parametrize(
    ("bound", "most"), [("_MOST_CHARACTERS", 300), ("_MOST_LOGITS", 24)]
)
def test_of_many_texts_some_are_trained_on(monkeypatch, bound, most):
    monkeypatch.setattr(simple_models, bound, most)

    answers = simple_models.answer_texts(TEXTS, KINDS, 2, ASKED)

    assert 8 <= answers.num_trained <= 12
    assert answers.logits.argmax(axis=-1).tolist() == [0, 1]


def test_too_many_texts_to_answer_are_refused(monkeypatch):
    monkeypatch.setattr(simple_models, "_MOST_TO_ANSWER", 10)

    with pytest.raises(ValueError, match="31 characters to answer"):
        simple_models.answer_texts(TEXTS, KINDS, 2, ASKED)


def test_words_are_known_by_shapes_and_neighbours(monkeypatch):
    texts = [
        ["order", f"AB-{n}{n}", "costs", f"{n}", "euros"] for n in range(9)
    ]
    labels = np.array([0, 1, 0, 2, 0] * 9)
    asked = [["your", "order", "XY-77"], ["it", "costs", "12", "euros"]]

    answers = simple_models.answer_words(texts, labels, 3, asked)
    monkeypatch.setattr(simple_models, "_MOST_WORDS", 22)
    fewer = simple_models.answer_words(texts, labels, 3, asked)

    assert answers.logits.argmax(axis=-1).tolist() == [0, 0, 1, 0, 0, 2, 0]
    assert (answers.num_trained, fewer.num_trained) == (9, 4)


def test_rows_of_characters_are_alike_for_words_alike():
    first, second = simple_models.character_rows(
        ["invoices", ""], ["invoice", "parcel"]
    )

    cosines = (first @ second.T).toarray()
    assert cosines[0, 0] > 0.5 > cosines[0, 1]
    assert not cosines[1].any()
