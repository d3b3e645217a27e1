import numpy as np
import pytest
import tensorflow as tf

from albert_tf.export import code_point_table, text_words
from albert_tf.export.code_point_table import PagedTable


@pytest.fixture(scope="module")
def without_x():
    values = np.zeros(code_point_table.NUM_CODE_POINTS, np.uint8)
    values[ord("x")] = 1
    return PagedTable(values)


def words_of(words):
    """Returns the words of each row."""
    strings = words.strings.numpy()
    rows = [[] for _ in range(words.num_rows)]
    for row, number in zip(
        words.row_ids.numpy(), words.numbers.numpy(), strict=True
    ):
        rows[row].append(strings[number].decode())
    return rows


def test_equal_words_are_of_one_kind():
    words = text_words.split(tf.constant(["a b  a", "", "b c "]))

    assert words_of(words) == [["a", "b", "", "a"], [""], ["b", "c", ""]]
    assert sorted(words.strings.numpy()) == [b"", b"a", b"b", b"c"]
    assert words.starts(
        tf.constant([len(s) for s in words.strings.numpy()])
    ).numpy().tolist() == [0, 2, 4, 5, 0, 0, 2, 4]


def test_texts_that_are_not_split(without_x):
    texts = ["a b", "b xc", "", "x", "c"]

    words = text_words.split(tf.constant(texts), without_x)

    assert words_of(words) == [["a", "b"], ["b xc"], [""], ["x"], ["c"]]


def test_whole_texts():
    words = text_words.whole(tf.constant(["a b", "c", "a b"]))

    assert words_of(words) == [["a b"], ["c"], ["a b"]]
    assert len(words.strings) == 2


def test_no_texts(without_x):
    none = tf.zeros([0], tf.string)

    for words in (text_words.split(none, without_x), text_words.whole(none)):
        assert words_of(words) == []
