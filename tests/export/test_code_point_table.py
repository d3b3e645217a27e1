import numpy as np
import tensorflow as tf

from albert_tf.export import code_point_table
from albert_tf.export.code_point_table import PagedTable, ReplacementTable


def test_a_table_gives_every_number_back():
    values = np.zeros(code_point_table.NUM_CODE_POINTS, np.int32)
    values[[0, 300, 0x4E00, 0x10FFFF]] = 7, -5, 3, 1

    found = PagedTable(values).lookup(
        tf.constant([0, 1, 300, 0x4E00, 0x10FFFF])
    )

    assert found.numpy().tolist() == [7, 0, -5, 3, 1]


def test_replacements_grow_shrink_stay_and_are_spaced():
    table = ReplacementTable({ord("½"): "1⁄2", ord("x"): "", ord("!"): " ! "})

    code_points, sources = table.apply(tf.constant([*map(ord, "ax½!x")]))

    assert "".join(map(chr, code_points.numpy())) == "a1⁄2 ! "
    assert sources.numpy().tolist() == [0, 2, 2, 2, 3, 3, 3]


def test_a_table_without_replacements():
    code_points, _ = ReplacementTable({}).apply(tf.constant([5, 0x10FFFF]))

    assert code_points.numpy().tolist() == [5, 0x10FFFF]


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
