import dataclasses
import json

import numpy as np
import pytest

from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.metrics.scores import Scores
from albert_tf.tasks.classification import sets as sets_lib
from albert_tf.tasks.classification.config import ClassificationConfig
from albert_tf.tasks.spec import DataRequest


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
            DataRequest(
                uses=uses,
                tokenizer=words,
                max_seq_length=12,
                weights=Checkpoint(
                    metadata=dataclasses.replace(
                        kept or Metadata(), settings=kept_settings
                    )
                ),
            ),
        )

    return make


def test_a_csv_with_quotes_is_read_by_the_names_of_its_columns(read):
    sets = read("train")

    assert sets.train.examples[1].text_a == "row 1,\nof more lines"
    # Labels are sorted; a row has the number of its first line, from 0.
    assert [one.label for one in sets.train.examples[:5]] == [0, 1, 1, 1, 0]
    assert [one.guid for one in sets.train.examples[:3]] == ["1", "3", "5"]
    # The second label is the positive one.
    assert sets.data.positive_label == "ok"
    data = read("train", positive_label="fraud").data
    assert data.positive_label == "fraud"


def test_what_the_weights_in_use_decide_is_not_decided_again(read):
    kept = Metadata(
        task="custom",
        labels=("fraud", "ok"),
        temperature=2.0,
        thresholds=(0.25, 0.75),
        evaluation={"goal": "recall:0.9"},
    )

    def decision(*uses, **flags):
        found = read(*uses, kept=kept, **flags).data.decision
        return found.temperature, found.thresholds

    assert decision("eval") == decision("predict") == (2, (0.25, 0.75))
    assert decision("eval", decide="recall:0.5") == (2, None)
    # The command of the training, on rows of a test: not chosen for them.
    assert decision("eval", decide="recall:0.9") == (2, (0.25, 0.75))
    assert decision("eval", calibrate=False) == (None, (0.25, 0.75))
    # Nor is one chosen for them if no threshold has reached the goal.
    kept = dataclasses.replace(kept, thresholds=None)
    assert decision("eval") == decision("eval", decide="recall:0.9") == (2, ())
    assert decision("eval", decide="recall:0.5") == (2, None)
    kept = dataclasses.replace(kept, thresholds=(0.25, 0.75))
    # F1 and goals are of the label that they were of.
    for flags, label in (({}, "fraud"), ({"positive_label": "ok"}, "ok")):
        trained = {"positive_label": "fraud"}
        data = read("eval", kept=kept, kept_settings=trained, **flags).data
        assert data.positive_label == label
    trained = read("train", positive_label="fraud").data.settings
    assert trained["positive_label"] == "fraud"


def test_rows_are_held_out_where_there_is_no_dev_file(read):
    sets = read("train", "eval", validation_share=0.2)
    again = read("eval", validation_share=0.2)

    held_out = sets.evaluation[0].examples
    assert len(sets.train.examples) + len(held_out) == 20
    # Of 5 and 15 rows.
    assert sorted(one.label for one in held_out) == [0, 1, 1, 1]
    # Later evaluations are of the same rows.
    assert again.evaluation[0].examples == held_out
    assert again.train is None


def test_labels_with_few_rows_are_named(read, caplog):
    read("train", "eval")

    assert "rows to train" not in caplog.text
    assert (
        "Of the 3 rows to evaluate, too few to rely on have the label "
    ) in caplog.text
    read("eval", labels=("fraud", "ok", "spam", "ham"))
    assert "'spam' (0), 'ham' (0). Check the" in caplog.text


def test_balanced_classes_weigh_the_same(read):
    weights = read("train", class_weights=("balanced",)).data.class_weights

    # 20 rows in 2 classes: 5 and 15.
    assert weights == pytest.approx((20 / (2 * 5), 20 / (2 * 15)))
    found = read("train", class_weights=("3", "0.5")).data
    assert found.class_weights == (3, 0.5)
    assert found.settings["class_weights"] == [3, 0.5]
    # They matter only in training.
    assert read("eval", class_weights=("3", "0.5")).data.class_weights == ()


def test_numbers_are_scaled_by_those_that_are_trained_on(read):
    sets = read("train", label_column="price", regression=True)

    prices = [1_000_000 + 100 * i for i in range(20)]
    assert sets.data.target_mean == np.mean(prices)
    assert sets.data.target_scale == pytest.approx(np.std(prices))
    kept = Metadata(target_mean=5.0, target_scale=2.0, labels=())
    sets = read("predict", "eval", kept=kept, label_column="price")
    assert (sets.data.target_mean, sets.data.target_scale) == (5, 2)
    assert sets.data.is_regression


def test_equal_numbers_have_no_scale(read, tmp_path, caplog):
    (tmp_path / "train.csv").write_text("text,price\na,7\nb,7\n")

    data = read("train", label_column="price", regression=True).data

    assert (data.target_mean, data.target_scale) == (7, 1)
    assert "All 2 rows to train on have the same number, 7.0." in caplog.text


@pytest.mark.parametrize(
    ("trained", "columns"),
    [
        (["text", "tags"], ("text", "tags")),
        # A table of other names.
        (["subject", "body"], ("tags", "text")),
        (None, ("tags", "text")),
    ],
)
def test_texts_may_have_other_names_than_in_training(trained, columns, read):
    data = read(
        "predict",
        predict_file="train.csv",
        text_columns=columns,
        labels=("a", "b"),
        kept_settings={"text_columns": trained},
    ).data

    assert data.settings["text_columns"] == [*columns]


def test_the_rows_held_out_of_a_training_are_evaluated_later(read):
    trained = read("train", validation_share=0.2).data.settings

    assert trained["validation"][:2] == [0.2, 0]
    # The weights say which rows they have not seen.
    trained = json.loads(json.dumps(trained))
    del trained["validation"][2][1:]
    sets = read("eval", validation_share=0.2, kept_settings=trained)
    assert len(sets.evaluation[0].examples) == 1
    # A file of its own, and weights of another task.
    read("eval", kept_settings=trained)
    read("eval", validation_share=0.2, kept_settings={"task": "mrpc"})


TAGS = {"label_column": "tags", "multi_label": True, "label_separator": ";"}


def test_rows_may_have_several_labels(read):
    data = read("train", "eval", **TAGS).data

    assert data.labels == ("a", "b")
    assert data.is_multi_label
    assert data.primary_metric == "f1_micro"
    assert data.positive_label == ""
    assert data.decision.thresholds is None


def test_a_list_of_zeros_and_ones_is_not_one_of_labels(read, tmp_path):
    table = tmp_path / "a.jsonl"
    table.write_text('{"text": "a", "tags": [0, 1]}\n' * 2)
    given = {**TAGS, "train_file": "a.jsonl"}

    with pytest.raises(ValueError, match="All 2 rows to train on have all 2"):
        read("train", **given)
    # Where a row has fewer, they are labels.
    with table.open("a") as file:
        file.write('{"text": "c", "tags": [1]}\n')
    rows = read("train", **given).train.examples
    assert [row.label for row in rows] == [(0, 1), (0, 1), (1,)]


def test_weights_with_several_labels_say_so_themselves(read):
    kept = Metadata(
        task="custom",
        labels=("a", "b"),
        multi_label=True,
        thresholds=(0.25, 0.75),
    )

    data = read("predict", kept=kept).data

    assert data.is_multi_label
    assert data.labels == ("a", "b")
    chosen = sets_lib.FINETUNING.chosen(data, Scores())
    assert chosen == {"thresholds": (0.25, 0.75), "temperature": None}
