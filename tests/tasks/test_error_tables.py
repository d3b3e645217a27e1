import dataclasses

import numpy as np
from scipy import special

from albert_tf.tasks import error_tables


@dataclasses.dataclass
class Pair:
    guid: str
    text_a: str = "one"
    text_b: str | None = "two"
    label: str = "yes"


def test_confusions_have_labels_in_rows_and_errors_begin_with_the_worst():
    logits = np.array([[0, 1], [0, 3], [2, 0], [0, 0.5]], np.float32)
    examples = [Pair(guid) for guid in "abcd"]

    confusions, errors = error_tables.prediction_sections(
        examples,
        np.array([0, 0, 0, 1]),
        logits.argmax(axis=-1),
        special.softmax(logits, axis=-1),
        ["no", "yes"],
    )

    assert confusions["header"] == ("", "no", "yes")
    assert confusions["rows"] == [("no", "1", "2"), ("yes", "0", "1")]
    assert errors["title"] == "The worst of 2 errors"
    assert errors["rows"] == [
        ("b", "one | two", "no", "yes", "0.0474"),  # 1 / (1 + e^3)
        ("a", "one | two", "no", "yes", "0.2689"),  # 1 / (1 + e)
    ]


def test_rows_with_several_labels_begin_with_the_most_wrong_ones():
    labels = np.array([[1, 0, 1], [0, 0, 1], [0, 1, 0], [0, 0, 0]])
    predictions = np.array([[1, 0, 1], [0, 0, 0], [1, 0, 0], [0, 0, 0]])

    (errors,) = error_tables.prediction_sections(
        [Pair(guid) for guid in "abcd"],
        labels,
        predictions,
        label_names="xyz",
    )

    assert errors["title"] == "The worst of 2 errors"
    assert errors["rows"] == [
        ("c", "one | two", "y", "x"),
        ("b", "one | two", "z", ""),
    ]


def test_a_regression_shows_its_largest_errors():
    (errors,) = error_tables.prediction_sections(
        [Pair("a"), Pair("b", "x" * 290, "y" * 20)],
        np.array([1.0, 2.0]),
        np.array([0.5, 7.25]),
    )

    assert errors["rows"] == [
        ("b", f"{'x' * 290} | yyyyyy…", "2.000", "7.250"),
        ("a", "one | two", "1.000", "0.500"),
    ]
