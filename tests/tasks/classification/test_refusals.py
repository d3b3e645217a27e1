"""What classification refuses: flags, tables, labels."""

import pytest

from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.tasks import labelled_texts
from albert_tf.tasks.classification import sets
from albert_tf.tasks.classification.config import ClassificationConfig
from albert_tf.tasks.spec import DataRequest

CUSTOM = {"task_name": "custom", "text_columns": ("text",)}
TABLE = CUSTOM | {"label_column": "kind", "train_file": "train.tsv"}
EVAL = TABLE | {"eval_file": "train.tsv"}
PREDICT = TABLE | {"predict_file": "test.tsv"}
ROWS = "kind\ttext\nspam\tone\nham\ttwo\n"
MULTI_LABEL = CUSTOM | {"multi_label": True, "label_separator": ";"}
REGRESSION = CUSTOM | {"regression": True}
RTE = {"task_name": "rte"}
HELD_OUT = TABLE | {"validation_share": 0.2}
THREE = TABLE | {"labels": ("ham", "spam", "a")}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "`task_name` must be one of cola, .*, custom"),
        ({"task_name": "glue"}, "`task_name` must be one of cola"),
        (RTE | {"text_columns": ("text",)}, "--text_columns needs --task_name"),
        (RTE | {"validation_share": 0.1}, "--validation_share needs --task_na"),
        (REGRESSION | {"labels": ("a", "b")}, "--regression and --labels con"),
        (REGRESSION | {"class_weights": ("balanced",)}, "n and --class_weight"),
        (MULTI_LABEL | {"positive_label": "a"}, "l and --positive_label contr"),
        (MULTI_LABEL | {"decide": "recall:.9"}, "l and --decide contradict"),
        (MULTI_LABEL | {"label_separator": ""}, "other than white space"),
        (CUSTOM | {"labels": ("a", "a")}, "2 to 1000 different labels"),
        (CUSTOM | {"labels": ("a",)}, r"different labels. Received: 1 \('a'\)"),
        (CUSTOM | {"labels": ("a", " ")}, "--labels: a label must not be empt"),
        (CUSTOM | {"labels": ("a", "b\tc")}, "nor have tabs"),
        (CUSTOM | {"dropout_prob": 1}, "`dropout_prob` must be .* below 1"),
        (CUSTOM | {"validation_share": 1.0}, "`validation_share` must be"),
    ],
)
def test_flags_that_cannot_be_used(values, message):
    with pytest.raises(ValueError, match=message):
        ClassificationConfig(**values)


@pytest.fixture
def read_sets(words, tmp_path, monkeypatch):
    """Reads the sets of a use in a folder with two tables."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.tsv").write_text(ROWS)
    (tmp_path / "test.tsv").write_text("text\nthree\n")
    return lambda use, values, **known: sets.read_sets(
        ClassificationConfig(**values),
        DataRequest(
            uses=[use],
            tokenizer=words,
            max_seq_length=12,
            weights=Checkpoint(**known),
        ),
    )


@pytest.mark.parametrize(
    ("use", "values", "message"),
    [
        # Which files.
        ("train", CUSTOM, "--label_column must be given"),
        ("train", TABLE | {"train_file": None}, "--data_dir or --train_file"),
        ("eval", TABLE | {"data_dir": "."}, r"has none of dev.tsv, dev.csv"),
        ("train", HELD_OUT | {"eval_file": "x.tsv"}, "but there is 'x.ts"),
        ("train", TABLE | {"validation_share": 0.001}, "of 2 rows holds 0 out"),
        # Which columns.
        ("train", TABLE | {"text_columns": ()}, "must name one column or"),
        ("train", TABLE | {"text_columns": ("a", "b", "c")}, "must name"),
        (
            "train",
            TABLE | {"text_columns": ("kind",)},
            "must not name the column",
        ),
        # Which labels.
        ("predict", CUSTOM, "labels are not known.* Pass --labels"),
        ("predict", PREDICT | {"label_column": None}, "and --label_colu"),
        ("train", TABLE | {"positive_label": "good"}, "'good', .*'ham', 'spam"),
        ("train", THREE | {"positive_label": "ham"}, "must be one of two lab"),
        (
            "train",  # of --num_folds, too
            TABLE | {"decide": "recall:0.9"},
            "--decide needs --do_eval, without --num_folds",
        ),
        ("eval", EVAL | {"decide": "precision:2"}, "a number from 0"),
        ("eval", EVAL | {"decide": "f1:.5"}, "Received: f1:.5"),
        (
            "eval",
            EVAL | {"decide": "recall:1", "exit_patience": 2},
            "for all layers: evaluate without --exit_patience",
        ),
        ("eval", EVAL | THREE | {"decide": "recall:0.9"}, "two labels, .* 3"),
        ("train", TABLE | {"class_weights": ("3",)}, "for each of the labels"),
        ("train", TABLE | {"class_weights": ("0",)}, "`class_weights` mu"),
    ],
)
def test_tables_that_cannot_be_used(use, values, message, read_sets):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        read_sets(use, values)


def test_weights_that_were_trained_with_one_label(read_sets):
    known = Metadata(task="custom", labels=("a", "b"))

    with pytest.raises(ValueError, match="were trained with one label a row"):
        read_sets("predict", PREDICT | MULTI_LABEL, metadata=known)


@pytest.mark.parametrize(
    ("trained", "columns"),
    [
        (["text", "tags"], ("tags", "text")),
        (["text"], ("tags", "text")),
        (["text", "tags"], ("text",)),
    ],
)
def test_weights_that_were_trained_with_other_columns(
    trained, columns, read_sets
):
    values = PREDICT | {"text_columns": columns}

    with pytest.raises(ValueError, match="were trained with --text_columns=te"):
        read_sets(
            "predict",
            values,
            metadata=Metadata(settings={"text_columns": trained}),
        )


@pytest.mark.parametrize(
    ("settings", "trained"),
    [
        ({}, "None"),
        ({"validation": [0.2, 1, {}]}, r"\[0.2, 1\]"),
        ({"validation": [0.2, 0]}, r"\[0.2\]"),
    ],
)
def test_weights_that_were_trained_with_other_rows(
    settings, trained, read_sets
):
    settings = {"task": "custom"} | settings

    with pytest.raises(ValueError, match=rf"with {trained}, not \[0.2, 0\]"):
        read_sets("eval", HELD_OUT, metadata=Metadata(settings=settings))


@pytest.mark.parametrize(
    ("rows", "labels", "separator", "message"),
    [
        ("", ("ham", "spam"), None, "train.tsv has no examples"),
        ("", None, None, "train.tsv has no examples with a label"),
        ("ham\tone\t1\nham\ttwo\t2\n", None, None, r"Received: 1 \('ham'\)"),
        (" \tone\t1\n", None, None, "line 2: a label must not be empty"),
        ("0\ta\t1\nnan\tb\t2\n", None, None, "line 3: .*NaN, .*: 'nan'"),
        ("1\ta\t1\n1.0\tb\t2\n", None, None, r"Received: 1 \('1'\)"),
        ("-\tone\t1\n", ("ham", "spam"), None, "line 2: .* 'spam'. .*'-'"),
        ("a;b\tone\t1\n", ("a",), ";", "line 2: the label must .*: 'b'"),
        *(
            # NumPy writes `['a' 'b']`; two equal numbers are no two labels.
            (f"{labels}\tone\t1\n", ("a", "0"), ";", "line 2: .* must be a lis")
            for labels in ("[a]", '["a", null]', "['a' 'a']", "[0, 1, 0]")
        ),
        *(
            (f"{label}\tone\t1\n", (), None, "line 2: .* must be a number")
            for label in ("", "high", "nan", "inf", "1e40", "1_000", "1,500")
        ),
        (
            "ham\tone\t1\nham\ttwo\t1\n",
            ("ham", "spam"),
            None,
            "train.tsv: two examples have the id '1'",
        ),
    ],
)
def test_labels_and_ids_that_cannot_be_used(
    rows, labels, separator, message, tmp_path
):
    path = tmp_path / "train.tsv"
    path.write_text(f"kind\ttext\tid\n{rows}")
    columns = labelled_texts.Columns(
        texts=("text",), label="kind", guid="id", separator=separator
    )

    with pytest.raises(ValueError, match=message):
        if labels is None:
            labelled_texts.read_labels(path, "kind", separator=separator)
        else:
            labelled_texts.read_examples(path, columns, labels=labels)


def test_columns_that_are_a_label_each_hold_0_and_1(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text("text,toxic,insult\none,0,-1\n")
    columns = labelled_texts.Columns(
        texts=("text",), label="toxic,insult", separator=";"
    )

    with pytest.raises(ValueError, match="line 2: .*toxic=0, insult=-1"):
        labelled_texts.read_examples(path, columns, labels=("toxic", "insult"))
