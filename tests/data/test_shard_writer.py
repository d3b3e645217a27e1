"""What becomes of a shard in a build is tested in test_builder.py."""

import hashlib

import pytest

from albert_tf.data import record_files, record_index, shard_writer, sidecar
from albert_tf.data.pretraining_instances import BlockPart
from albert_tf.data.sidecar import BuildCounts
from tests.data.records import make_sidecar


def parts():
    for number in (2, 1):
        records = [bytes([number])] * number
        yield BlockPart(
            framed=record_files.frame_records(records),
            counts=BuildCounts(records=number),
        )


def test_a_shard_is_its_parts_with_sidecar_and_index(tmp_path):
    path = str(tmp_path / "out")
    planned = make_sidecar(counts=BuildCounts(), num_bytes=0, sha256="")

    counts = shard_writer.write(path, planned, parts())

    assert counts == BuildCounts(records=3)
    content = (tmp_path / "out").read_bytes()
    found = sidecar.read(path)
    assert found.counts == counts and found.num_bytes == len(content)
    assert found.sha256 == hashlib.sha256(content).hexdigest()
    footer = record_index.read_footer(path, len(content), found.sha256)
    assert footer.num_records == 3
    records = record_files.RecordFile(path).verified()
    assert list(records) == [b"\2", b"\2", b"\1"]


def test_a_part_that_fails_leaves_nothing(tmp_path):
    def failing():
        yield from parts()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        shard_writer.write(str(tmp_path / "out"), make_sidecar(), failing())

    assert not list(tmp_path.iterdir())


def test_a_shard_that_was_finished_meanwhile_is_not_written_again(tmp_path):
    path = str(tmp_path / "out")
    shard_writer.write(path, make_sidecar(), parts())

    with pytest.raises(ValueError, match="has built .* in the meantime"):
        shard_writer.write(path, make_sidecar(), parts())
