"""The simple model beside a run: its scores, and which one is better."""

import logging

import numpy as np
import pytest

from albert_tf.metrics.scores import Role, Score, Scores
from albert_tf.observers import simple_alternative
from albert_tf.tasks.classification.data import ClassificationData
from albert_tf.tasks.labelled_texts import ClassificationExample
from albert_tf.tasks.task_data import ExampleSet

TEXTS = ("the cat sleeps", "a dog barks")


def examples_of(label, number):
    return [
        ClassificationExample(
            guid=str(i), text_a=f"{TEXTS[i % 2]} {i}", label=label(i % 2)
        )
        for i in range(number)
    ]


def make_sets(labels=("a", "b"), label=lambda i: i, **fields):
    """Sets to train on and to evaluate: 40 texts, and 20."""
    data = ClassificationData(
        name="custom",
        labels=labels,
        tokenizer=None,
        max_seq_length=16,
        **{"score_names": ("accuracy", "f1"), **fields},
    )
    return [
        ExampleSet(examples=examples_of(label, number), data=data)
        for number in (40, 20)
    ]


def scores_of(train, evaluated, outputs):
    """The scores of a model, and those of the simple one."""
    outputs = simple_alternative.with_outputs(outputs, train, evaluated)
    scores = evaluated.data.scores(evaluated.examples, outputs)
    observer = simple_alternative.SimpleAlternative()
    more = observer.additional_scores(evaluated, outputs, scores)
    return scores.with_entries(more)


@pytest.mark.parametrize("num_right", [20, 8])
def test_a_simple_model_is_trained_and_scored_on_the_same_rows(num_right):
    train, evaluated = make_sets()
    is_right = np.arange(20) < num_right
    classes = np.where(is_right, np.arange(20) % 2, 1 - np.arange(20) % 2)

    scores = scores_of(train, evaluated, {"logits": np.eye(2)[classes]})

    assert scores["accuracy_tfidf"] == scores["f1_tfidf"] == 1
    assert scores.simple == {"accuracy": 1, "f1": 1}
    found = simple_alternative.verdict(scores, "accuracy")
    assert found[0] == logging.WARNING
    assert found[1].startswith("No better than TF-IDF")
    p_value = 1 if num_right == 20 else 2 / 2**12
    assert scores["accuracy_tfidf_p"] == pytest.approx(p_value)
    assert ("may be chance" in found[1]) == (num_right == 20)


@pytest.mark.parametrize(
    ("simple", "p_value", "words"),
    [
        (0.8, 0.01, "Better than TF-IDF: accuracy"),
        (0.8, 0.2, "(may be chance, McNemar's p = 0.2)"),
        (0.9, None, "No better than TF-IDF: accu"),
        (0.95, 0.01, "0.9, against 0.95 (McNemar's p = 0.01)"),
    ],
)
def test_the_better_one_is_said(simple, p_value, words):
    entries = [
        Score("accuracy", 0.9),
        Score("accuracy_tfidf", simple, Role.SIMPLE, "accuracy"),
    ]
    if p_value is not None:
        key = "accuracy_tfidf_p"
        entries.append(Score(key, p_value, Role.P_VALUE, "accuracy"))

    level, text = simple_alternative.verdict(
        Scores(entries=tuple(entries)), "accuracy"
    )

    assert words in text
    assert (level == logging.WARNING) == (simple >= 0.9)
    assert simple_alternative.verdict(Scores(), "accuracy") is None


def test_numbers_and_several_labels_have_their_own_metrics():
    numbers = make_sets(
        (),
        lambda i: 100.0 * i,
        score_names=("pearson", "mean_absolute_error"),
        target_mean=50.0,
        target_scale=50.0,
    )
    several = make_sets(
        ("a", "b"),
        lambda i: (i,),
        label_separator=",",
        score_names=("f1_micro", "accuracy"),
    )

    of_numbers = scores_of(*numbers, {"logits": np.zeros((20, 1))})
    of_several = scores_of(*several, {"logits": np.zeros((20, 2))})

    assert of_numbers["pearson_tfidf"] > 0.99
    assert of_numbers["mean_absolute_error_tfidf"] < 10
    assert "pearson_tfidf_p" not in of_numbers
    assert of_several["f1_micro_tfidf"] == of_several["accuracy_tfidf"] == 1
    # McNemar's test is about rows that are right, not about F1.
    assert of_several["accuracy_tfidf_p"] < 0.05
    assert "p =" not in simple_alternative.verdict(of_several, "f1_micro")[1]


def test_seeds_share_one_simple_model_and_folds_join_their_own(monkeypatch):
    train, evaluated = make_sets()
    calls = []
    answer = simple_alternative.simple_models.answer_texts
    monkeypatch.setattr(
        simple_alternative.simple_models,
        "answer_texts",
        lambda *given: calls.append(given) or answer(*given),
    )

    of_seeds = [
        simple_alternative.with_outputs({}, rows, evaluated)
        for rows in (train, train, None)
    ]
    alone = simple_alternative.with_outputs({}, None, make_sets()[1])

    assert len(calls) == 1
    assert all(outputs["tfidf"].shape == (20, 2) for outputs in of_seeds)
    assert not alone


def test_a_failure_of_the_simple_model_is_said_and_no_more(caplog):
    train, evaluated = make_sets()
    caplog.set_level(logging.INFO)
    # One label cannot be told from another.
    same = ExampleSet(examples=train.examples[::2], data=train.data)

    scores = scores_of(same, evaluated, {"logits": np.eye(2)[[0, 1] * 10]})

    assert not scores.simple
    assert "No simple model is compared: " in caplog.messages[-1]
