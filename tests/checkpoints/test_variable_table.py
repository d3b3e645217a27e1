import collections

import pytest

from albert_tf.checkpoints import variable_table


@pytest.mark.parametrize("column", ["ours", "tf1", "huggingface", "keras_hub"])
def test_no_two_rows_share_a_name_in_any_column(column):
    names = [getattr(row, column) for row in variable_table.TABLE]
    counts = collections.Counter(filter(None, names))

    assert set(counts.values()) == {1}


def test_every_variable_of_the_encoder_is_in_every_format():
    for row in variable_table.TABLE:
        if row.tf1.startswith("bert/"):
            assert row.ours and row.huggingface and row.keras_hub
