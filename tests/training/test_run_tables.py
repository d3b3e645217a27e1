import json

import pytest

from albert_tf.checkpoints.metadata import Metadata
from albert_tf.training import run_tables


@pytest.fixture
def predictions(tmp_path):
    """A function that reads the predictions of a run with these files."""

    def read(metadata=Metadata(), **files):  # noqa: B008
        (tmp_path / "eval").mkdir()
        for name, text in files.items():
            path = tmp_path / "eval" / name.replace("__", ".")
            path.write_text(text)
        return run_tables.predictions(str(tmp_path), metadata)

    return read


TABLE = "index\tprediction\tlabel\ttext_a\n"


def test_of_single_labels_the_worst_error_is_the_least_probable(predictions):
    rows = predictions(
        Metadata(labels=("a", "b")),
        predictions__tsv=f"{TABLE}7\ta\tb\tx\n8\tb\ta\ty\n9\ta\ta\tz\n",
        test_results__tsv="0.6\t0.4\n0.1\t0.9\n1\t0\n",
    )

    errors = run_tables.errors(rows)

    assert [row["id"] for row in errors] == ["8", "7"]
    assert errors[0] == {
        "id": "8",
        "prediction": "b",
        "label": "a",
        "text_a": "y",
        "probability": 0.9,
        "label_probability": 0.1,
    }


def test_numbers_are_numbers_and_the_worst_is_the_furthest(predictions):
    rows = predictions(
        Metadata(labels=()),
        predictions__tsv=f"{TABLE}7\t1.5\t2\tx\n8\t-3\t2\ty\n",
    )

    errors = run_tables.errors(rows)

    assert [row["error"] for row in errors] == [-5, -0.5]


def test_a_cosine_is_no_error_of_a_similarity(predictions):
    [row] = rows = predictions(
        Metadata(head="encoder"), predictions__tsv=f"{TABLE}7\t0.9\t4.5\tx\n"
    )

    assert (row["prediction"], row["similarity"]) == (0.9, 4.5)
    with pytest.raises(ValueError, match="See report.html"):
        run_tables.errors(rows)


def test_choices_and_tags_have_labels_and_other_answers_none(predictions):
    line = {"prediction": "B", "answer": "A", "probabilities": [0.25, 0.75]}
    rows = predictions(predictions__jsonl=json.dumps({"id": 3, **line}) + "\n")

    [error] = run_tables.errors(rows)

    assert error.pop("label_probability") == 0.25
    assert error == {
        "id": 3,
        "prediction": "B",
        "label": "A",
        "probability": 0.75,
    }


@pytest.mark.parametrize(
    "files", [{}, {"predictions__json": '{"q1": "Ann", "q2": ""}'}]
)
def test_without_labels_there_is_no_list_of_errors(files, predictions):
    rows = predictions(**files)

    assert rows == [
        {"id": "q1", "answer": "Ann"},
        {"id": "q2", "answer": ""},
    ] * bool(files)
    with pytest.raises(ValueError, match="no labels beside predictions"):
        run_tables.errors(rows)
