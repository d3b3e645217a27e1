import pytest
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


def test_inputs_of_the_same_size_are_as_they_are():
    found = signature.same_size(
        a=tf.constant(["x", "y"]), b=tf.constant([["1"], ["2"]])
    )

    assert found[0].numpy().tolist() == [b"x", b"y"]
    assert found[1].numpy().tolist() == [[b"1"], [b"2"]]


def test_inputs_of_other_sizes_are_an_invalid_argument():
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="a and b must have as many"
    ):
        signature.same_size(a=tf.constant(["x", "y"]), b=tf.constant(["1"]))


def test_requests_of_texts():
    first, second = signature.text_requests(a="x", b=["y", "z"])

    assert first["a"].tolist() == ["x"]
    assert second["b"].shape == (8, 2)


def test_requests_of_ids():
    first, second = signature.id_requests(4, positions=range(3))

    assert first["input_ids"].shape == (1, 4, 32)
    assert second["segment_ids"].sum() == 0
    assert second["positions"].tolist() == [[0, 1, 2]] * 8
