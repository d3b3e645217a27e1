"""Tables to predict, which are read as a stream."""

import pytest

from albert_tf.tasks.classification.examples import Columns
from albert_tf.tasks.classification.table_stream import TableStream


def test_a_table_is_read_anew_each_time_it_is_predicted(tmp_path, caplog):
    path = tmp_path / "new.csv"
    path.write_text('id,text\na,"one\nline"\na,\nb,three\n')

    stream = TableStream(path, Columns(texts=("text",), guid="id"))

    assert len(stream) == 3
    assert list(stream) == list(stream)
    # Ids are not compared, which would keep them all in memory.
    assert [one.guid for one in stream] == ["a", "a", "b"]
    assert "1 of 3 examples have an empty text" in caplog.text


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


@pytest.mark.parametrize("text", ["a\n1\n2\n3\n4\n", "a\n1\n2\n", "a\n"])
def test_a_file_that_changes_while_it_is_predicted_is_refused(text, tmp_path):
    path = tmp_path / "new.tsv"
    path.write_text("a\n1\n2\n3\n")
    stream = TableStream(path, Columns(texts=("a",)))

    path.write_text(text)

    with pytest.raises(ValueError, match="new.tsv was changed .* had 3 rows"):
        list(stream)
