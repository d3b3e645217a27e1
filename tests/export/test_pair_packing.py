import numpy as np
import pytest
import tensorflow as tf

from albert_tf.export import pair_packing
from albert_tf.export.exported_text import Tokens
from albert_tf.text.special_tokens import SpecialIds

SPECIAL = SpecialIds(pad=0, unk=1, cls=2, sep=3, mask=4)


def pack(texts_a, texts_b, max_seq_length):
    rows = [*texts_a, *texts_b]
    tokens = Tokens(
        ids=tf.constant([i for row in rows for i in row], tf.int32),
        row_ids=tf.repeat(
            tf.range(len(rows)), tf.constant([*map(len, rows)], tf.int32)
        ),
        num_rows=tf.constant(len(rows)),
    )
    packed = pair_packing.pack_pairs(
        tokens, max_seq_length=max_seq_length, special=SPECIAL
    )
    return {name: values.numpy().tolist() for name, values in packed.items()}


def test_a_pair_and_a_single_text():
    packed = pack([[7, 8], [9]], [[5], []], 16)

    assert packed == {
        "input_ids": [[2, 7, 8, 3, 5, 3], [2, 9, 3, 0, 0, 0]],
        "input_mask": [[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]],
        "segment_ids": [[0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0]],
    }


@pytest.mark.parametrize(
    ("texts_a", "texts_b", "max_seq_length", "input_ids"),
    [
        ([[], []], [[], [6]], 16, [[2, 3, 0, 0], [2, 3, 6, 3]]),
        ([], [], 8, []),
        ([[7, 8, 9, 10]], [[]], 5, [[2, 7, 8, 9, 3]]),
    ],
)
def test_empty_and_long_texts(texts_a, texts_b, max_seq_length, input_ids):
    assert pack(texts_a, texts_b, max_seq_length)["input_ids"] == input_ids


@pytest.mark.parametrize("max_seq_length", range(5, 14))
def test_the_longer_text_loses_tokens_first(max_seq_length):
    sizes = np.array([(a, b) for a in range(12) for b in range(1, 12)])

    found = pair_packing.truncated_sizes(
        tf.constant(sizes[:, 0], tf.int32),
        tf.constant(sizes[:, 1], tf.int32),
        max_seq_length,
    )

    expected = [pop_longest(a, b, max_seq_length - 3) for a, b in sizes]
    assert np.stack(found, 1).tolist() == expected


def pop_longest(size_a, size_b, room):
    """The loop of the original."""
    while size_a + size_b > room:
        if size_a > size_b:
            size_a -= 1
        else:
            size_b -= 1
    return [int(size_a), int(size_b)]
