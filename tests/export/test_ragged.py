import numpy as np
import pytest
import tensorflow as tf

from albert_tf.export import ragged

ROWS = [0, 0, 0, 2, 2, 3]


@pytest.fixture
def row_ids():
    return tf.constant(ROWS)


def test_starts_of_rows_some_of_them_empty(row_ids):
    found = ragged.row_splits(row_ids, tf.constant(5))

    assert found.numpy().tolist() == [0, 3, 3, 5, 6, 6]


def test_first_and_last_of_each_row(row_ids):
    first, last = ragged.is_first(row_ids), ragged.is_last(row_ids)

    assert first.numpy().tolist() == [True, False, False, True, False, True]
    assert last.numpy().tolist() == [False, False, True, False, True, True]


def test_no_elements():
    none = tf.constant([], tf.int32)

    assert ragged.is_first(none).numpy().tolist() == []
    assert ragged.is_last(none).numpy().tolist() == []
    assert ragged.count_before(none > 0).numpy().tolist() == [0]
    assert ragged.running_max(none, none).numpy().tolist() == []
    assert ragged.mark_reachable(none, none > 0).numpy().tolist() == []


def test_neighbours():
    values = tf.constant([4, 5, 6])

    assert ragged.shift_right(values, 0).numpy().tolist() == [0, 4, 5]
    assert ragged.shift_left(values, 9).numpy().tolist() == [5, 6, 9]


def test_where_and_how_often():
    mask = tf.constant([True, False, True])

    assert ragged.size(mask) == 3
    assert ragged.indices(mask).numpy().tolist() == [0, 2]
    assert ragged.count_before(mask).numpy().tolist() == [0, 1, 1, 2]


def test_spreading_elements_that_may_vanish():
    sources, within = ragged.expand(tf.constant([2, 0, 1, 3]))

    assert sources.numpy().tolist() == [0, 0, 2, 3, 3, 3]
    assert within.numpy().tolist() == [0, 1, 0, 0, 1, 2]


def test_chains_are_followed_to_their_end():
    rng = np.random.default_rng(0)
    size = 300
    following = np.arange(size) + rng.integers(1, 9, size)
    following = np.minimum(following, size)
    is_start = rng.random(size) < 0.01
    expected = is_start.copy()
    for place in np.flatnonzero(is_start):
        while place < size:
            expected[place] = True
            place = following[place]

    found = ragged.mark_reachable(
        tf.constant(following, tf.int32), tf.constant(is_start)
    )

    assert expected.sum() > 50
    np.testing.assert_array_equal(found, expected)


def test_the_running_maximum_begins_anew_in_each_row(row_ids):
    found = ragged.running_max(tf.constant([3, 1, 4, 1, 0, 2]), row_ids)

    assert found.numpy().tolist() == [3, 3, 4, 1, 1, 2]


def test_the_next_and_the_last_that_is_true():
    mask = tf.constant([False, True, False, True, False])
    places = tf.range(6)

    found = ragged.next_true(mask, places).numpy().tolist()
    assert found == [1, 1, 3, 3, 5, 5]
    found = ragged.previous_true(mask, places).numpy().tolist()
    assert found == [-1, -1, 1, 1, 3, 3]


def test_texts_to_code_points_and_back():
    texts = ["a\0é", "", "漢👩", "\ufffd"]

    code_points, row_ids, sizes = ragged.decode(tf.constant(texts))
    again = ragged.encode(code_points, sizes)

    assert sizes.numpy().tolist() == [3, 0, 2, 1]
    assert row_ids.numpy().tolist() == [0, 0, 0, 2, 2, 3]
    assert code_points.numpy().tolist() == [*map(ord, "".join(texts))]
    assert [text.decode() for text in again.numpy()] == texts
