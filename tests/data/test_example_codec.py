import numpy as np
import pytest
import tensorflow as tf

from albert_tf import features
from albert_tf.data import example_codec


def int_feature(name, length):
    return features.Feature(name=name, record_name=f"r_{name}", length=length)


IDS = int_feature("ids", None)
WEIGHTS = features.Feature(
    name="weights", record_name="weights", length=2, dtype="float32"
)


@pytest.mark.parametrize("largest", [1, 127, 128, 16383, 16384, 2**35, 2**62])
def test_tensorflow_parses_integers_of_every_size(largest):
    ids = np.array([[0, 1, largest], [largest, 0, largest // 2]], np.int64)

    encoded = example_codec.encode_examples([IDS], {"ids": ids})

    layout = {"r_ids": tf.io.FixedLenFeature([3], tf.int64)}
    parsed = tf.io.parse_example(encoded, layout)
    np.testing.assert_array_equal(parsed["r_ids"], ids)


def test_tensorflow_parses_all_fields_of_a_static_record():
    rng = np.random.default_rng(0)
    wanted = features.static_pretraining_features(
        max_seq_length=12, max_predictions=5
    )
    columns = {
        f.name: rng.integers(0, 30000, (7, f.length)).astype(f.dtype)
        for f in wanted
    }

    encoded = example_codec.encode_examples(wanted, columns)

    layout = {
        f.record_name: tf.io.FixedLenFeature([f.length], f.dtype)
        for f in wanted
    }
    parsed = tf.io.parse_example(encoded, layout)
    for feature in wanted:
        np.testing.assert_array_equal(
            parsed[feature.record_name], columns[feature.name]
        )


def test_rows_of_different_lengths_come_back():
    rows = [[300, 2], [], [5, 70000, 1]]
    ragged = example_codec.Ragged(
        np.array([300, 2, 5, 70000, 1], np.int32), np.array([0, 2, 2, 5])
    )

    encoded = example_codec.encode_examples([IDS], {"ids": ragged})

    decoded = [example_codec.decode_example(data) for data in encoded]
    assert [fields["r_ids"].tolist() for fields in decoded] == rows


def test_floats_and_integers_come_back_under_their_record_names():
    columns = {
        "ids": np.array([[1, 2, 300]], np.int32),
        "weights": np.array([[1.0, 0.1]], np.float32),
    }

    (data,) = example_codec.encode_examples([IDS, WEIGHTS], columns)
    decoded = example_codec.decode_example(data)

    assert list(decoded) == ["r_ids", "weights"]
    np.testing.assert_array_equal(decoded["r_ids"], columns["ids"][0])
    np.testing.assert_array_equal(decoded["weights"], columns["weights"][0])


def test_flags_may_be_given_as_booleans():
    column = np.array([[True, False]])

    (data,) = example_codec.encode_examples([IDS], {"ids": column})

    assert example_codec.decode_example(data)["r_ids"].tolist() == [1, 0]


def test_what_tensorflow_wrote_is_decoded():
    example = tf.train.Example()
    example.features.feature["a"].int64_list.value.extend([-1, 5, 2**62])
    example.features.feature["b"].float_list.value.extend([0.5])
    example.features.feature["c"].SetInParent()

    decoded = example_codec.decode_example(example.SerializeToString())

    assert decoded["a"].tolist() == [-1, 5, 2**62]
    assert decoded["b"].tolist() == [0.5]
    assert decoded["c"].tolist() == []


def test_a_negative_integer_is_refused():
    with pytest.raises(ValueError, match="`ids` must not be negative.*-3"):
        example_codec.encode_examples([IDS], {"ids": np.array([[4, -3]])})


@pytest.mark.parametrize(
    "data", [b"plain text", b"\x0a\x20\x0a", b"\x0a", b"\x0a\x02\x0a\x00"]
)
def test_other_bytes_are_refused(data):
    with pytest.raises(ValueError, match=r"Not a serialized tf.train.Example"):
        example_codec.decode_example(data)


def test_text_in_a_field_is_refused():
    example = tf.train.Example()
    example.features.feature["a"].bytes_list.value.extend([b"text"])

    with pytest.raises(ValueError, match="a field holds text"):
        example_codec.decode_example(example.SerializeToString())
