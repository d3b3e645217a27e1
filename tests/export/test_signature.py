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


def test_inputs_of_the_same_batch_size_are_unchanged():
    found = signature.same_batch(
        a=tf.constant(["x", "y"]), b=tf.constant([["1"], ["2"]])
    )

    assert found[0].numpy().tolist() == [b"x", b"y"]
    assert found[1].numpy().tolist() == [[b"1"], [b"2"]]


def test_inputs_of_other_batch_sizes_are_an_invalid_argument():
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match="a and b must have the same number of strings",
    ):
        signature.same_batch(a=tf.constant(["x", "y"]), b=tf.constant(["1"]))


def test_an_example_decides_shapes_and_requests():
    text, tokens = signature.text_and_token_signatures(
        lambda a, b: {"both": tf.strings.join([a, b[:, 0]])},
        lambda **ids: {"sum": sum(ids.values())},
        example={"a": "x", "b": ["y", "z"]},
        inner_shape=(4,),
    )

    assert (text.name, tokens.name) == ("serving_default", "tokens")
    first, second = text.warmup
    assert text.function(**{n: tf.constant(v) for n, v in first.items()})[
        "both"
    ].numpy().tolist() == [b"xy"]
    assert second["b"].shape == (8, 2)
    first, second = tokens.warmup
    assert first["input_ids"].shape == (1, 4, 32)
    assert second["segment_ids"].sum() == 0


def test_requests_with_another_input():
    _, second = signature.id_requests(positions=range(3))

    assert second["positions"].tolist() == [[0, 1, 2]] * 8
