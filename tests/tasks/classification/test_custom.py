import json

import numpy as np
import pytest

from albert_tf.checkpoints.metadata import Metadata
from albert_tf.tasks.classification import sets as sets_lib
from albert_tf.tasks.classification.sets import ClassificationConfig


@pytest.fixture
def read(words, tmp_path, monkeypatch):
    """Reads sets in a folder with 20 rows, a quarter of them `fraud`."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {
            "text": f"row {i},\nof more lines",
            "kind": "ok" if i % 4 else "fraud",
            "tags": "a;b" if i % 2 else "",
            "price": 1_000_000 + 100 * i,
        }
        for i in range(20)
    ]
    lines = ["text,kind,tags,price\n"]
    lines += [
        f'"{row["text"]}",{row["kind"]},{row["tags"]},{row["price"]}\n'
        for row in rows
    ]
    (tmp_path / "train.csv").write_text("".join(lines))
    (tmp_path / "new.jsonl").write_text('{"text": "x"}\n')
    (tmp_path / "later.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows[:3])
    )

    def make(*uses, kept=None, kept_settings=None, **values):
        given = {"train_file": "train.csv", "predict_file": "new.jsonl"}
        values = {"label_column": "kind"} | values
        if "eval" in uses and "validation_share" not in values:
            given["eval_file"] = "later.jsonl"
        return sets_lib.read_sets(
            ClassificationConfig(
                task_name="custom",
                **{"text_columns": ("text",)} | given | values,
            ),
            uses,
            tokenizer=words,
            max_seq_length=12,
            kept=kept,
            kept_settings=kept_settings,
        )

    return make


def test_a_csv_with_quotes_is_read_by_the_names_of_its_columns(read):
    sets = read("train")

    assert sets.train.examples[1].text_a == "row 1,\nof more lines"
    # Labels are sorted; a row has the number of its first line, from 0.
    assert [one.label for one in sets.train.examples[:5]] == [0, 1, 1, 1, 0]
    assert [one.guid for one in sets.train.examples[:3]] == ["1", "3", "5"]


@pytest.mark.parametrize(
    ("given", "expected"), [(None, "ok"), ("fraud", "fraud")]
)
def test_the_positive_class_is_told(given, expected, read, caplog):
    caplog.set_level("INFO")

    sets = read("train", positive_label=given)

    assert sets.data.positive_label == expected
    message = f"average_precision_of_{expected}, is {expected!r}"
    assert message in caplog.text
    assert ("--positive_label names another" in caplog.text) == (given is None)


def test_rows_are_held_out_where_there_is_no_dev_file(read, tmp_path):
    sets = read("train", "eval", validation_share=0.2)
    again = read("eval", validation_share=0.2)

    held_out = sets.evaluation[0].examples
    assert (len(sets.train.examples), len(held_out)) == (16, 4)
    assert [one.label for one in held_out].count(0) in (0, 1, 2)
    # Later evaluations are of the same rows.
    assert again.evaluation[0].examples == held_out
    assert again.train is None
    with pytest.raises(ValueError, match="is a file to evaluate, 'later.jso"):
        read("train", validation_share=0.2, eval_file="later.jsonl")
    (tmp_path / "dev.tsv").write_text("text\tkind\nx\tok\n")
    with pytest.raises(ValueError, match=r"is a file to evaluate, '\./dev.tsv"):
        read("train", validation_share=0.2, data_dir=".")


def test_balanced_classes_weigh_the_same(read):
    weights = read("train", class_weights=("balanced",)).data.class_weights

    # 20 rows in 2 classes: 5 and 15.
    assert weights == pytest.approx((20 / (2 * 5), 20 / (2 * 15)))
    found = read("train", class_weights=("3", "0.5")).data
    assert found.class_weights == (3, 0.5)
    assert found.settings["class_weights"] == [3, 0.5]
    # They matter only in training.
    assert read("eval", class_weights=("3", "0.5")).data.class_weights == ()
    with pytest.raises(
        ValueError, match="or one weight for each .* Received: 3"
    ):
        read("train", class_weights=("3",))


def test_numbers_are_scaled_by_those_that_are_trained_on(read):
    sets = read("train", label_column="price", regression=True)

    prices = [1_000_000 + 100 * i for i in range(20)]
    assert sets.data.target_mean == np.mean(prices)
    assert sets.data.target_scale == pytest.approx(np.std(prices))
    kept = Metadata(target_mean=5.0, target_scale=2.0, labels=())
    sets = read("predict", "eval", kept=kept, label_column="price")
    assert (sets.data.target_mean, sets.data.target_scale) == (5, 2)
    assert sets.data.is_regression


def test_equal_numbers_have_no_scale(read, tmp_path):
    (tmp_path / "train.csv").write_text("text,price\na,7\nb,7\n")

    data = read("train", label_column="price", regression=True).data

    assert (data.target_mean, data.target_scale) == (7, 1)


@pytest.mark.parametrize(
    ("known", "given", "is_right"),
    [
        (["text", "tags"], ("tags", "text"), False),
        (["text"], ("tags", "text"), False),
        (["text", "tags"], ("text",), False),
        (["text", "tags"], ("text", "tags"), True),
        # A table of other names.
        (["subject", "body"], ("tags", "text"), True),
        (None, ("tags", "text"), True),
    ],
)
def test_texts_come_in_the_order_of_the_training(known, given, is_right, read):
    def predict():
        return read(
            "predict",
            predict_file="train.csv",
            text_columns=given,
            labels=("a", "b"),
            kept_settings={"text_columns": known},
        )

    if is_right:
        assert predict().data.settings["text_columns"] == [*given]
        return
    with pytest.raises(ValueError, match="were trained with --text_columns=te"):
        predict()


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (None, "were trained on all rows, without --validation_share, so"),
        ([0.2, 1], "trained with --validation_share=0.2 --validation_seed=1"),
        ([0.1, 0], "trained with --validation_share=0.1 --validation_seed=0"),
    ],
)
def test_rows_that_were_trained_on_are_not_evaluated(known, message, read):
    settings = {"task": "custom"} | ({"validation": known} if known else {})

    with pytest.raises(ValueError, match=message):
        read("eval", validation_share=0.2, kept_settings=settings)


def test_the_rows_held_out_of_a_training_are_evaluated_later(read):
    trained = read("train", validation_share=0.2).data.settings

    assert trained["validation"] == [0.2, 0]
    read("eval", validation_share=0.2, kept_settings=trained)
    # A file of its own, and weights of another task.
    read("eval", kept_settings=trained)
    read("eval", validation_share=0.2, kept_settings={"task": "mrpc"})


def test_texts_on_both_sides_are_told(read, caplog):
    read("train", "eval")

    assert "3 of the 3 rows to evaluate have texts that" in caplog.text


TAGS = {"label_column": "tags", "multi_label": True, "label_separator": ";"}


def test_rows_may_have_several_labels(read):
    data = read("train", "eval", **TAGS).data

    assert data.labels == ("a", "b")
    assert data.is_multi_label
    assert data.primary_metric == "f1_micro"
    assert data.positive_label == ""
    assert data.thresholds is None


def test_weights_with_several_labels_say_so_themselves(read):
    kept = Metadata(
        task="custom",
        labels=("a", "b"),
        multi_label=True,
        thresholds=(0.25, 0.75),
    )

    data = read("predict", kept=kept).data

    assert data.is_multi_label
    assert (data.labels, data.thresholds) == (("a", "b"), (0.25, 0.75))
    assert sets_lib.export_settings(
        ClassificationConfig(task_name="custom", text_columns=("text",)),
        read("predict", kept=kept),
        {},
    ) == {"labels": ("a", "b"), "thresholds": (0.25, 0.75), "exit_patience": 0}


@pytest.mark.parametrize(
    ("uses", "values", "kept", "message"),
    [
        (
            ["train"],
            {"positive_label": "good"},
            None,
            "--positive_label must be one of 'fraud', 'ok'. Received: 'good'",
        ),
        (
            ["train"],
            {"positive_label": "a", "labels": ("fraud", "ok", "a")},
            None,
            "--positive_label is for two labels. Received: 3",
        ),
        (
            ["predict"],
            TAGS,
            Metadata(task="custom", labels=("a", "b")),
            "were trained with one label a row",
        ),
        (
            ["predict"],
            TAGS | {"labels": ("a;b", "c")},
            None,
            "'a;b' contains the --label_separator, ';'",
        ),
    ],
)
def test_flags_that_do_not_fit_the_labels_are_refused(
    uses, values, kept, message, read
):
    with pytest.raises(ValueError, match=message):
        read(*uses, kept=kept, **values)
