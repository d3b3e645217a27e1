import numpy as np
import pytest
import tensorflow as tf

from albert_tf.serving import ragged
from albert_tf.serving.ragged import PagedTable, ReplacementTable, Sequences

ROWS = [0, 0, 0, 2, 2, 3]
MASK = [False, True, False, True, False]
PLACES = [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("function", "arguments", "expected"),
    [
        (ragged.row_splits, (ROWS, 5), [0, 3, 3, 5, 6, 6]),
        (ragged.row_ids, ([0, 3, 3, 5, 6, 6],), ROWS),
        (ragged.sums_before, ([3, 0, 2],), [0, 3, 3, 5]),
        (ragged.is_first, (ROWS,), [True, False, False, True, False, True]),
        (ragged.is_last, (ROWS,), [False, False, True, False, True, True]),
        (ragged.shift_right, ([4, 5, 6], 0), [0, 4, 5]),
        (ragged.shift_left, ([4, 5, 6], 9), [5, 6, 9]),
        (ragged.size, ([True, False, True],), 3),
        (ragged.indices, ([True, False, True],), [0, 2]),
        (ragged.gather_or, ([4, 5], [1, 2, 0], 7), [5, 7, 4]),
        (ragged.next_true, (MASK, PLACES), [1, 1, 3, 3, 5, 5]),
        (ragged.previous_true, (MASK, PLACES), [-1, -1, 1, 1, 3, 3]),
    ],
)
def test_operations(function, arguments, expected):
    found = function(*map(tf.constant, arguments))

    assert found.numpy().tolist() == expected


def test_values_are_replaced_by_any_number_of_others():
    sources, within = ragged.expand(tf.constant([2, 0, 1, 3]))

    assert sources.numpy().tolist() == [0, 0, 2, 3, 3, 3]
    assert within.numpy().tolist() == [0, 1, 0, 0, 1, 2]


def test_texts_to_code_points_and_back():
    texts = ["a\0é", "", "漢👩", "\ufffd"]

    code_points, splits = ragged.decode(tf.constant(texts))
    again = ragged.encode(code_points, splits)

    assert splits.numpy().tolist() == [0, 3, 3, 5, 6]
    assert code_points.numpy().tolist() == [*map(ord, "".join(texts))]
    assert [text.decode() for text in again.numpy()] == texts


def test_bytes_are_places_in_all_texts():
    code_points, splits = ragged.decode(tf.constant(["aé漢", "", "👩x"]))
    offsets, rows = [0, 1, 3, 6, 0, 0, 4, 5], [0, 0, 0, 0, 1, 2, 2, 2]

    found = ragged.places_of_bytes(
        code_points, splits, tf.constant(offsets), tf.constant(rows)
    )

    assert found.numpy().tolist() == [0, 1, 2, 3, 3, 3, 4, 5]


# Tables over code points.


def test_a_table_gives_every_number_back():
    values = np.zeros(ragged.NUM_CODE_POINTS, np.int32)
    values[[0, 300, 0x4E00, 0x10FFFF]] = 7, 500, 3, 1

    found = PagedTable(values).lookup(
        tf.constant([0, 1, 300, 0x4E00, 0x10FFFF])
    )

    assert found.numpy().tolist() == [7, 0, 500, 3, 1]


def test_values_become_sequences():
    sequences = Sequences([(5,), (), (ragged.ITSELF, 7)])

    found = sequences.apply(
        tf.constant([6, 1, 3, 8]), tf.constant([2, 1, 0, 2])
    )

    assert [values.numpy().tolist() for values in found] == [
        [6, 7, 5, 8, 7],
        [0, 0, 2, 3, 3],
        [1, 2, 0, 1, 2],
    ]


def test_replacements_may_be_long_and_of_any_plane():
    replacements = {"a": "b" * 300, "b": "\U0001d7d8c", "c": " c ", "d": ""}
    table = ReplacementTable({ord(c): t for c, t in replacements.items()})
    text = "abcde\U00010437"

    code_points, sources = table.apply(tf.constant([*map(ord, text)]))

    expected = "".join(replacements.get(c, c) for c in text)
    assert "".join(map(chr, code_points.numpy())) == expected
    assert sources.numpy().tolist() == [
        *([0] * 300),
        *([1] * 2),
        *([2] * 3),
        4,
        5,
    ]
