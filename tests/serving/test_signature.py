import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text as tf_text

from albert_tf.serving import signature


def call_python(x):
    return tf.numpy_function(np.flip, [x], tf.string)


def split_text(x):
    return tf_text.WhitespaceTokenizer().split(x).values


@tf.function(autograph=False)
def call_a_function(x):
    return tf.cond(tf.reduce_any(x != ""), lambda: split_text(x), lambda: x)


@pytest.mark.parametrize(
    ("function", "operation"),
    [
        (call_python, "EagerPyFunc|PyFunc"),
        (call_a_function, "WhitespaceTokenizeWithOffsetsV2"),
        (split_text, "WhitespaceTokenizeWithOffsetsV2"),
    ],
)
def test_an_operation_that_tf_serving_may_not_know(
    function, operation, tmp_path
):
    module = tf.Module()
    found = signature.Signature(
        name="tokens",
        compute=lambda x: {"y": function(x)},
        row={"x": np.array("a text", object)},
    ).function
    tf.saved_model.save(module, str(tmp_path), signatures={"tokens": found})

    with pytest.raises(ValueError, match=f"contains .*({operation}).*, which"):
        signature.check_operations(str(tmp_path))
