import struct

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import features
from albert_tf.data import record_files, record_index

RECORDS = [b"first", b"", b"third record"]


FRAMED = record_files.frame_records(RECORDS)


def test_tensorflow_reads_what_is_written_and_so_do_we(tmp_path):
    path = tmp_path / "a.tf_record"

    path.write_bytes(FRAMED)

    dataset = tf.data.TFRecordDataset(str(path))
    assert list(dataset.as_numpy_iterator()) == RECORDS
    file = record_files.RecordFile(path)
    assert list(file.verified()) == RECORDS
    assert [file.get(number) for number in (2, 0, 1)] == [
        *(b"third record", b"first", b"")
    ]


def _endless():
    """A record that claims to be longer than any file."""
    length = struct.pack("<Q", 2**63)
    checksum = struct.pack("<I", record_index.masked_checksum(length))
    return length + checksum + bytes(20)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        # The frame of the last record begins at 5 + 16 + 16.
        *(
            (FRAMED[:-missing], "a' was cut short.*byte 37")
            for missing in (1, 4, 17, 20)
        ),
        (_endless(), "a' was cut short.*byte 0"),
        (b"It was a dark and stormy night.\n", "a' is not a TFRecord file"),
        (b"It", "not a TFRecord file"),
        # The length of the second record.
        (FRAMED[:21] + b"\xff" + FRAMED[22:], "a' is damaged.*byte 21"),
        (bytes(32), "not a TFRecord file"),
        (FRAMED.replace(b"third", b"thirs"), "damaged.*record 2, at byte 37"),
    ],
)
def test_other_content_is_an_error_that_names_the_byte(
    tmp_path, content, message
):
    path = tmp_path / "a"
    path.write_bytes(content)

    with pytest.raises(ValueError, match=message):
        list(record_files.RecordFile(path).verified())


def test_an_empty_file_has_no_records_and_a_missing_one_is_an_error(tmp_path):
    path = tmp_path / "a.tf_record"
    with pytest.raises(FileNotFoundError, match="no record file"):
        record_files.RecordFile(path)
    path.touch()

    assert len(record_files.RecordFile(path)) == 0


def int_feature(name, length):
    return features.Feature(name=name, record_name=f"r_{name}", length=length)


IDS = int_feature("ids", None)
WEIGHTS = features.Feature(
    name="weights", record_name="weights", length=2, dtype="float32"
)


@pytest.mark.parametrize("largest", [1, 127, 128, 16383, 16384, 2**35, 2**62])
def test_tensorflow_parses_integers_of_every_size(largest):
    ids = np.array([[0, 1, largest], [largest, 0, largest // 2]], np.int64)

    encoded = record_files.encode_examples([IDS], {"ids": ids})

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
    columns["masked_lm_weights"] += 0.5

    encoded = record_files.encode_examples(wanted, columns)

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
    ragged = record_files.Ragged(
        np.array([300, 2, 5, 70000, 1], np.int32), np.array([0, 2, 2, 5])
    )

    encoded = record_files.encode_examples([IDS], {"ids": ragged})

    decoded = [record_files.decode_example(data) for data in encoded]
    assert [fields["r_ids"].tolist() for fields in decoded] == rows


def test_what_tensorflow_wrote_is_decoded():
    example = tf.train.Example()
    example.features.feature["a"].int64_list.value.extend([-1, 5, 2**62])
    example.features.feature["b"].float_list.value.extend([0.5])
    example.features.feature["c"].SetInParent()

    decoded = record_files.decode_example(example.SerializeToString())

    assert decoded["a"].tolist() == [-1, 5, 2**62]
    assert decoded["b"].tolist() == [0.5]
    assert decoded["c"].tolist() == []


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

    assert record_files.decode_example(data)["a"].tolist() == values
    found = tf.train.Example.FromString(data).features.feature["a"]
    assert [*found.int64_list.value, *found.float_list.value] == values


def test_a_negative_integer_is_refused():
    with pytest.raises(ValueError, match="`ids` must not be negative.*-3"):
        record_files.encode_examples([IDS], {"ids": np.array([[4, -3]])})


def _text_field():
    example = tf.train.Example()
    example.features.feature["a"].bytes_list.value.extend([b"text"])
    return example.SerializeToString()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        *(
            (data, "not a serialized tf.train.Example")
            for data in (
                *(b"plain text", b"\x0a\x20\x0a"),
                *(b"\x0a", b"\x0a\x02\x0a\x00"),
            )
        ),
        (_text_field(), "a field holds text"),
        (
            _message(1, _message(1, _message(1, b"a") + _field(2, 0, _ONE))),
            "field 2 has an unexpected type",
        ),
        (_message(1, _field(1, 3, b"")), "unexpected tag 11"),
        (
            _message(
                1,
                _message(
                    1,
                    _message(1, b"a")
                    + _message(2, _message(3, _field(1, 0, b"\xac"))),
                ),
            ),
            "not a serialized",
        ),
    ],
)
def test_other_bytes_are_refused(data, message):
    with pytest.raises(ValueError, match=message):
        record_files.decode_example(data)
