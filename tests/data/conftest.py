"""Tiny record files, written with TensorFlow's own messages."""

import dataclasses
import hashlib

import pytest

from albert_tf.data import record_files, shard_building
from albert_tf.data.shards import BuildCounts
from tests.data import records as tiny_records


@pytest.fixture
def write_records(tmp_path):
    """A function that writes a record file, its sidecar and index if asked.

    Its arguments: file name, records (values by record name), `with_sidecar`,
    `with_index`, and changes of the sidecar. It returns the path.
    """

    def write(name, records, *, with_sidecar=True, with_index=True, **changes):
        path = str(tmp_path / name)
        serialized = list(map(tiny_records.serialize, records))
        framed = record_files.frame_records(serialized)
        digest = hashlib.sha256(framed)
        measured = {
            "counts": BuildCounts(records=len(serialized)),
            "sha256": digest.hexdigest(),
            "num_bytes": len(framed),
        }
        (tmp_path / name).write_bytes(framed)
        if with_sidecar:
            shard = tiny_records.make_shard(**measured | changes)
            shard_building.write_sidecar(dataclasses.replace(shard, path=path))
        if with_sidecar and with_index:
            entries, size = record_files.index_entries(framed)
            end = record_files.index_end(len(serialized), size, digest.digest())
            (tmp_path / f"{name}.index").write_bytes(entries + end)
        return path

    return write
