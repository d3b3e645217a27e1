import pytest

from albert_tf.tasks.classification import examples
from albert_tf.tasks.classification import examples as examples_lib
from albert_tf.tasks.classification.examples import (
    ClassificationExample,
    Columns,
)


def example(guid="1", text_a="text", text_b=""):
    return ClassificationExample(guid=guid, text_a=text_a, text_b=text_b)


def check(examples):
    numbers = list(range(2, 2 + len(examples)))
    examples_lib.check_examples(examples, numbers, "dev.tsv")


def test_a_label_is_its_place_among_the_labels():
    labels = ("contradiction", "entailment", "neutral")

    found = examples_lib.parse_label("neutral", labels, "here")

    assert found == 2


def test_a_label_of_a_regression_is_a_number():
    assert examples_lib.parse_label("4.75", (), "here") == 4.75


def test_an_unknown_label_is_refused_with_its_row():
    with pytest.raises(
        ValueError, match=r"dev.tsv, line 3: the label is '-', wanted one of "
    ):
        examples_lib.parse_label("-", ("0", "1"), "dev.tsv, line 3")


@pytest.mark.parametrize("text", ["", "high", "nan", "inf"])
def test_a_label_of_a_regression_must_be_a_finite_number(text):
    with pytest.raises(ValueError, match="here: the label is .* a number"):
        examples_lib.parse_label(text, (), "here")


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


TABLE = "kind\tsubject\tbody\tid\nham\tone\ttwo\tx7\nspam\tthree\t\tx8\n"
PAIR = Columns(texts=("subject", "body"), label="kind", guid="id")


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text(TABLE)
    return path


def read(path, columns, labels=("ham", "spam"), **options):
    return examples.read_examples(path, columns, labels=labels, **options)


def test_a_row_gives_its_texts_its_label_and_its_id(table):
    assert read(table, PAIR) == [
        ClassificationExample(guid="x7", text_a="one", text_b="two", label=0),
        ClassificationExample(guid="x8", text_a="three", text_b="", label=1),
    ]


def test_rows_without_an_id_are_numbered_by_their_lines(table):
    columns = Columns(texts=("subject",), label="kind")

    found = read(table, columns, guid_prefix="dev-")

    assert [example.guid for example in found] == ["dev-1", "dev-2"]
    assert [example.text_b for example in found] == ["", ""]


def test_without_a_label_column_no_label_is_read(table):
    found = read(table, Columns(texts=("subject",)), labels=())

    assert [example.label for example in found] == [None, None]


def test_a_label_that_is_not_known_is_refused_with_row_and_label(table):
    with pytest.raises(ValueError, match=r"train.tsv, line 3: .* 'spam'"):
        read(table, PAIR, labels=("ham", "eggs"))


def test_numbers_are_the_labels_of_a_regression(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text('{"text": "a", "score": 2.5}\n{"text": "b", "score": 3}\n')

    found = read(path, Columns(texts=("text",), label="score"), labels=())

    assert [example.label for example in found] == [2.5, 3.0]
    assert [example.guid for example in found] == ["0", "1"]


def test_an_id_column_must_be_there(table):
    with pytest.raises(ValueError, match="no column named 'key'"):
        read(table, Columns(texts=("body",), guid="key"))


def test_broken_rows_that_are_left_out_are_told_of(table, caplog):
    table.write_text(TABLE + "torn\n")

    found = read(table, PAIR, skips_broken_rows=True)

    assert len(found) == 2
    assert "1 rows have too few or too many fields" in caplog.text
    assert "(lines 4)" in caplog.text


@pytest.mark.parametrize("texts", [(), ("a", "b", "c"), ("",)])
def test_another_number_of_text_columns_is_refused(texts):
    with pytest.raises(ValueError, match="must name one column or two"):
        Columns(texts=texts)


def test_labels_are_those_of_the_file_sorted(table):
    assert examples.read_labels(table, "kind") == ("ham", "spam")


def test_an_empty_label_is_refused_with_its_row(table):
    table.write_text(TABLE + " \tfour\tfive\tx9\n")

    with pytest.raises(ValueError, match=r"line 4: the label is empty"):
        examples.read_labels(table, "kind")


def test_a_label_that_would_break_a_row_of_predictions_is_refused(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text('{"kind": "a\\nb"}\n')

    with pytest.raises(ValueError, match=r"line 1: the label .* line break"):
        examples.read_labels(path, "kind")


def test_a_file_without_rows_has_no_labels(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("text\tkind\n")

    with pytest.raises(ValueError, match="train.tsv has no rows"):
        examples.read_labels(path, "kind")


@pytest.mark.parametrize(
    ("texts", "label"), [(("a", "a"), "b"), (("a", "b"), "b"), (("a",), "a")]
)
def test_a_column_is_for_one_thing(texts, label):
    with pytest.raises(ValueError, match="text columns and the label column"):
        Columns(texts=texts, label=label)


@pytest.mark.parametrize("num_labels", [1, 1001])
def test_too_few_or_too_many_labels_are_refused(num_labels, tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("k\n" + "".join(f"{i}\n" for i in range(num_labels)))

    with pytest.raises(ValueError, match=f"are {num_labels} different labels"):
        examples.read_labels(path, "k")


@pytest.mark.parametrize("name", ["dev.tsv", "dev.jsonl", "dev.tsv.gz"])
def test_a_split_is_found_by_its_name(name, tmp_path):
    (tmp_path / name).touch()
    (tmp_path / "train.tsv").touch()

    found = examples.find_split(tmp_path, "dev")

    assert found == str(tmp_path / name)


def test_a_missing_split_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no test.tsv or test.jsonl"):
        examples.find_split(tmp_path, "test")


def test_two_files_of_one_split_are_refused(tmp_path):
    (tmp_path / "dev.tsv").touch()
    (tmp_path / "dev.jsonl").touch()

    with pytest.raises(ValueError, match=r"several files for dev: .*dev.jsonl"):
        examples.find_split(tmp_path, "dev")


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (("spam",), "--labels: there are 1 different labels"),
        (("ham", "spam", "ham"), "--labels names a label twice: 'ham', 'spam'"),
        (("ham", " "), "--labels: the label is empty"),
        (("ham", "sp\tam"), "--labels: the label 'sp.tam' has a tab"),
    ],
)
def test_labels_that_are_given_must_tell_apart(labels, words):
    with pytest.raises(ValueError, match=words):
        examples.check_labels(labels, "--labels")
