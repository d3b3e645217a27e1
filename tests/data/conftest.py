"""Tiny record files, written with TensorFlow's own messages."""

import dataclasses
import io

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
        file, index = io.BytesIO(), io.BytesIO()
        writer = record_files.RecordWriter(file, index)
        writer.write(record_files.frame_records(serialized))
        measured = {
            "counts": BuildCounts(records=len(serialized)),
            "sha256": writer.finish(),
            "num_bytes": writer.num_bytes,
        }
        (tmp_path / name).write_bytes(file.getvalue())
        if with_sidecar:
            shard = tiny_records.make_shard(**measured | changes)
            shard_building.write_sidecar(dataclasses.replace(shard, path=path))
        if with_sidecar and with_index:
            (tmp_path / f"{name}.index").write_bytes(index.getvalue())
        return path

    return write
