import pytest

from albert_tf.tasks.classification import examples
from albert_tf.tasks.classification.examples import (
    ClassificationExample,
    Columns,
)

TABLE = "kind\tsubject\tbody\tid\nham\tone\ttwo\tx7\nspam\tthree\t\tx8\n"
PAIR = Columns(texts=("subject", "body"), label="kind", guid="id")
NUMBERED = Columns(texts=("subject",), label="kind")


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text(TABLE)
    return path


def read(path, columns, labels=("ham", "spam"), **options):
    return examples.read_examples(path, columns, labels=labels, **options)


def test_a_row_gives_its_texts_its_label_and_its_id(table, caplog):
    assert read(table, PAIR) == [
        ClassificationExample(guid="x7", text_a="one", text_b="two", label=0),
        ClassificationExample(guid="x8", text_a="three", text_b="", label=1),
    ]
    # Other rows have a second text.
    assert "1 of 2 rows have an empty text (lines 3)" in caplog.text


def test_a_row_may_have_one_text_alone(table, caplog):
    found = read(table, Columns(texts=("subject",)), guid_prefix="dev-")

    # The number of its line is the id, and no label is read.
    assert found == [
        ClassificationExample(guid="dev-1", text_a="one"),
        ClassificationExample(guid="dev-2", text_a="three"),
    ]
    assert not caplog.records


def test_numbers_are_the_labels_of_a_regression(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text('{"text": "a", "score": 2.5}\n{"text": "b", "score": 3}\n')

    found = read(path, Columns(texts=("text",), label="score"), labels=())

    assert [example.label for example in found] == [2.5, 3.0]
    assert [example.guid for example in found] == ["0", "1"]


@pytest.mark.parametrize("text", ["", "high", "nan", "inf"])
def test_a_label_of_a_regression_must_be_a_finite_number(text, table):
    table.write_text(f"kind\tsubject\n1.5\tone\n{text}\ttwo\n")

    with pytest.raises(
        ValueError, match=f"train.tsv, line 3: .* a number.* '{text}'"
    ):
        read(table, NUMBERED, labels=())


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("kind\tsubject\n", NUMBERED, "train.tsv has no rows"),
        (
            TABLE + "-\tfour\t\tx9\n",
            PAIR,
            "line 4: the label must be one of 'ham', 'spam'. Received: '-'",
        ),
        (
            TABLE + "ham\tfour\tfive\tx7\n",
            PAIR,
            "line 4: line 2 has the same id, 'x7'",
        ),
    ],
)
def test_a_wrong_row_is_refused_with_its_line(text, columns, message, table):
    table.write_text(text)

    with pytest.raises(ValueError, match=message):
        read(table, columns)


@pytest.mark.parametrize("guid", ["a\\tb", "a\\nb"])
def test_an_id_that_would_break_a_row_of_predictions_is_refused(guid, tmp_path):
    path = tmp_path / "test.jsonl"
    path.write_text(f'{{"text": "one", "key": "{guid}"}}\n')

    with pytest.raises(ValueError, match="line 1: the id .* has a tab or a l"):
        read(path, Columns(texts=("text",), guid="key"))


def test_empty_texts_are_kept_with_a_warning(table, caplog):
    table.write_text("kind\tsubject\nham\tone\nham\t\nham\t \n")

    assert len(read(table, NUMBERED)) == 3

    assert "2 of 3 rows have an empty text (lines 3, 4)" in caplog.text


@pytest.mark.parametrize(
    ("texts", "label", "message"),
    [
        ((), None, "must name one column or two"),
        (("a", "b", "c"), None, "must name one column or two"),
        (("",), None, "must name one column or two"),
        (("a", "a"), "b", "must be different columns"),
        (("a", "b"), "b", "must be different columns"),
    ],
)
def test_columns_must_be_one_text_or_two_and_differ(texts, label, message):
    with pytest.raises(ValueError, match=message):
        Columns(texts=texts, label=label)


def test_labels_are_those_of_the_file_sorted(table):
    assert examples.read_labels(table, "kind") == ("ham", "spam")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "kind\nham\n \n", "a.tsv, line 3: the label is empty"),
        ("a.jsonl", '{"kind": "a\\nb"}\n', "line 1: the label .* line break"),
        ("a.tsv", "kind\n", "a.tsv has no rows"),
        ("a.tsv", "kind\nham\nham\n", r"'kind': .* labels. Received: 1 \("),
        (
            "a.tsv",
            "kind\n" + "".join(f"{i}\n" for i in range(1001)),
            r"2 to 1000 different labels. Received: 1001 \('0', '1', .*\.\.\.",
        ),
    ],
)
def test_wrong_labels_of_a_file_are_refused(name, text, message, tmp_path):
    (tmp_path / name).write_text(text)

    with pytest.raises(ValueError, match=message):
        examples.read_labels(tmp_path / name, "kind")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a;b", ["a", "b"]),
        (" a ; b;", ["a", "b"]),
        ("", []),
        ("a, b", ["a, b"]),
        ('["a;b", "c"]', ["a;b", "c"]),
        ("[]", []),
    ],
)
def test_a_row_may_have_several_labels(text, expected):
    assert examples.split_labels(text, ";", "line 1") == expected


@pytest.mark.parametrize("text", ["[urgent]; a", '["a", 1]', '["a"'])
def test_brackets_that_are_no_list_are_refused(text):
    with pytest.raises(ValueError, match="line 1: .* a list of strings in JSO"):
        examples.split_labels(text, ";", "line 1")


def test_several_labels_become_their_places(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text('text,kinds\n"one, two","c,a,c"\nthree,\nfour,b\n')
    columns = Columns(texts=("text",), label="kinds", separator=",")

    labels = examples.read_labels(path, "kinds", separator=",")
    found = read(path, columns, labels=labels)

    assert labels == ("a", "b", "c")
    assert [example.label for example in found] == [(0, 2), (), (1,)]
    assert found[0].text_a == "one, two"


def test_several_labels_may_be_lists_of_json(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text('{"text": "a", "kinds": ["x, y", "z"]}\n')

    found = read(
        path,
        Columns(texts=("text",), label="kinds", separator=","),
        labels=("x, y", "z"),
    )

    assert found[0].label == (0, 1)
    with pytest.raises(ValueError, match="line 1: the label must .*: 'z'"):
        read(
            path,
            Columns(texts=("text",), label="kinds", separator=","),
            labels=("x, y", "w"),
        )


def test_labels_that_look_alike_are_told(table, caplog):
    table.write_text("kind\nspam\nspam \nSpam\nham\n1\n1.0\n2\n")

    assert len(examples.read_labels(table, "kind")) == 7

    assert "'Spam', 'spam', 'spam ' differ only in case, w" in caplog.text
    assert "'1', '1.0' differ only" in caplog.text
    assert "'2'" not in caplog.text
    assert "'ham'" not in caplog.text


@pytest.mark.parametrize("ending", ["tsv", "csv", "jsonl", "tsv.gz", "json.gz"])
def test_a_split_is_found_by_its_name(ending, tmp_path):
    for name in (f"dev.{ending}", "train.tsv", "train.json"):
        (tmp_path / name).touch()

    found = examples.find_split(tmp_path, "dev")

    assert found == str(tmp_path / f"dev.{ending}")
    with pytest.raises(
        FileNotFoundError, match=r"no test.tsv, test.csv or test"
    ):
        examples.find_split(tmp_path, "test")
    with pytest.raises(
        ValueError, match=r"several files for train: .*train.json"
    ):
        examples.find_split(tmp_path, "train")
