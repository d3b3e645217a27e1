"""Tags follow their scheme, and entities end as in the training."""

import itertools

import numpy as np
import pytest

from albert_tf.metrics import entities
from albert_tf.tasks.tagging import decoding
from albert_tf.tasks.tagging.decoding import Decoding

KINDS = {
    "IOB2": ("O", "B-X", "I-X", "B-Y", "I-Y"),
    "IOBES": ("O", "B-X", "I-X", "E-X", "S-X", "S-Y"),
    "BILOU": ("O", "B-X", "I-X", "L-X", "U-X"),
    "BMES": ("B", "M", "E", "S"),
}


def legal(tags, scheme):
    """Whether each entity begins, goes on and ends as the scheme has it."""
    letters = {"BILOU": "BILU", "BMES": "BMES"}.get(scheme, "BIES")
    begin, within, end, alone = letters
    opened = ""
    for tag in (*tags, "O"):
        letter, kind = tag[0], tag[1:]
        if letter in (within, end) and letter != "O":
            if opened != kind + "!":
                return False
        elif opened and scheme != "IOB2":
            return False
        opened = kind + "!" if letter in (begin, within) else ""
    return True


@pytest.mark.parametrize("scheme", KINDS)
def test_the_best_legal_tags_are_found(scheme):
    labels = KINDS[scheme]
    best = Decoding(labels, scheme)
    rng = np.random.default_rng(0)
    every = [
        ids
        for ids in itertools.product(range(len(labels)), repeat=4)
        if legal([labels[i] for i in ids], scheme)
    ]
    for log_probs in np.log(rng.dirichlet([0.5] * len(labels), (50, 4))):
        found = best.best_tags(log_probs, [*"abcd"])

        totals = [log_probs[range(4), ids].sum() for ids in every]
        assert tuple(found) == every[np.argmax(totals)]


def test_steps_of_unknown_and_of_other_schemes_are_free():
    for scheme in ("plain", "IOB1"):
        best = Decoding(KINDS["IOB2"], scheme)
        log_probs = np.log([[0.1, 0.1, 0.6, 0.1, 0.1]] * 2)

        assert best.is_free
        assert best.best_tags(log_probs, ["a", "b"]).tolist() == [2, 2]
    assert best.best_tags(np.zeros((0, 5)), []).tolist() == []


TEXTS = [
    (["The", "fan", "?", "No", "."], ["O", "B-X", "O", "O", "O"]),
    (["(", "A", ")", "$", "5", "."], ["O", "O", "O", "B-Y", "I-Y", "O"]),
    (["Inc", ".", "?"], ["B-X", "I-X", "O"]),
] * 5 + [(["+"], ["O"])]


def test_entities_have_the_marks_of_the_training_at_their_ends():
    rules = decoding.learn_rules(TEXTS, KINDS["IOB2"])

    assert rules == {
        "scheme": "IOB2",
        "never_first": ["(", ")", ".", "?"],
        "never_last": ["$", "(", ")", "?"],
    }
    best = Decoding(KINDS["IOB2"], **rules)
    words = ["$", "fan", "?", "x", ".", "(", "?"]
    wanted = [3, 1, 2, 0, 1, 1, 2]
    log_probs = np.log(np.eye(5)[wanted] * 0.5 + 0.1)
    tags = [KINDS["IOB2"][i] for i in best.best_tags(log_probs, words)]
    assert tags == ["O", "B-X", "O", "O", "O", "O", "O"]
    assert Decoding(("O", "X"), "IOB2").is_free
    assert decoding.learn_rules([(["a"], ["NOUN"])], ("NOUN",)) == {}


def test_a_word_without_tokens_is_within_an_entity_or_outside():
    best = Decoding(KINDS["IOB2"], "IOB2")
    sure = np.log(np.eye(5) * 0.9 + 0.02)
    none = best.of_no_tokens

    def found(*rows):
        tags = best.best_tags(np.array(rows), [""] * len(rows))
        return [KINDS["IOB2"][i] for i in tags]

    assert found(sure[1], none, sure[2]) == ["B-X", "I-X", "I-X"]
    assert found(sure[1], none, sure[0]) == ["B-X", "O", "O"]
    assert found(none, sure[1], none) == ["O", "B-X", "O"]


@pytest.mark.parametrize("labels", KINDS.values())
def test_steps_say_where_entities_start_and_end(labels):
    tags = decoding.readable(labels, labels)
    _, starts, ends = entities.step_tables(tags, "plain")
    for (i, a), (j, b) in itertools.product(enumerate(labels), repeat=2):
        found = decoding.find_entities([a, b], labels)
        assert starts[i, j] == any(one.start == 1 for one in found)
        assert ends[i, j] == any(one.end == 1 for one in found)
