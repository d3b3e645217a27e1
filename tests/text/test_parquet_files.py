import sys

import pytest

from albert_tf.text import parquet_files

TEXTS = ["One.", "Two.\nThree.", "", "Zoë"]


@pytest.fixture
def write(tmp_path):
    """Writes columns to a Parquet file."""
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    def run(columns, **options):
        path = tmp_path / "a.parquet"
        parquet.write_table(pyarrow.table(columns), path, **options)
        return path

    return run


def read(path, column="text", bad_rows=None):
    def on_bad_row(message):
        if bad_rows is None:
            raise ValueError(message)
        bad_rows.append(message)

    with open(path, "rb") as file:
        yield from parquet_files.read_texts(
            file, "a.parquet", column, on_bad_row=on_bad_row
        )


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_the_texts_of_a_column_are_read_row_by_row(write, compression):
    columns = {"id": range(4), "body": TEXTS}
    # Several row groups.
    path = write(columns, compression=compression, row_group_size=3)

    assert list(read(path, "body")) == TEXTS


@pytest.mark.parametrize("kind", ["large", "view", "dictionary"])
def test_every_kind_of_text_is_read(write, kind):
    pyarrow = pytest.importorskip("pyarrow")
    kinds = {
        "large": pyarrow.large_string(),
        "view": pyarrow.string_view(),
        "dictionary": pyarrow.dictionary(pyarrow.int32(), pyarrow.string()),
    }

    path = write({"text": pyarrow.array(TEXTS).cast(kinds[kind])})

    assert list(read(path)) == TEXTS


def test_a_column_whose_name_could_mean_another_is_the_one_that_is_read(write):
    # Both are `a.text` for Parquet.
    path = write({"a": [{"text": "No."}], "a.text": ["One."]})

    assert list(read(path, "a.text")) == ["One."]


def test_rows_without_a_text_are_bad_rows(write):
    pyarrow = pytest.importorskip("pyarrow")
    latin = pyarrow.array([b"One.", None, b"Caf\xe9."]).view(pyarrow.string())
    bad_rows = []

    assert list(read(write({"text": latin}), bad_rows=bad_rows)) == ["One."]
    assert bad_rows == [
        f"'a.parquet', row {number} has no 'text' that is a string of "
        "Unicode characters."
        for number in (2, 3)
    ]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"body": ["One."], "id": [1]}, "no column 'text'.* columns: body, id"),
        ({"text": [1]}, "column 'text' of 'a.parquet' is not text, but int64"),
        ({"text": [b"One."]}, "is not text, but binary"),
        ({"text": [["One."]]}, "is not text, but list"),
    ],
)
def test_a_column_that_is_not_text_is_an_error(write, columns, message):
    with pytest.raises(ValueError, match=message):
        list(read(write(columns)))


@pytest.mark.parametrize("damage", ["empty", "short", "text", "page"])
def test_a_damaged_file_is_an_error(write, damage):
    texts = [f"word {number}" for number in range(999)]
    path = write({"text": texts}, write_page_checksum=True)
    data = path.read_bytes()
    path.write_bytes(
        {
            "empty": b"",
            "short": data[:-9],
            "text": b'{"text": "One."}\n' * 9,
            "page": data[:999] + bytes(20) + data[1019:],
        }[damage]
    )

    with pytest.raises(
        ValueError, match=r"'a\.parquet', after row 0: not a Parquet file, or"
    ):
        list(read(path))


def test_a_missing_package_is_an_error_that_names_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.parquet").write_bytes(b"")

    with pytest.raises(ImportError, match=r"'a\.parquet' .*pyarrow.*`data`"):
        list(read(tmp_path / "a.parquet"))
