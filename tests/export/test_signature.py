import tensorflow as tf

from albert_tf.export import signature


def test_inputs_keep_their_names():
    found = signature.trace(
        lambda texts, ids: {"both": tf.size(texts) + tf.size(ids)},
        texts=signature.strings(None),
        ids=signature.integers(None, None),
    )

    specs = {
        name: parameter.type_constraint
        for name, parameter in found.function_type.parameters.items()
    }
    assert {name: (s.dtype, s.shape.rank) for name, s in specs.items()} == {
        "texts": (tf.string, 1),
        "ids": (tf.int32, 2),
    }
    assert (
        found(texts=tf.constant(["a"]), ids=tf.zeros((2, 3), tf.int32))["both"]
        == 7
    )
