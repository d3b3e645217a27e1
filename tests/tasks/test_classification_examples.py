import pytest

from albert_tf.tasks import classification_examples
from albert_tf.tasks.classification_examples import ClassificationExample


def example(guid="1", text_a="text", text_b=""):
    return ClassificationExample(guid=guid, text_a=text_a, text_b=text_b)


def check(examples):
    numbers = list(range(2, 2 + len(examples)))
    classification_examples.check_examples(examples, numbers, "dev.tsv")


def test_a_label_is_its_place_among_the_labels():
    labels = ("contradiction", "entailment", "neutral")

    found = classification_examples.parse_label("neutral", labels, "here")

    assert found == 2


def test_a_label_of_a_regression_is_a_number():
    assert classification_examples.parse_label("4.75", (), "here") == 4.75


def test_an_unknown_label_is_refused_with_its_row():
    with pytest.raises(
        ValueError, match=r"dev.tsv, line 3: the label is '-', wanted one of "
    ):
        classification_examples.parse_label("-", ("0", "1"), "dev.tsv, line 3")


@pytest.mark.parametrize("text", ["", "high", "nan", "inf"])
def test_a_label_of_a_regression_must_be_a_finite_number(text):
    with pytest.raises(ValueError, match="here: the label is .* a number"):
        classification_examples.parse_label(text, (), "here")


def test_no_rows_are_refused():
    with pytest.raises(ValueError, match="dev.tsv has no rows"):
        check([])


def test_one_row_is_enough(caplog):
    check([example()])

    assert not caplog.records


def test_two_rows_with_one_id_are_refused_with_both_lines():
    with pytest.raises(
        ValueError, match="line 4: the id 'a' stands in line 2 as well"
    ):
        check([example("a"), example("b"), example("a")])


def test_an_id_that_would_break_a_row_of_predictions_is_refused():
    with pytest.raises(ValueError, match="has a tab or a line break"):
        check([example("a\tb")])


def test_empty_texts_are_kept_and_told_of(caplog):
    check([example("a"), example("b", ""), example("c", " ")])

    assert "2 of 3 rows have an empty text (lines 3, 4)" in caplog.text


def test_an_empty_second_text_counts_where_others_have_one(caplog):
    check([example("a", text_b="b"), example("b")])

    assert "1 of 2 rows have an empty text (lines 3)" in caplog.text
