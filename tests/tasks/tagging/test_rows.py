"""Which texts, words and tags a file has."""

import pytest

from albert_tf.tasks.tagging.rows import Columns, read_rows

EXPECTED = [
    (["Anna", "in", "Rome"], ["B-PER", "O", "B-LOC"]),
    (["Snow"], ["O"]),
]


@pytest.fixture
def read(tmp_path):
    def run(content, name="some.txt", **columns):
        path = tmp_path / name
        path.write_bytes(content.encode())
        return [row for _, row in read_rows(path, Columns(**columns))]

    return run


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        (
            "# sent_id = 1\n1\tAnna\tB-PER\t_\n2-3\tim\t_\t_\n2\tin\tO\t_\n"
            "3\tRome\tB-LOC\t_\n\n1\tSnow\tO\t_\n1.1\tx\t_\t_\n",
            {"word": 2, "tag": 3},
        ),
        ("7 Anna B-PER\n7 in O\n7 Rome B-LOC\n\n8 Snow O", {"word": 2}),
        ("Anna B-PER x\nin O x\nRome B-LOC x\n\nSnow O x", {"tag": 2}),
    ],
)
def test_columns_that_are_named(content, columns, read):
    rows = read(content, **columns)

    assert [(row["tokens"], row["tags"]) for row in rows] == EXPECTED
    with pytest.raises(ValueError, match="has no column 9"):
        read(content, word=9)


@pytest.mark.parametrize(
    "content",
    [
        "Ann saw Rome.\n\nTom saw Bonn.",
        "Ann\tsaw\nTom saw Bonn.",
        "# is a mark",
    ],
)
def test_a_file_to_predict_may_be_raw_text(content, read):
    texts = [row.get("text") for row in read(content, known_tags={"B-A"})]

    assert texts == [line for line in content.split("\n") if line]
    for others in ({"name": "a.conll"}, {"word": 1}):
        if "\tsaw" not in content:
            rows = read(content, **({"known_tags": {"B-A"}} | others))
            assert "tokens" in rows[0]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("Ann\nsaw\n\nBonn.", "Ann saw|Bonn."),
        ("Ann B-A\nsaw O\n\nBonn. O", "Ann saw|Bonn."),
        ("Ann B.\tNN\nsaw\tVB\n\nBonn.\tNN", "Ann B. saw|Bonn."),
    ],
)
def test_columns_to_predict(content, expected, read):
    rows = read(content, known_tags={"B-A"})

    words = [" ".join(row["tokens"]) for row in rows]
    assert words == expected.split("|")
