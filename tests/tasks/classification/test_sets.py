import logging

import pytest

from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.tasks.classification import glue
from albert_tf.tasks.classification import sets as sets_lib
from albert_tf.tasks.classification.config import ClassificationConfig
from albert_tf.tasks.spec import DataRequest

CUSTOM = {"task_name": "custom", "text_columns": ("text",)}


@pytest.fixture
def folder(tmp_path):
    """A table with the labels `spam` and `ham` to train on, and a test one."""
    (tmp_path / "train.tsv").write_text("kind\ttext\nspam\tone\nham\ttwo\n")
    (tmp_path / "test.jsonl").write_text('{"text": "three"}\n')
    return tmp_path


@pytest.fixture
def read(words):
    def make(*uses, kept=None, **values):
        return sets_lib.read_sets(
            ClassificationConfig(**values),
            DataRequest(
                uses=uses,
                tokenizer=words,
                max_seq_length=12,
                weights=Checkpoint(metadata=Metadata(labels=kept)),
            ),
        )

    return make


def test_mnli_has_its_sets_by_name(read, shared_data):
    folder = shared_data / "data" / "glue_mini"

    sets = read(
        "train", "eval", "predict", task_name="MNLI", data_dir=str(folder)
    )

    # The diagnostic set is not there, and is optional.
    assert [(one.name, len(one.examples)) for one in sets.all] == [
        ("", 3),
        *[("", 2), ("mismatched", 2)],
        *[("", 1), ("mismatched", 1)],
    ]
    assert [one.data.submission_file for one in sets.prediction] == [
        "MNLI-m.tsv",
        "MNLI-mm.tsv",
    ]
    assert sets.data.name == "mnli"
    assert sets.data.labels == ("contradiction", "entailment", "neutral")
    assert sets.data.max_seq_length == 12


def test_an_optional_set_that_is_missing_is_skipped(read, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    for one in glue.GLUE_DATASETS["mnli"].files["predict"]:
        path = tmp_path / one.path
        path.parent.mkdir(exist_ok=True)
        path.write_text("index\tsentence1\tsentence2\n0\ta\tb\n")
    given = {"task_name": "mnli", "data_dir": str(tmp_path)}

    assert len(read("predict", **given).all) == 3
    path.unlink()
    assert len(read("predict", **given).all) == 2
    assert "skipping the set ax" in caplog.text


def test_a_named_file_replaces_all_files_of_its_use(read, shared_data):
    path = shared_data / "data" / "glue_mini" / "MNLI" / "dev_mismatched.tsv"

    sets = read("eval", task_name="mnli", eval_file=str(path))

    (only,) = sets.evaluation
    assert (only.name, len(only.examples)) == ("", 2)


def test_the_range_of_a_regression_reaches_its_submission(read, tmp_path):
    path = tmp_path / "test.tsv"
    path.write_text("index\tsentence1\tsentence2\n0\ta\tb\n")

    sets = read("predict", task_name="sts-b", predict_file=str(path))

    assert sets.data.prediction_range == (0, 5)
    assert sets.data.submission_file == "STS-B.tsv"
    assert sets.data.is_regression


def test_a_table_is_found_in_its_folder(read, folder):
    sets = read(
        "train", "predict", data_dir=str(folder), label_column="kind", **CUSTOM
    )

    # The labels are sorted: ham, spam.
    assert [example.label for example in sets.train.examples] == [1, 0]
    assert [e.label for e in sets.prediction[0].examples] == [None]
    assert not sets.evaluation
    assert sets.data.primary_metric == "accuracy"
    assert sets.data.labels == ("ham", "spam")


@pytest.mark.parametrize(
    ("values", "kept", "expected"),
    [
        ({"data_dir": "."}, None, ("ham", "spam")),
        ({"train_file": "train.tsv"}, None, ("ham", "spam")),
        # Those of the weights in use, in their order.
        ({"data_dir": "."}, ("spam", "ham", "é"), ("spam", "ham", "é")),
        ({}, ("spam", "ham"), ("spam", "ham")),
        # A regression has none.
        ({}, (), ()),
        ({"labels": ("a", "b")}, None, ("a", "b")),
        ({"regression": True}, None, ()),
    ],
)
def test_labels_of_a_table_that_is_predicted(
    values, kept, expected, read, folder, monkeypatch
):
    monkeypatch.chdir(folder)

    sets = read(
        "predict",
        kept=kept,
        predict_file="test.jsonl",
        label_column="kind",
        **CUSTOM | values,
    )

    assert sets.data.labels == expected
