import pytest

from albert_tf.text.documents import CorpusSettings, Documents

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.mark.parametrize("kind", ["string", "string_view"])
def test_the_rows_of_a_parquet_file_are_documents(tmp_path, kind):
    path = tmp_path / "a.parquet"
    # The third is not UTF-8.
    rows = pyarrow.array([b"One.", None, b"Caf\xe9.", b"Two."])
    rows = rows.view(pyarrow.string()).cast(getattr(pyarrow, kind)())
    # Both columns are `a.text` for Parquet.
    table = pyarrow.table({"a": [{"text": "No."}] * 4, "a.text": rows})
    parquet.write_table(table, path, row_group_size=3)

    settings = CorpusSettings(
        input_file=str(path), text_field="a.text", max_bad_lines=2
    )
    documents = Documents(settings)

    assert [document.text for document in documents] == ["One.", "Two."]
    assert documents.num_bad_lines == 2
