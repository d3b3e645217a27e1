import numpy as np
import pytest
import tensorflow as tf

from albert_tf.export import ragged

ROWS = [0, 0, 0, 2, 2, 3]
MASK = [False, True, False, True, False]
PLACES = [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("function", "arguments", "expected"),
    [
        (ragged.row_splits, (ROWS, 5), [0, 3, 3, 5, 6, 6]),
        (ragged.sum_before, ([3, 1, 4, 1, 5, 9], ROWS), [0, 3, 4, 0, 1, 0]),
        (ragged.scatter, ([3, 0], [7, 8], 5), [8, 0, 0, 7, 0]),
        (ragged.is_first, (ROWS,), [True, False, False, True, False, True]),
        (ragged.is_last, (ROWS,), [False, False, True, False, True, True]),
        (ragged.shift_right, ([4, 5, 6], 0), [0, 4, 5]),
        (ragged.shift_left, ([4, 5, 6], 9), [5, 6, 9]),
        (ragged.size, ([True, False, True],), 3),
        (ragged.indices, ([True, False, True],), [0, 2]),
        (ragged.count_before, ([True, False, True],), [0, 1, 1, 2]),
        (ragged.gather_or, ([4, 5], [1, 2, 0], 7), [5, 7, 4]),
        (ragged.next_true, (MASK, PLACES), [1, 1, 3, 3, 5, 5]),
        (ragged.previous_true, (MASK, PLACES), [-1, -1, 1, 1, 3, 3]),
        (ragged.running_max, ([3, 1, 4, 1, 0, 2], ROWS), [3, 3, 4, 1, 1, 2]),
    ],
)
def test_operations(function, arguments, expected):
    found = function(*map(tf.constant, arguments))

    assert found.numpy().tolist() == expected


def test_no_values():
    none = tf.constant([], tf.int32)

    for found in (
        ragged.is_first(none),
        ragged.is_last(none),
        ragged.running_max(none, none),
        ragged.mark_reachable(none, none > 0),
    ):
        assert found.numpy().tolist() == []
    assert ragged.count_before(none > 0).numpy().tolist() == [0]


def test_values_are_replaced_by_any_number_of_others():
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


def test_texts_to_code_points_and_back():
    texts = ["a\0é", "", "漢👩", "\ufffd"]

    code_points, row_ids, lengths = ragged.decode(tf.constant(texts))
    again = ragged.encode(code_points, lengths)

    assert lengths.numpy().tolist() == [3, 0, 2, 1]
    assert row_ids.numpy().tolist() == [0, 0, 0, 2, 2, 3]
    assert code_points.numpy().tolist() == [*map(ord, "".join(texts))]
    assert [text.decode() for text in again.numpy()] == texts
