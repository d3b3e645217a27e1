import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text as tf_text

from albert_tf.serving import signature


def call_python(x):
    return tf.numpy_function(np.sin, [x], tf.float32)


def split_text(x):
    words = tf_text.WhitespaceTokenizer().split(tf.strings.as_string(x))
    return tf.strings.to_number(words.values)


@tf.function(autograph=False)
def call_a_function(x):
    return tf.cond(tf.reduce_any(x > 0), lambda: split_text(x), lambda: x)


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
    spec = tf.TensorSpec([None], tf.float32, name="x")
    module = tf.Module()
    found = signature.Signature(
        name="tokens",
        compute=lambda x: {"y": function(x)},
        inputs={"x": spec},
        warmup=(),
    ).function
    tf.saved_model.save(module, str(tmp_path), signatures={"tokens": found})

    with pytest.raises(ValueError, match=f"contains .*({operation}).*, which"):
        signature.check_operations(str(tmp_path))
