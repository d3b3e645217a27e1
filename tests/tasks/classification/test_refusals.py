"""What classification refuses: flags, tables, labels."""

import pytest

from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.tasks.classification import examples, sets
from albert_tf.tasks.classification.sets import ClassificationConfig

CUSTOM = {"task_name": "custom", "text_columns": ("text",)}
TABLE = CUSTOM | {"label_column": "kind", "train_file": "train.tsv"}
PREDICT = TABLE | {"predict_file": "test.tsv"}
ROWS = "kind\ttext\nspam\tone\nham\ttwo\n"
MULTI_LABEL = {"multi_label": True, "label_separator": ";"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "`task_name` must be one of cola, .*, custom"),
        ({"task_name": "glue"}, "`task_name` must be one of cola"),
        (
            {"task_name": "rte", "text_columns": ("text",)},
            "--text_columns needs --task_name=custom.*task_name=rte",
        ),
        (
            {"task_name": "rte", "validation_share": 0.1},
            "--validation_share needs --task_name=custom",
        ),
        (
            CUSTOM | {"regression": True, "labels": ("a", "b")},
            "--regression and --labels contradict each other",
        ),
        (
            CUSTOM | {"regression": True, "class_weights": ("balanced",)},
            "--regression and --class_weights contradict each other",
        ),
        (
            CUSTOM | {"multi_label": True, "positive_label": "a"},
            "--multi_label and --positive_label contradict each other",
        ),
        (
            CUSTOM | {"multi_label": True, "label_separator": ""},
            "--label_separator must be something other than white space",
        ),
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


@pytest.mark.parametrize(
    ("use", "values", "known", "message"),
    [
        # Which files.
        ("train", CUSTOM, {}, "--label_column must be given"),
        (
            "train",
            TABLE | {"train_file": None},
            {},
            "--data_dir or --train_file must be given",
        ),
        (
            "eval",
            TABLE | {"data_dir": "."},
            {},
            r"There is no dev.tsv, dev.csv or dev.jsonl in '\.'",
        ),
        (
            "train",
            TABLE | {"validation_share": 0.2, "eval_file": "later.tsv"},
            {},
            "without a file to evaluate, but there is 'later.tsv'",
        ),
        (
            "train",
            TABLE | {"validation_share": 0.001},
            {},
            "--validation_share=0.001 of 2 rows holds 0 out",
        ),
        # Which columns.
        ("train", TABLE | {"text_columns": ()}, {}, "must name one column or"),
        ("train", TABLE | {"text_columns": ("a", "b", "c")}, {}, "must name"),
        ("train", TABLE | {"text_columns": ("kind",)}, {}, "not that of the"),
        # Which labels.
        ("predict", CUSTOM, {}, "labels are not known.* Pass --labels"),
        ("predict", PREDICT | {"label_column": None}, {}, "and --label_colu"),
        (
            "train",
            TABLE | {"positive_label": "good"},
            {},
            "one of two labels. Received: 'good', and the labels 'ham', 'spam'",
        ),
        (
            "train",
            TABLE | {"positive_label": "ham", "labels": ("ham", "spam", "a")},
            {},
            "--positive_label must be one of two labels",
        ),
        (
            "train",
            TABLE | {"class_weights": ("3",)},
            {},
            "one weight for each of the labels 'ham', 'spam'",
        ),
        ("train", TABLE | {"class_weights": ("0",)}, {}, "`class_weights` mu"),
        # Weights that were trained in another way.
        (
            "predict",
            PREDICT | MULTI_LABEL,
            {"metadata": Metadata(task="custom", labels=("a", "b"))},
            "were trained with one label a row",
        ),
        *(
            (
                "predict",
                PREDICT | {"text_columns": columns},
                {"settings": {"text_columns": trained}},
                "were trained with --text_columns=te",
            )
            for trained, columns in (
                (["text", "tags"], ("tags", "text")),
                (["text"], ("tags", "text")),
                (["text", "tags"], ("text",)),
            )
        ),
        *(
            (
                "eval",
                TABLE | {"validation_share": 0.5},
                {"settings": {"task": "custom"} | settings},
                rf"with {trained}, not \[0.5, 0\]",
            )
            for settings, trained in (
                ({}, "None"),
                ({"validation": [0.5, 1]}, r"\[0.5, 1\]"),
            )
        ),
    ],
)
def test_tables_that_cannot_be_used(
    use, values, known, message, words, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.tsv").write_text(ROWS)
    (tmp_path / "test.tsv").write_text("text\nthree\n")

    with pytest.raises((ValueError, FileNotFoundError), match=message):
        sets.read_sets(
            ClassificationConfig(**values),
            [use],
            tokenizer=words,
            max_seq_length=12,
            weights=Checkpoint(**known),
        )


@pytest.mark.parametrize(
    ("rows", "labels", "separator", "message"),
    [
        ("", ("ham", "spam"), None, "train.tsv has no examples"),
        ("", None, None, "'kind': there must be 2 to 1000 .* Received: 0"),
        ("ham\tone\t1\nham\ttwo\t2\n", None, None, r"Received: 1 \('ham'\)"),
        (" \tone\t1\n", None, None, "line 2: a label must not be empty"),
        ("-\tone\t1\n", ("ham", "spam"), None, "line 2: .* 'spam'. .*'-'"),
        ("a;b\tone\t1\n", ("a",), ";", "line 2: the label must .*: 'b'"),
        ("[a]\tone\t1\n", ("a",), ";", "line 2: .* a list of strings in JSO"),
        ('["a", 1]\tone\t1\n', ("a",), ";", "line 2: .* a list of strings"),
        ('["a;b"]\tone\t1\n', ("a",), ";", "without the --label_separator ';'"),
        *(
            (f"{label}\tone\t1\n", (), None, "line 2: .* must be a number")
            for label in ("", "high", "nan", "inf", "1e40", "1_000")
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
    columns = examples.Columns(
        texts=("text",), label="kind", guid="id", separator=separator
    )

    with pytest.raises(ValueError, match=message):
        if labels is None:
            examples.read_labels(path, "kind", separator=separator)
        else:
            examples.read_examples(path, columns, labels=labels)


def test_a_split_in_several_files_is_refused(tmp_path):
    for name in ("train.tsv", "train.json"):
        (tmp_path / name).touch()

    with pytest.raises(ValueError, match=r"several files for train: .*n.json"):
        examples.find_split(tmp_path, "train")
