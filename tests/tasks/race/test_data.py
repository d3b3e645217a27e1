import json

import numpy as np
import pytest

from albert_tf.tasks.race import examples as examples_lib
from albert_tf.tasks.race.data import QUESTIONS_PER_CALL, MultipleChoiceData
from albert_tf.tasks.race.examples import ChoiceLengths
from albert_tf.text import vocabulary_file
from tests.tasks.writing import write_predictions

# The largest are B, A, C, A.
LOGITS = np.array([[1, 3, 2], [5, 0, 1], [0, 0, 2], [2, 1, 0]], np.float32)


ROWS = ("input_ids", "input_mask", "segment_ids")


class WordTokenizer:
    """A word of n letters has the id 10 + n; `calls` says what was encoded."""

    special_ids = vocabulary_file.SpecialIds(pad=9, unk=1, cls=2, sep=3, mask=4)

    def __init__(self):
        self.calls = []

    def encode_batch(self, texts):
        self.calls.append(list(texts))
        rows = [[10 + len(word) for word in text.split()] for text in texts]
        ids = np.array([i for row in rows for i in row], np.int32)
        return ids, np.array([len(row) for row in rows], np.int64)


def records_of(examples, tokenizer, long, short):
    data = MultipleChoiceData(
        tokenizer=tokenizer,
        lengths=ChoiceLengths(max_seq_length=long, max_qa_length=short),
    )
    return list(data.records(examples, is_training=False))


def padded(record, length):
    """The sequence arrays of a record as the reference has them."""
    size = record["input_ids"].shape[1]
    return {
        name: np.pad(record[name], [(0, 0), (0, length - size)])
        for name in ROWS
    }


@pytest.mark.parametrize(
    ("article", "question", "options", "lengths", "expected"),
    [
        # 8 = [CLS], [SEP], [SEP], the last 3 of the choice, and of the
        # article the first that fit.
        (
            *("a bb ccc dddd", "eeeee f", ("gg", "hhh iiii"), (8, 3)),
            [[2, 11, 12, 3, 15, 11, 12, 3], [2, 11, 12, 3, 11, 13, 14, 3]],
        ),
        # A short choice leaves room for more of the article.
        (
            *("a bb ccc dddd", "e", ("f", "gg hhh iiii"), (8, 4)),
            [[2, 11, 12, 13, 3, 11, 11, 3], [2, 11, 3, 11, 12, 13, 14, 3]],
        ),
        # Texts may be empty; id 9 is padding.
        ("", "", ("", "a"), (20, 10), [[2, 3, 3, 9], [2, 3, 11, 3]]),
    ],
)
def test_choices_are_cut_to_their_lengths(
    article, question, options, lengths, expected, make_example
):
    example = make_example(
        article=article, question=question, options=options, label=None
    )

    (record,) = records_of([example], WordTokenizer(), *lengths)

    np.testing.assert_array_equal(record["input_ids"], expected)
    # Where the answer is not known.
    assert record["label_ids"] == 0


def test_more_questions_than_fit_one_call_come_in_order(make_example):
    count = QUESTIONS_PER_CALL + 3
    questions = [
        make_example(guid=str(i), article="a " * i, label=i % 3)
        for i in range(count)
    ]
    words = WordTokenizer()

    found = records_of(questions, words, 300, 50)

    assert len(words.calls) == 2
    # [CLS], the article, [SEP], three words of question, the option, [SEP].
    sizes = [record["input_ids"].shape[1] for record in found]
    assert sizes == [i + 7 for i in range(count)]
    assert [int(record["label_ids"]) for record in found] == [
        i % 3 for i in range(count)
    ]


@pytest.mark.parametrize("name", ["race", "race_like_gaokao"])
@pytest.mark.parametrize(("long", "short"), [(256, 64), (128, 16), (448, 64)])
def test_features_equal_the_recorded_ones(
    name, long, short, english, shared_data
):
    folder = shared_data / "golden" / "race" / name
    wanted = np.load(folder / f"features_{long}_{short}.npz")
    questions = examples_lib.read_split(folder, "dev")

    found = records_of(questions, english, long, short)

    # A run of underscores is one blank here; RACE's own files have none.
    is_same = ["__" not in example.question for example in questions]
    assert all(is_same) == (name == "race")
    for key in ROWS:
        rows = np.stack([padded(record, long)[key] for record in found])
        np.testing.assert_array_equal(rows[is_same], wanted[key][is_same])
    labels = [record["label_ids"] for record in found]
    np.testing.assert_array_equal(labels, wanted["label_id"])
    ids = [example.guid.rpartition("-")[0] for example in questions]
    assert ids == wanted["example_id"].tolist()


@pytest.fixture
def make_data(words):
    def make(**changes):
        settings = {
            "tokenizer": words,
            "lengths": ChoiceLengths(max_seq_length=32, max_qa_length=16),
            "num_choices": 3,
        }
        return MultipleChoiceData(**settings | changes)

    return make


@pytest.fixture
def questions(make_example):
    """Predicted B, A, C, A: right, wrong, right, right."""
    rows = [("middle", 1), ("high", 2), ("high", 2), ("high", 0)]
    return [
        make_example(guid=f"q{i}", level=level, label=label)
        for i, (level, label) in enumerate(rows)
    ]


def test_accuracy_is_that_of_all_and_of_each_level(make_data, questions):
    found = make_data().scores(questions, {"logits": LOGITS})

    assert found.flat() == {
        "accuracy": 3 / 4,
        "accuracy_middle": 1.0,
        "accuracy_high": pytest.approx(2 / 3),
    }


def test_predictions_are_a_line_for_each_question(
    make_data, questions, tmp_path
):
    names = write_predictions(
        make_data(), questions, {"logits": LOGITS}, tmp_path
    )

    scores, predictions = (tmp_path / name for name in names)
    rows = list(map(json.loads, predictions.read_text("utf-8").splitlines()))
    assert [row["id"] for row in rows] == ["q0", "q1", "q2", "q3"]
    assert [row["level"] for row in rows] == ["middle", *["high"] * 3]
    assert [row["prediction"] for row in rows] == ["B", "A", "C", "A"]
    assert [row["answer"] for row in rows] == ["B", "C", "C", "A"]
    exponentials = np.exp(LOGITS.astype(float))
    np.testing.assert_allclose(
        [row["probabilities"] for row in rows],
        exponentials / exponentials.sum(axis=1, keepdims=True),
        rtol=1e-6,
    )
    wanted = make_data().scores(questions, {"logits": LOGITS})
    of_rows = make_data().score_of_rows(questions, {"logits": LOGITS}, wanted)
    assert of_rows(np.arange(len(questions))) == wanted["accuracy"]
    assert json.loads(scores.read_text()) == wanted.flat()


def test_scores_of_other_predictions_do_not_stay(
    make_data, make_example, questions, tmp_path
):
    def write(examples):
        outputs = {"logits": LOGITS[: len(examples)]}
        write_predictions(make_data(), examples, outputs, tmp_path)
        return {path.name for path in tmp_path.iterdir()}

    assert write(questions) == {"predictions.jsonl", "predict_results.json"}
    assert write([make_example(label=None)]) == {"predictions.jsonl"}


@pytest.mark.parametrize(
    ("logits", "probabilities"),
    [
        ([-500.0, 500.0, 0.0], [0, 1, 0]),
        # So close that the probabilities are the same number.
        ([0.0, 1e-20, 0.0], [1 / 3] * 3),
    ],
)
def test_the_prediction_is_that_of_the_scored_logits(
    logits, probabilities, make_data, make_example, tmp_path
):
    outputs = {"logits": np.array([logits], np.float32)}
    example = make_example(label=1)

    write_predictions(make_data(), [example], outputs, tmp_path)

    row = json.loads((tmp_path / "predictions.jsonl").read_text("utf-8"))
    assert row["probabilities"] == pytest.approx(probabilities)
    assert row["prediction"] == "B"
    # Levels that do not occur have no accuracy.
    assert make_data().scores([example], outputs).flat() == {"accuracy": 1}
