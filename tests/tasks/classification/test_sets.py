import pytest

from albert_tf.tasks.classification import sets as sets_lib
from albert_tf.tasks.classification.sets import ClassificationConfig

CUSTOM = {"task_name": "custom", "text_columns": ("text",)}


@pytest.fixture
def folder(tmp_path):
    """A table with the labels `spam` and `ham` to train on, and a test one."""
    (tmp_path / "train.tsv").write_text("kind\ttext\nspam\tone\nham\ttwo\n")
    (tmp_path / "test.jsonl").write_text('{"text": "three"}\n')
    return tmp_path


@pytest.fixture
def read(words):
    def make(*uses, kept_labels=None, **values):
        return sets_lib.read_sets(
            ClassificationConfig(**values),
            uses,
            tokenizer=words,
            max_seq_length=12,
            kept_labels=kept_labels,
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
        "train",
        "predict",
        data_dir=str(folder),
        label_column="kind",
        **CUSTOM,
    )

    # The labels are sorted: ham, spam.
    assert [example.label for example in sets.train.examples] == [1, 0]
    assert [e.label for e in sets.prediction[0].examples] == [None]
    assert not sets.evaluation
    assert sets.data.primary_metric == "accuracy"
    assert sets_lib.export_settings(
        ClassificationConfig(**CUSTOM), sets, {}
    ) == {"labels": ("ham", "spam"), "exit_patience": 0}


@pytest.mark.parametrize(
    ("values", "kept", "expected"),
    [
        ({"data_dir": "."}, None, ("ham", "spam")),
        ({"train_file": "train.tsv"}, None, ("ham", "spam")),
        # Those of a run that is in the folder, in its order.
        ({"data_dir": "."}, ["spam", "ham", "é"], ("spam", "ham", "é")),
        ({}, ["spam", "ham"], ("spam", "ham")),
        # A run of a regression has none.
        ({}, [], ()),
        ({"labels": ("a", "b")}, None, ("a", "b")),
        ({"labels": ("a", "b")}, ["a", "b"], ("a", "b")),
        ({"regression": True}, None, ()),
    ],
)
def test_labels_of_a_table_that_is_predicted(
    values, kept, expected, read, folder, monkeypatch
):
    monkeypatch.chdir(folder)

    sets = read(
        "predict",
        kept_labels=kept,
        predict_file="test.jsonl",
        label_column="kind",
        **CUSTOM | values,
    )

    assert sets.data.labels == expected


@pytest.mark.parametrize(
    ("uses", "values", "kept", "message"),
    [
        (["train"], {}, None, "--label_column must be given"),
        (["eval"], {"labels": ("a", "b")}, None, "--label_column must be giv"),
        (
            ["eval"],
            {"label_column": "kind"},
            ["a", "b"],
            "--data_dir or --eval_file must be given",
        ),
        (
            ["train"],
            {"label_column": "kind"},
            None,
            "--data_dir or --train_file must be given",
        ),
        (["predict"], {}, None, "no run in --output_dir. Pass --labels"),
        (
            ["predict"],
            {"train_file": "train.tsv"},
            None,
            "from 'train.tsv', but their column .* Pass --label_column",
        ),
        (
            ["train"],
            {"data_dir": ".", "label_column": "kind"},
            ["spam", "ham"],
            "are 'ham', 'spam', but the run .* with 'spam', 'ham'. Pass anot",
        ),
        (
            ["predict"],
            {"labels": ("a", "b", "c")},
            ["a", "b"],
            "trained with 'a', 'b'",
        ),
        (
            ["predict"],
            {"labels": ("a", "b")},
            [],
            r"trained with numbers \(regression\)",
        ),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(
    uses, values, kept, message, read, folder, monkeypatch
):
    monkeypatch.chdir(folder)

    with pytest.raises(ValueError, match=message):
        read(*uses, kept_labels=kept, **CUSTOM | values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "--task_name must be given"),
        ({"task_name": "glue"}, "`task_name` must be one of cola, .*'glue'"),
        (
            {"task_name": "rte", "text_columns": ("text",)},
            "--text_columns needs --task_name=custom.*task_name=rte",
        ),
        (
            {"task_name": "rte", "regression": True},
            "--regression needs --task_name=custom",
        ),
        ({"task_name": "custom"}, "--text_columns must be given"),
        (
            CUSTOM | {"regression": True, "labels": ("a", "b")},
            "--labels is for classification, --regression",
        ),
        (
            CUSTOM | {"labels": ("a", "a")},
            "--labels names a label twice: 'a', 'a'",
        ),
        (
            CUSTOM | {"labels": ("a",)},
            r"--labels: there must be 2 to .* Received: 1 \('a'\)",
        ),
        (CUSTOM | {"labels": ("a", " ")}, "--labels: the label is empty"),
        (
            CUSTOM | {"labels": ("a", "b\tc")},
            "label .* has a tab",
        ),
        (CUSTOM | {"dropout_prob": 1}, "`dropout_prob` must be .* below 1"),
        (
            CUSTOM | {"regression": True, "class_weights": ("balanced",)},
            "--class_weights is for classification, --regression",
        ),
        (
            CUSTOM | {"multi_label": True, "positive_label": "a"},
            "--positive_label is for one label a row, --multi_label for any",
        ),
        (
            CUSTOM | {"multi_label": True, "label_separator": " "},
            "--label_separator must be a character other than white",
        ),
        (
            CUSTOM | {"class_weights": ("1", "heavy")},
            "--class_weights must be balanced, or numbers .*: 'heavy'",
        ),
        (CUSTOM | {"class_weights": ("0",)}, "numbers above 0. Received: '0'"),
        (
            CUSTOM | {"validation_share": 1.0},
            "`validation_share` must be .*above 0",
        ),
        (CUSTOM | {"validation_seed": -1}, "`validation_seed` must be"),
        (
            {"task_name": "rte", "validation_share": 0.1},
            "--validation_share needs --task_name=custom",
        ),
    ],
)
def test_impossible_flags_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        ClassificationConfig(**values)
