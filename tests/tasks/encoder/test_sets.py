"""Files of pairs, and what is refused."""

import json

import pytest

from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.tasks.encoder import sets as sets_lib
from albert_tf.tasks.encoder.sets import SimilarityConfig
from albert_tf.tasks.example_files import RowsInMemory

ROWS = [
    {"a": f"One cat {i}.", "b": f"A cat {i}.", "c": "No.", "n": i % 5}
    for i in range(10)
]
SCORED = {"text_columns": ("a", "b"), "label_column": "n"}
TRIPLETS = {"text_columns": ("a", "b", "c")}


def read_sets(words, uses, rows=None, weights=None, **flags):
    return sets_lib.read_sets(
        SimilarityConfig(**flags),
        uses,
        tokenizer=words,
        max_seq_length=16,
        **({"weights": weights} if weights else {}),
        given_examples={
            use: RowsInMemory("rows", own) for use, own in (rows or {}).items()
        },
    )


@pytest.mark.parametrize("ending", ["tsv", "csv", "jsonl"])
def test_files_of_pairs(ending, words, tmp_path):
    path = tmp_path / f"pairs.{ending}"
    separator = {"tsv": "\t", "csv": ","}.get(ending)
    lines = [json.dumps(row) for row in ROWS]
    if separator:
        lines = [separator.join(map(str, row.values())) for row in ROWS]
        lines = [separator.join(ROWS[0]), *lines]
    path.write_text("\n".join(lines))

    found = read_sets(words, ["train"], train_file=str(path), **SCORED)

    examples = found.train.examples
    assert [(e.text_a, e.text_b, e.label) for e in examples] == [
        (row["a"], row["b"], row["n"]) for row in ROWS
    ]


def test_a_third_text_is_only_trained_on(words):
    rows = {"train": ROWS, "eval": ROWS[:3], "predict": ROWS[3:5]}

    found = read_sets(words, [*rows], rows, **TRIPLETS)

    assert [each.data.num_texts for each in found.all] == [3, 2, 2]
    assert found.train.examples[0].text_c == "No."
    assert {e.text_c for e in found.evaluation[0].examples} == {""}


def test_sts_b_has_its_files_and_columns(words, tmp_path):
    (tmp_path / "STS-B").mkdir()
    for split, label in {"train": "\tscore", "test": ""}.items():
        path = tmp_path / "STS-B" / f"{split}.tsv"
        row = 'A "cat.\tA dog.' + "\t4.5" * bool(label)
        path.write_text(f"sentence1\tsentence2{label}\n{row}\n")

    found = read_sets(
        words, ["train", "predict"], task_name="sts-b", data_dir=str(tmp_path)
    )

    assert found.train.examples[0].label == 4.5
    assert found.prediction[0].examples[0].text_a == 'A "cat.'


def test_rows_are_held_out(words):
    flags = SCORED | {"validation_share": 0.3}

    found = read_sets(words, ["train", "eval"], {"train": ROWS}, **flags)

    sizes = len(found.train.examples), len(found.evaluation[0].examples)
    assert sizes == (7, 3)
    assert len(found.data.settings["validation"][2]) == 3


def test_pooling_is_that_of_the_weights_in_use(words):
    kept = {"pooling": "cls", "normalizes": True}
    weights = Checkpoint(metadata=Metadata(settings=kept))

    found, given, trained = (
        read_sets(words, [use], {use: ROWS}, weights, **SCORED, **flags).data
        for use, flags in [
            ("eval", {}),
            ("eval", {"pooling": "mean"}),
            ("train", {}),
        ]
    )

    assert (found.pooling, found.normalizes) == ("cls", True)
    assert (given.pooling, given.normalizes) == ("mean", True)
    assert (trained.pooling, trained.normalizes) == ("mean", False)


@pytest.mark.parametrize(
    ("flags", "loss", "span"),
    [
        (SCORED, "cosent", (0, 1)),
        (SCORED | {"loss": "cosine"}, "cosine", (0, 4)),
        (TRIPLETS, "softmax", (0, 1)),
    ],
)
def test_the_columns_decide_the_loss(flags, loss, span, words):
    found = read_sets(words, ["train"], {"train": ROWS}, **flags)

    make_task = sets_lib.make_task(SimilarityConfig(**flags), found)

    assert make_task.keywords["loss"] == loss
    assert found.train.data.score_range == span


@pytest.mark.parametrize(
    ("flags", "rows", "message"),
    [
        ({}, ROWS, "--text_columns must name the two columns"),
        ({"text_columns": ("a",)}, ROWS, "text_columns=a, label_column=None"),
        (SCORED | TRIPLETS, ROWS, "text_columns=a,b,c, label_column=n"),
        (SCORED | {"loss": "softmax"}, ROWS, "`loss` must be one of cosent"),
        (TRIPLETS | {"loss": "cosent"}, ROWS, "`loss` must be one of softmax"),
        (SCORED | {"temperature": 0.0}, ROWS, "`temperature` must be a finite"),
        (SCORED | {"pooling": "max"}, ROWS, "`pooling` must be one of"),
        (SCORED, [ROWS[0], ROWS[1] | {"n": "4,5"}], "line 2: 'n' must be a nu"),
        (SCORED, [ROWS[0] | {"n": "nan"}], "line 1: 'n' must be a number"),
        (SCORED, [{"a": "x", "b": "y"}], "line 1: 'n' must be a string or"),
        (SCORED, [], "rows has no examples"),
        (
            SCORED | {"validation_share": 0.5, "eval_file": "x.tsv"},
            ROWS,
            "without an --eval_file",
        ),
    ],
)
def test_refusals(flags, rows, message, words):
    with pytest.raises(ValueError, match=message):
        read_sets(
            words,
            ["train", "eval"],
            {"train": rows, "eval": rows}
            if "eval_file" not in flags
            else {"train": rows},
            **flags,
        )


def test_a_file_must_be_named(words):
    with pytest.raises(ValueError, match="--data_dir or --train_file must be"):
        read_sets(words, ["train"], **SCORED)
