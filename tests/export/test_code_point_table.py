import numpy as np
import tensorflow as tf

from albert_tf.export import code_point_table
from albert_tf.export.code_point_table import (
    PagedTable,
    ReplacementTable,
    Sequences,
)


def test_a_table_gives_every_number_back():
    values = np.zeros(code_point_table.NUM_CODE_POINTS, np.int32)
    values[[0, 300, 0x4E00, 0x10FFFF]] = 7, 500, 3, 1

    found = PagedTable(values).lookup(
        tf.constant([0, 1, 300, 0x4E00, 0x10FFFF])
    )

    assert found.numpy().tolist() == [7, 0, 500, 3, 1]


def test_numbers_become_sequences():
    found = Sequences([(5,), (), (6, 7)]).apply(tf.constant([2, 1, 0, 2]))

    assert [values.numpy().tolist() for values in found] == [
        [6, 7, 5, 6, 7],
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
