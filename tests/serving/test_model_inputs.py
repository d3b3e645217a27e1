import numpy as np
import pytest
import tensorflow as tf

from albert_tf.serving import model_inputs
from albert_tf.text import base

TEXTS = ["", "a", "Where did the old man sit?", "By the river, " * 5]


@pytest.mark.parametrize("max_seq_length", [5, 6, 9, 32, 100])
def test_pairs_are_those_of_python(max_seq_length, tiny):
    firsts = [text for text in TEXTS for _ in TEXTS]
    seconds = TEXTS * len(TEXTS)

    found = model_inputs.encode_pairs(
        tf.constant(firsts),
        tf.constant(seconds),
        tiny.graph,
        max_seq_length=max_seq_length,
    )

    expected = tiny.tokenizer.batch(
        firsts, seconds, max_seq_length=max_seq_length
    )
    length = expected["input_mask"].sum(axis=1).max()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values[:, :length])


def test_no_texts(tiny):
    none = tf.constant([], tf.string)

    found = model_inputs.encode_pairs(none, none, tiny.graph, max_seq_length=9)

    assert found["input_ids"].shape[0] == 0


@pytest.mark.parametrize("max_seq_length", range(5, 14))
def test_the_longer_text_loses_tokens_first(max_seq_length):
    sizes = np.array([(a, b) for a in range(12) for b in range(1, 12)])

    found = model_inputs.truncated_sizes(
        tf.constant(sizes[:, 0], tf.int32),
        tf.constant(sizes[:, 1], tf.int32),
        max_seq_length,
    )

    expected = [
        base.truncated_lengths(a, b, max_seq_length - 3)
        for a, b in sizes.tolist()
    ]
    assert list(map(tuple, np.stack(found, 1).tolist())) == expected
