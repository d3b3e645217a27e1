import numpy as np
import pytest
import tensorflow as tf

from albert_tf import features
from albert_tf.data import example_codec

IDS = features.Feature("ids", None)
WEIGHTS = features.Feature("weights", 2, dtype="float32")


def test_tensorflow_parses_integers_of_every_size():
    sizes = [1, 127, 128, 16383, 16384, 2**35, 2**62]
    for largest in sizes:
        ids = np.array([[0, 1, largest], [largest, 0, largest // 2]], np.int64)

        encoded = example_codec.encode_examples([IDS], {"ids": ids})

        layout = {"ids": tf.io.FixedLenFeature([3], tf.int64)}
        parsed = tf.io.parse_example(encoded, layout)
        np.testing.assert_array_equal(parsed["ids"], ids)


def test_rows_of_different_lengths_come_back():
    rows = [[300, 2], [], [5, 70000, 1]]
    ragged = example_codec.Ragged(
        np.array([300, 2, 5, 70000, 1], np.int32), np.array([0, 2, 2, 5])
    )

    encoded = example_codec.encode_examples([IDS], {"ids": ragged})

    decoded = [example_codec.decode_example(data) for data in encoded]
    assert [fields["ids"].tolist() for fields in decoded] == rows


def _field(number, wire_type, value):
    return bytes([number << 3 | wire_type]) + value


def _message(number, value):
    return _field(number, 2, bytes([len(value)]) + value)


_ONE, _MANY = b"\x01", b"\xac\x02"  # 1 and 300 as variable-length integers


@pytest.mark.parametrize(
    ("feature", "values"),
    [
        (_message(3, _field(1, 0, _MANY) + _field(1, 0, _ONE)), [300, 1]),
        (
            _message(3, _field(1, 0, _ONE) + _message(1, _MANY + _ONE)),
            [1, 300, 1],
        ),
        (_message(3, b""), []),
        (_message(2, _field(1, 5, b"\0\0\x80?") * 2), [1.0, 1.0]),
        # A later version may add fields.
        (_field(9, 0, _ONE) + _field(8, 1, bytes(8)) + _message(3, b""), []),
    ],
)
def test_lists_that_are_not_packed_are_decoded_as_protocol_buffers_are(
    feature, values
):
    entry = _message(1, b"a") + _message(2, feature)
    data = _message(1, _message(1, entry))

    assert example_codec.decode_example(data)["a"].tolist() == values
    found = tf.train.Example.FromString(data).features.feature["a"]
    assert [*found.int64_list.value, *found.float_list.value] == values


@pytest.mark.parametrize(
    "data",
    [
        *(b"\x0a\x20\x0a", b"\x0a", b"\x0a\x02\x0a\x00"),
        _message(1, _field(1, 3, b"")),
    ],
)
def test_other_bytes_are_refused(data):
    with pytest.raises(ValueError, match="not a serialized tf.train.Example"):
        example_codec.decode_example(data)
