"""Tiny record files, written with TensorFlow's own messages."""

import hashlib

import pytest

from albert_tf.data import record_files, record_index, sidecar
from albert_tf.data.sidecar import BuildCounts
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
        data = record_files.frame_records(serialized)
        (tmp_path / name).write_bytes(data)
        if with_sidecar:
            measured = {
                "counts": BuildCounts(records=len(serialized)),
                "num_bytes": len(data),
                "sha256": hashlib.sha256(data).hexdigest(),
            }
            facts = tiny_records.make_sidecar(**measured | changes)
            sidecar.write(path, facts)
        if with_sidecar and with_index:
            with record_index.index_writer(path) as index:
                index.add(data)
                index.finish(facts.sha256)
        return path

    return write
