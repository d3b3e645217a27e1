import logging

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.tasks.race import examples as examples_lib
from albert_tf.tasks.race import passage_files
from albert_tf.tasks.race.examples import ChoiceLengths
from albert_tf.text import base

ROWS = ("input_ids", "input_mask", "segment_ids")


class WordTokenizer:
    """A word of n letters has the id 10 + n; `calls` says what was encoded."""

    special_ids = base.SpecialIds(pad=9, unk=1, cls=2, sep=3, mask=4)

    def __init__(self):
        self.calls = []

    def encode_batch(self, texts):
        self.calls.append(list(texts))
        rows = [[10 + len(word) for word in text.split()] for text in texts]
        ids = np.array([i for row in rows for i in row], np.int32)
        return ids, np.array([len(row) for row in rows], np.int64)


def records_of(examples, *lengths):
    long, short = lengths or (20, 10)
    return list(
        examples_lib.make_records(
            examples,
            WordTokenizer(),
            ChoiceLengths(max_seq_length=long, max_qa_length=short),
        )
    )


def padded(record, length):
    """The sequence arrays of a record as the reference has them."""
    size = record["input_ids"].shape[1]
    return {
        name: np.pad(record[name], [(0, 0), (0, length - size)])
        for name in ROWS
    }


def test_an_option_follows_the_question(make_example):
    example = make_example(question="What is white?", options=("Snow", "Coal"))

    assert example.choice_texts() == [
        "What is white? Snow",
        "What is white? Coal",
    ]


@pytest.mark.parametrize("blank", ["_", "＿", "﹏"])
def test_an_option_takes_the_place_of_every_blank(blank, make_example):
    # `＿` becomes `_` when text is normalised, which the reference does first.
    example = make_example(
        question=f"If {blank} is white, {blank} is not black.",
        options=("snow", r"\1"),
    )

    assert example.choice_texts() == [
        "If snow is white, snow is not black.",
        r"If \1 is white, \1 is not black.",
    ]


def test_empty_texts_are_kept_and_counted(make_example, caplog):
    questions = [
        make_example(guid="q1"),
        make_example(guid="q2", article=" "),
        make_example(guid="q3", options=("a", "", "c")),
    ]

    examples_lib.check_examples(questions, "file")

    assert "file: 2 of 3 examples have an empty text" in caplog.text


def test_a_choice_is_the_article_then_the_completed_question(make_example):
    example = make_example(
        article="a bb", question="ccc", options=("dddd", "e ff"), label=1
    )

    (record,) = records_of([example])

    # A bb | ccc dddd, and A bb | ccc e ff; id 9 is padding.
    np.testing.assert_array_equal(
        record["input_ids"],
        [[2, 11, 12, 3, 13, 14, 3, 9], [2, 11, 12, 3, 13, 11, 12, 3]],
    )
    np.testing.assert_array_equal(
        record["input_mask"], [[1] * 7 + [0], [1] * 8]
    )
    np.testing.assert_array_equal(
        record["segment_ids"],
        [[0, 0, 0, 0, 1, 1, 1, 0], [0, 0, 0, 0, 1, 1, 1, 1]],
    )
    assert record["label_ids"] == 1
    assert {array.dtype.name for array in record.values()} == {"int32"}


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

    (record,) = records_of([example], *lengths)

    np.testing.assert_array_equal(record["input_ids"], expected)
    # Where the answer is not known.
    assert record["label_ids"] == 0


def test_truncated_texts_are_counted(make_example, caplog):
    questions = [
        make_example(article="a", question="b", options=("c", "d")),
        make_example(article="a b c d", question="e", options=("f", "g")),
        make_example(article="a b c d", question="e f g", options=("h", "i")),
    ]

    with caplog.at_level(logging.INFO):
        records_of(questions, 7, 3)

    assert "Made records of 3 questions" in caplog.text
    assert "article of 2, and the question or an option of 1" in caplog.text


def test_an_article_is_encoded_once_and_many_at_a_time(make_example):
    questions = [
        make_example(guid="1", article="aa bb", options=("c", "d")),
        make_example(guid="2", article="aa bb", options=("e", "f")),
        make_example(guid="3", article="cc", options=("g", "h")),
    ]
    words = WordTokenizer()

    list(examples_lib.make_records(questions, words, ChoiceLengths()))

    (texts,) = words.calls
    assert (texts.count("aa bb"), texts.count("cc")) == (1, 1)
    assert len(texts) == 2 + 3 * 2


def test_more_articles_than_fit_one_call_come_in_order(make_example):
    count = examples_lib.ARTICLES_PER_CALL + 3
    questions = [
        make_example(guid=str(i), article="a " * i, label=i % 3)
        for i in range(count)
    ]
    words = WordTokenizer()
    lengths = ChoiceLengths(max_seq_length=200, max_qa_length=50)

    found = list(examples_lib.make_records(questions, words, lengths))

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
    questions = passage_files.read_split(folder, "dev")
    lengths = ChoiceLengths(max_seq_length=long, max_qa_length=short)

    found = list(examples_lib.make_records(questions, english, lengths))

    for key in ROWS:
        rows = [padded(record, long)[key] for record in found]
        np.testing.assert_array_equal(np.stack(rows), wanted[key])
    labels = [record["label_ids"] for record in found]
    np.testing.assert_array_equal(labels, wanted["label_id"])
    ids = [example.passage_id for example in questions]
    assert ids == wanted["example_id"].tolist()


def test_features_equal_the_records_of_the_original(english, shared_data):
    folder = shared_data / "golden" / "race" / "race"
    questions = passage_files.read_split(folder, "dev")
    lengths = ChoiceLengths(max_seq_length=128, max_qa_length=16)
    path = str(folder / "features_128_16.tf_record")
    wanted = [
        tf.train.Example.FromString(text).features.feature
        for text in tf.data.TFRecordDataset(path).as_numpy_iterator()
    ]

    found = list(examples_lib.make_records(questions, english, lengths))

    assert len(found) == len(wanted) == 20
    for record, original in zip(found, wanted, strict=True):
        arrays = padded(record, 128) | {"label_ids": record["label_ids"]}
        for name, array in arrays.items():
            values = original[name].int64_list.value
            np.testing.assert_array_equal(array.reshape(-1), values)
