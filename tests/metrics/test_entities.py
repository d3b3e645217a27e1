"""Scores of entities; `EXPECTED` are numbers of seqeval 1.2.2."""

import numpy as np
import pytest

from albert_tf.metrics import entities

TRUE = {
    "IOB1": "I-A I-A B-A O I-B I-A-B|I-B O B-B I-B",
    "IOB2": "B-A I-A B-A O I-B B-A-B|B-B O I-B I-A",
    "IOBES": "B-A E-A S-A O B-B I-B E-B|S-B O B-A I-B E-A",
    "BILOU": "B-A L-A U-A O B-B I-B L-B|U-B O B-A I-B L-A",
}
PREDICTED = {
    "IOB1": "I-A B-A B-A I-A I-B I-A-B|I-B I-B B-B I-A",
    "IOB2": "B-A I-A I-A O B-B I-A-B|B-B O B-B I-B",
    "IOBES": "B-A E-A B-A O B-B I-B I-B|S-B O S-A I-B E-A",
    "BILOU": "B-A L-A B-A O B-B I-B I-B|U-B O U-A I-B L-A",
}

for tags in (TRUE, PREDICTED):
    tags["BMES"] = tags["IOBES"].replace("I-", "M-")


def read(text):
    return [sentence.split() for sentence in text.split("|")]


# Precision and recall.
EXPECTED = {
    "IOB1": (1 / 4, 1 / 3),
    "IOB2": (3 / 5, 3 / 7),
    "IOBES": (1, 1),
    # The same as of these tags in IOBES.
    "BILOU": (1, 1),
    "BMES": (1, 1),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_scores_are_those_of_seqeval(name):
    true, predicted = read(TRUE[name]), read(PREDICTED[name])

    scores = entities.entity_scores(true, predicted)

    precision, recall = EXPECTED[name]
    assert scores["precision"] == pytest.approx(precision, abs=1e-12)
    assert scores["recall"] == pytest.approx(recall, abs=1e-12)
    mean = 2 * precision * recall / (precision + recall)
    assert scores["f1"] == pytest.approx(mean, abs=1e-12)
    pairs = zip(sum(true, []), sum(predicted, []), strict=True)
    same = np.mean([one == other for one, other in pairs])
    assert scores["accuracy"] == pytest.approx(same)


def test_each_kind_has_scores():
    scores = entities.entity_scores(
        [["B-PER", "I-PER", "O", "B"]], [["B-PER", "O", "B-LOC", "B"]]
    )

    names = ("f1", "precision", "recall", "number")
    assert {key: scores[key] for key in scores if "_of_" in key} == {
        f"{name}_of_{kind}": value
        for kind, number, right in (("LOC", 0, 0), ("PER", 1, 0), ("_", 1, 1))
        for name, value in zip(names, [right] * 3 + [number], strict=True)
    }


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        *((text, name) for name, text in TRUE.items() if name[0] != "I"),
        ("I-A I-A B-A O I-B|I-B O", "IOB1"),
        ("B-A I-A B-A O B-B|B-B O", "IOB2"),
        ("B-A E-A O S-B", "IOBES"),
        ("B-A M-A E-A O S-B", "BMES"),
        ("B M E S", "BMES"),
        ("B-A M-A I-A O", "plain"),
        ("B I B B I", "IOB2"),
        ("NOUN VERB", "plain"),
        ("O PER PER", "plain"),
        ("O O", "plain"),
        ("B-A L-A S-A", "plain"),
    ],
)
def test_the_scheme_of_tags_is_recognised(tags, expected):
    assert entities.scheme_of(read(tags)) == expected


def test_tags_without_a_prediction_cannot_be_scored():
    with pytest.raises(ValueError, match="a predicted tag for each true one"):
        entities.entity_scores([["O", "B-A"]], [["O"]])
