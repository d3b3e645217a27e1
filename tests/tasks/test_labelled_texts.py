import json

import pytest

from albert_tf.tasks import labelled_texts
from albert_tf.tasks.labelled_texts import (
    ClassificationExample,
    Columns,
    TableStream,
)

TABLE = "kind\tsubject\tbody\tid\nham\tone\ttwo\tx7\nspam\tthree\t\tx8\n"
PAIR = Columns(texts=("subject", "body"), label="kind", guid="id")


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text(TABLE)
    return path


def read(path, columns, labels=("ham", "spam"), **options):
    return labelled_texts.read_examples(path, columns, labels=labels, **options)


def test_a_row_gives_its_texts_its_label_and_its_id(table):
    assert read(table, PAIR) == [
        ClassificationExample(guid="x7", text_a="one", text_b="two", label=0),
        ClassificationExample(guid="x8", text_a="three", text_b="", label=1),
    ]


def test_a_row_may_have_one_text_alone(table):
    found = read(table, Columns(texts=("subject",)), guid_prefix="dev-")

    # The number of its line is the id, and no label is read.
    assert found == [
        ClassificationExample(guid="dev-1", text_a="one"),
        ClassificationExample(guid="dev-2", text_a="three"),
    ]


def test_labels_are_those_of_the_file_sorted(table):
    assert labelled_texts.read_labels(table, "kind") == ("ham", "spam")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a;b", ["a", "b"]),
        (" a ; b;", ["a", "b"]),
        ("", []),
        ("a, b", ["a, b"]),
        ('["a, b", "c"]', ["a, b", "c"]),
        ("[]", []),
        ("['a, b', 'c']", ["a, b", "c"]),
        ('["it\'s"]', ["it's"]),
        ("[0, 2.0]", ["0", "2.0"]),
        ('["a;b"]', ["a;b"]),
    ],
)
def test_a_row_may_have_several_labels(text, expected):
    assert labelled_texts.split_labels(text, ";", "line 1") == expected


def test_a_list_of_marks_is_of_all_labels(tmp_path):
    path = tmp_path / "train.jsonl"
    rows = [[0, 1, 0], [0.0, 1.0, 1.0], [False, False, False]]
    lines = (json.dumps({"text": "a", "kinds": row}) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines))
    columns = Columns(texts=("text",), label="kinds", separator=",")

    labels = labelled_texts.read_labels(path, "kinds", separator=",")
    for names in (labels, ("c", "b", "a")):
        found = read(path, columns, labels=names)
        assert [example.label for example in found] == [(1,), (1, 2), ()]
    assert labels == ("0", "1", "2")
    with pytest.raises(ValueError, match="if there are more than two"):
        read(path, columns, labels=("a", "b"))


def test_several_labels_become_their_places(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text('text,kinds\n"one, two","c,a,c"\nthree,\nfour,b\n')
    columns = Columns(texts=("text",), label="kinds", separator=",")

    labels = labelled_texts.read_labels(path, "kinds", separator=",")
    found = read(path, columns, labels=labels)

    assert labels == ("a", "b", "c")
    assert [example.label for example in found] == [(0, 2), (), (1,)]
    assert found[0].text_a == "one, two"


def test_a_column_may_be_a_label(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text(
        "id,text,toxic,insult,threat\nx,a,1,0,0\ny,b,0.0,1.0,0\nz,c,1,True,0\n"
    )
    columns = Columns(
        texts=("text",), label="toxic,insult,threat", guid="id", separator=","
    )

    labels = labelled_texts.read_labels(path, columns.label, separator=",")
    found = read(path, columns, labels=labels)

    assert labels == ("toxic", "insult", "threat")
    assert [example.label for example in found] == [(0,), (1,), (0, 1)]
    assert [example.guid for example in found] == ["x", "y", "z"]


def test_one_and_one_point_zero_are_one_class(tmp_path):
    table, lines = tmp_path / "a.csv", tmp_path / "a.jsonl"
    table.write_text("text,kind\na,0.0\nb,1\nc,1.0\nd,0.50\ne,-0.0\n")
    lines.write_text(
        '{"text": "a", "kind": 0.0}\n{"text": "b", "kind": 1}\n'
        '{"text": "c", "kind": 1.0}\n{"text": "d", "kind": "0.50"}\n'
        '{"text": "e", "kind": -0.0}\n'
    )

    for path in (table, lines):
        labels = labelled_texts.read_labels(path, "kind")
        assert labels == ("0.0", "0.50", "1")
        columns = Columns(texts=("text",), label="kind")
        found = read(path, columns, labels=labels)
        assert [example.label for example in found] == [0, 2, 2, 1, 0]
        # Weights may know them by another spelling.
        again = read(path, columns, labels=("0", "0.50", "1.0"))
        assert [example.label for example in again] == [0, 2, 2, 1, 0]


@pytest.mark.parametrize(
    ("labels", "is_warned"),
    [
        (range(21), True),
        (("0.5", "1", "1,5"), True),
        (range(11), False),
        ((*range(30), "none"), False),
    ],
)
def test_many_numbers_may_be_no_classes(labels, is_warned, tmp_path, caplog):
    path = tmp_path / "a.tsv"
    path.write_text("".join(f"{label}\n" for label in ("kind", *labels)))

    labelled_texts.read_labels(path, "kind")

    assert ("pass --regression" in caplog.text) == is_warned


@pytest.mark.parametrize(
    ("text", "number"),
    [("0,6", 0.6), ("-1,25", -1.25), ("0,125", 0.125), ("2.5", 2.5)],
)
def test_a_number_may_have_a_decimal_comma(text, number, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"text;score\none;{text}\n")

    (row,) = read(path, Columns(texts=("text",), label="score"), labels=())

    assert row.label == number


def test_labels_that_look_alike_are_reported(table, caplog):
    table.write_text("kind\nspam\nspam \nSpam\nham\n")

    assert len(labelled_texts.read_labels(table, "kind")) == 4

    assert "'Spam', 'spam', 'spam ' differ only in case" in caplog.text
    assert "'ham'" not in caplog.text


def test_a_table_is_read_anew_each_time_it_is_predicted(tmp_path):
    path = tmp_path / "new.csv"
    path.write_text('id,text\na,"one\nline"\na,\nb,three\n')

    stream = TableStream(path, Columns(texts=("text",), guid="id"))

    assert len(stream) == 3
    assert list(stream) == list(stream)
    # Ids are not compared, which would keep them all in memory.
    assert [one.guid for one in stream] == ["a", "a", "b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,text\na,one\nb\n", "line 3: the row must have 2 fields"),
        ("id,text\n", "new.csv has no examples"),
    ],
)
def test_bad_rows_are_found_before_any_is_predicted(text, message, tmp_path):
    path = tmp_path / "new.csv"
    path.write_text(text)

    with pytest.raises(ValueError, match=message):
        TableStream(path, Columns(texts=("text",), guid="id"))


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (
            [("one", ""), ("", "")],
            ["1 of the 2 rows to train on have no text."],
        ),
        (
            [("", ""), (" ", ""), ("nan", "")],
            ["3 of the 3 rows to train on have no text."],
        ),
        (
            [("", "")] * 2,
            [
                "2 of the 2 rows to train on have no text.",
                "All 2 rows to train on have the same text.",
            ],
        ),
        (
            [("one", "two"), ("one", ""), ("", "two")],
            ["2 of the 3 rows to train on lack one of their texts."],
        ),
        ([("one", "two")] * 3, ["All 3 rows to train on have the same text."]),
        ([("one", "two"), ("one", "one")], []),
        ([("one", "")], []),
    ],
)
def test_texts_that_teach_nothing_are_counted(texts, expected, caplog):
    rows = [
        ClassificationExample(guid=str(i), text_a=first, text_b=second)
        for i, (first, second) in enumerate(texts)
    ]

    labelled_texts.check_texts("train", rows)

    assert caplog.messages == expected
