import numpy as np
import pytest
import tensorflow as tf

from albert_tf.serving import model_inputs

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
