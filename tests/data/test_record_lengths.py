"""Records of several lengths in one pattern."""

import numpy as np
import pytest

from albert_tf.data import record_files, record_lengths
from tests.data.records import serialize, static_record


@pytest.fixture
def files(write_records, tmp_path):
    """A glob of two files of length 8, and of one of 16 without a sidecar."""
    write_records("a", [static_record(20)])
    write_records("b", [static_record(21)])
    long = static_record(30, max_seq_length=16, num_slots=3)
    write_records("c", [long, long], with_sidecar=False)
    (tmp_path / "empty").touch()
    return str(tmp_path / "*")


def test_each_length_has_the_records_of_its_files(files):
    found = record_lengths.open_records(files, [16, 8], vocab_size=100)

    assert {n: source.num_records for n, source in found.items()} == {
        16: 2,
        8: 2,
    }
    assert found[16].layout.num_prediction_slots == 3
    short = found[8].get(np.array([1]))[0]
    assert record_files.decode_example(short)["input_ids"][1] == 21


def test_one_length_alone_is_that_of_all_files(files):
    with pytest.raises(ValueError, match="`max_seq_length`: .*c' has 16"):
        record_lengths.open_records(files, [8])


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([8, 16, 32], r"No file of .* length 32, .* --max_seq_length=32"),
        ([8, 32], r"c' has records of the length 16, which no phase.* 8, 32"),
    ],
)
def test_lengths_and_files_must_match(lengths, message, files):
    with pytest.raises(ValueError, match=message):
        record_lengths.open_records(files, lengths)


def test_a_file_of_unknown_length_is_refused(files, tmp_path):
    record = {"pair_ids": [5, 6], "segment_a_length": [1]}
    data = record_files.frame_records([serialize(record)])
    (tmp_path / "d").write_bytes(data)

    with pytest.raises(ValueError, match="d' has no sidecar, and its first"):
        record_lengths.open_records(files, [8, 16])
