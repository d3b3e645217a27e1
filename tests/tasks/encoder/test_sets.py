"""Files of pairs, and what is refused."""

import pytest

from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.tasks import held_out
from albert_tf.tasks.encoder import sets as sets_lib
from albert_tf.tasks.encoder.sets import SimilarityConfig
from albert_tf.tasks.example_files import RowsInMemory
from albert_tf.tasks.spec import DataRequest

ROWS = [
    {"a": f"One cat {i}.", "b": f"A cat {i}.", "c": "No.", "n": i % 5}
    for i in range(10)
]
SCORED = {"text_columns": ("a", "b"), "label_column": "n"}
PAIRS = {"text_columns": ("a", "b")}
TRIPLETS = {"text_columns": ("a", "b", "c")}


def read_sets(words, uses, rows=None, checkpoints=None, **flags):
    return sets_lib.read_sets(
        SimilarityConfig(**flags),
        DataRequest(
            uses=uses,
            tokenizer=words,
            max_seq_length=16,
            **(checkpoints or {}),
            given_examples={
                use: RowsInMemory("rows", own)
                for use, own in (rows or {}).items()
            },
        ),
    )


def test_a_third_text_is_only_trained_on(words):
    rows = {"train": ROWS, "eval": ROWS[:3], "predict": ROWS[3:5]}

    found = read_sets(words, [*rows], rows, **TRIPLETS)

    assert [each.data.num_texts for each in found.all] == [3, 2, 2]
    assert found.train.examples[0].text_c == "No."
    [pair, *_] = found.evaluation[0].examples
    assert (pair.text_a, pair.text_b) == ("One cat 0.", "A cat 0.")


def test_sts_b_is_a_folder_of_tables(words, tmp_path):
    for split, label in {"train": "\tscore", "test": ""}.items():
        row = 'A "cat.\tA dog.' + "\t4.5" * bool(label)
        path = tmp_path / f"{split}.tsv"
        path.write_text(f"sentence1\tsentence2{label}\n{row}\n")

    found = read_sets(
        words,
        ["train", "predict"],
        data_dir=str(tmp_path),
        text_columns=("sentence1", "sentence2"),
        label_column="score",
    )

    assert found.train.examples[0].label == 4.5
    assert found.prediction[0].examples[0].text_a == 'A "cat.'


def test_rows_are_held_out(words):
    flags = SCORED | {"validation_share": 0.3}

    found = read_sets(words, ["train", "eval"], {"train": ROWS}, **flags)

    sizes = len(found.train.examples), len(found.evaluation[0].examples)
    assert sizes == (7, 3)
    assert len(found.data.settings["validation"][2]) == 3


def test_pairs_in_both_directions_are_held_out_together(words):
    mirrored = [row | {"a": row["b"], "b": row["a"]} for row in ROWS]
    flags = TRIPLETS | {"validation_share": 0.3}

    found = read_sets(
        words, ["train", "eval"], {"train": ROWS + mirrored}, **flags
    )

    train, evaluation = (
        {frozenset((one.text_a, one.text_b)) for one in each.examples}
        for each in (found.train, found.evaluation[0])
    )
    assert (len(train), len(evaluation)) == (7, 3)
    assert not train & evaluation


@pytest.mark.parametrize(
    ("kind", "uses"), [("start", ["train", "eval"]), ("weights", ["eval"])]
)
def test_rows_that_an_older_run_held_out_are_held_out(kind, uses, words):
    """It held out pairs without their mirrors, which it trained on."""
    mirrored = [row | {"a": row["b"], "b": row["a"]} for row in ROWS]
    flags = PAIRS | {"validation_share": 0.3}
    rows = {"train": ROWS + mirrored}
    [all_pairs] = read_sets(words, ["train"], rows, **PAIRS).all
    _, wanted, digests = held_out.hold_out(
        all_pairs.examples,
        share=0.3,
        seed=0,
        texts=held_out.both_texts,
        label=lambda _: "",
    )
    settings = {"task": "similarity", "validation": [0.3, 0, digests]}
    older = Checkpoint(metadata=Metadata(settings=settings))

    found = read_sets(words, uses, rows, {kind: older}, **flags)

    assert found.evaluation[0].examples == wanted
    assert found.data.settings["validation"] == [0.3, 0, digests]


def test_pooling_is_that_of_the_start_and_of_the_weights():
    kept = {"pooling": "cls", "normalizes": True, "max_seq_length": 9}
    weights = Checkpoint(metadata=Metadata(settings=kept))
    spec = sets_lib.FINETUNING

    found = spec.settings_of_start(weights), spec.settings_of_weights(weights)

    assert found == ({"pooling": "cls", "normalize": True},) * 2
    assert spec.settings_of_start(Checkpoint()) == {}


@pytest.mark.parametrize(
    ("flags", "loss", "labels"),
    [
        (SCORED, "cosent", [0, 1, 2]),
        # Scores of 0 to 4 are taken for cosines of 0 to 1.
        (SCORED | {"loss": "cosine"}, "cosine", [0, 0.25, 0.5]),
        (TRIPLETS, "softmax", [None] * 3),
    ],
)
def test_the_columns_decide_the_loss(flags, loss, labels, words):
    found = read_sets(words, ["train"], {"train": ROWS}, **flags)

    make_task = sets_lib.make_task(SimilarityConfig(**flags), found)

    assert make_task.keywords["loss"] == loss
    assert [one.label for one in found.train.examples[:3]] == labels


@pytest.mark.parametrize(
    ("flags", "rows", "message"),
    [
        ({}, ROWS, "--text_columns must name the two columns"),
        ({"text_columns": ("a",)}, ROWS, "perhaps a third one. Received: a."),
        (SCORED | TRIPLETS, ROWS, "perhaps a third one. Received: a, b, c"),
        (SCORED | {"loss": "softmax"}, ROWS, "`loss` must be one of cosent"),
        (SCORED | {"temperature": 0.0}, ROWS, "`temperature` must be a finite"),
        (SCORED | {"pooling": "max"}, ROWS, "`pooling` must be one of"),
        (SCORED, [ROWS[0] | {"n": "nan"}], "line 1: the label of a regression"),
        (SCORED, [], "rows has no examples"),
        (PAIRS, ROWS[:1] * 2, r"on \(2\) have no wrong answers"),
    ],
)
def test_refusals(flags, rows, message, words):
    with pytest.raises(ValueError, match=message):
        read_sets(words, ["train"], {"train": rows}, **flags)


@pytest.mark.parametrize(
    ("flags", "rows"), [(TRIPLETS, ROWS[:1]), (PAIRS, ROWS[:2])]
)
def test_one_wrong_answer_is_enough(flags, rows, words):
    found = read_sets(words, ["train"], {"train": rows}, **flags)

    assert len(found.train.examples) == len(rows)


@pytest.mark.parametrize("flags", [PAIRS, SCORED])
def test_pairs_without_a_text_are_counted(flags, words, caplog):
    rows = [*ROWS, ROWS[0] | {"b": ""}]

    read_sets(words, ["train"], {"train": rows}, **flags)

    assert f"1 of the {len(rows)} rows to train on lack one" in caplog.text


def test_scores_that_are_all_equal_teach_nothing(words, caplog):
    rows = [row | {"n": "3"} for row in ROWS]

    read_sets(words, ["train"], {"train": rows}, **SCORED)

    assert "rows to train on have the same number, 3" in caplog.text
