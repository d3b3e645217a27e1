import numpy as np
import pytest

from albert_tf.tasks.classification import prediction_files


def test_files_appear_when_all_rows_are_written(tmp_path):
    row = np.array([0.1, 1e-8], np.float32)

    with prediction_files.open_files(tmp_path, "CoLA.tsv") as write:
        write(row, {"index": "0", "prediction": "é"})
        assert not (tmp_path / "CoLA.tsv").exists()

    assert (tmp_path / "CoLA.tsv").read_text("utf-8") == (
        "index\tprediction\n0\té\n"
    )
    numbers = (tmp_path / "test_results.tsv").read_text().split()
    np.testing.assert_array_equal(np.array(numbers, np.float32), row)


def test_earlier_files_stay_if_writing_fails(tmp_path):
    (tmp_path / "CoLA.tsv").write_text("earlier")

    with (
        pytest.raises(OSError, match="no space"),
        prediction_files.open_files(tmp_path, "CoLA.tsv") as write,
    ):
        write([], {"index": "0"})
        raise OSError("no space left")

    assert [path.name for path in tmp_path.iterdir()] == ["CoLA.tsv"]
    assert (tmp_path / "CoLA.tsv").read_text() == "earlier"


def test_an_id_cannot_break_its_row(tmp_path):
    with prediction_files.open_files(tmp_path, "CoLA.tsv") as write:
        write([], {"index": "a\tb\nc", "prediction": "1"})

    table = (tmp_path / "CoLA.tsv").read_text("utf-8")
    assert table == "index\tprediction\na b c\t1\n"
