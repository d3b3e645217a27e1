"""Several hosts, each a process: together they read what one would read."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest

from albert_tf.data.example_order import InputShard
from tests.data import hosts
from tests.data.records import dynamic_record

ROOT = pathlib.Path(__file__).resolve().parents[2]
NUM_HOSTS = 4


@pytest.fixture
def pattern(write_records, tmp_path):
    for name in "abcdefg":
        records = [dynamic_record(5 + ord(name) % 7 * 9 + n) for n in range(9)]
        write_records(f"{name}.tfrecord", records, masking="dynamic", ngram=1)
    return str(tmp_path / "*.tfrecord")


@pytest.mark.slow
def test_hosts_read_together_what_one_reads(pattern, tmp_path):
    outputs = [str(tmp_path / f"{host}.npz") for host in range(NUM_HOSTS)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.data.hosts", pattern]
            + [str(NUM_HOSTS), str(host), output],
            cwd=ROOT,
        )
        for host, output in enumerate(outputs)
    ]
    alone = InputShard(replicas_per_shard=NUM_HOSTS * hosts.REPLICAS_PER_HOST)
    expected = hosts.read(pattern, alone)
    assert [process.wait() for process in processes] == [0] * NUM_HOSTS

    found = [dict(np.load(output)) for output in outputs]
    joined = {
        name: np.concatenate([own[name] for own in found], axis=1)
        for name in found[0]
    }

    assert joined.keys() == expected.keys()
    for name, values in joined.items():
        # The order by files depends on the number of hosts.
        if not name.startswith("files from"):
            np.testing.assert_array_equal(values, expected[name])
        if "from 0" in name:
            later = joined[name.replace("from 0", f"from {hosts.RESUMED_AT}")]
            np.testing.assert_array_equal(values[hosts.RESUMED_AT :], later)
    evaluated = {n: v for n, v in joined.items() if "records ev" in n}
    for name, values in evaluated.items():
        other = joined[name.replace("records", "files")]
        np.testing.assert_array_equal(values, other)
