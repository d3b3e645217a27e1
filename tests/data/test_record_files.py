"""Local files, and remote ones: `file://` stands for `gs://`."""

import hashlib
import os
import resource
import struct

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import input_pipeline, record_files, record_source, shards
from albert_tf.data.example_order import InputShard
from tests.data.records import assert_equal, dynamic_record

RECORDS = [b"first", b"", b"third record"]
FRAMED = record_files.frame_records(RECORDS)


@pytest.fixture
def write(tmp_path):
    """A function that writes records and their index; returns path, sha256."""

    def run(name="a", records=RECORDS):
        content = entries = b""
        for record in records:
            framed = record_files.frame_records([record])
            entries += record_files.index_entries(framed, len(content))[0]
            content += framed
        digest = hashlib.sha256(content)
        size = len(content)
        end = record_files.index_end(len(records), size, digest.digest())
        (tmp_path / name).write_bytes(content)
        (tmp_path / f"{name}.index").write_bytes(entries + end)
        return str(tmp_path / name), digest.hexdigest()

    return run


def read(path, sha256=None):
    file = record_files.RecordFile(path, sha256=sha256)
    return [file.get(number) for number in range(len(file))]


def test_tensorflow_reads_what_is_written_and_so_do_we(write, monkeypatch):
    path, sha256 = write()

    dataset = tf.data.TFRecordDataset(path)
    assert list(dataset.as_numpy_iterator()) == RECORDS
    assert read(path) == RECORDS
    monkeypatch.setattr(record_files, "_scan", None)  # It is not read.
    assert read(path, sha256) == RECORDS
    for count in (0, 1):
        assert read(*write("b", RECORDS[:count])) == RECORDS[:count]


def _endless():
    """A record that claims to be longer than any file."""
    length = struct.pack("<Q", 2**63)
    checksum = struct.pack("<I", record_files.masked_checksum(length))
    return length + checksum + bytes(20)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        # The frame of the last record begins at 5 + 16 + 16.
        (FRAMED[:-1], "a' is not a whole TFRecord file.* byte 37 of"),
        (FRAMED[:-20], "byte 37 of"),
        (_endless(), "byte 0 of"),
        (b"It was a dark and stormy night.\n", "byte 0 of"),
        (b"It", "byte 0 of"),
        (bytes(32), "byte 0 of"),
        # The length of the second record.
        (FRAMED[:21] + b"\xff" + FRAMED[22:], "byte 21 of"),
        (FRAMED.replace(b"third", b"thirs"), "damaged.*record 2, at byte 37"),
    ],
)
def test_other_content_is_an_error_that_names_the_byte(
    tmp_path, content, message
):
    path = tmp_path / "a"
    path.write_bytes(content)

    with pytest.raises(ValueError, match=message):
        read(path)


def _of_another_file(path):
    other = record_files.frame_records([b"thirty", b"", b"third recor"])
    with open(path, "wb") as file:
        file.write(other)
    return hashlib.sha256(other).hexdigest()


@pytest.mark.parametrize(
    "change",
    [
        lambda path: os.remove(f"{path}.index"),
        lambda path: os.truncate(f"{path}.index", 60),
        lambda path: os.truncate(f"{path}.index", 0),
        _of_another_file,
    ],
)
def test_an_index_that_does_not_fit_is_not_used(write, change):
    path, sha256 = write()
    sha256 = change(path) or sha256

    assert len(read(path, sha256)) == 3
    assert read(path, sha256) == read(path)


@pytest.mark.parametrize("has_index", [True, False])
def test_a_changed_record_is_an_error_that_names_file_and_record(
    write, has_index
):
    path, sha256 = write()
    records = record_files.RecordFile(
        path, sha256=sha256 if has_index else None
    )
    assert records.get(0) == b"first"
    with open(path, "r+b") as file:
        file.write(FRAMED.replace(b"record", b"recorb"))

    assert records.get(0) == b"first"
    with pytest.raises(ValueError, match="a' is damaged.*record 2, at byte 37"):
        records.get(2)
    os.truncate(path, 20)
    with pytest.raises(ValueError, match="a' was cut short after"):
        records.get(0)


def test_a_file_that_takes_the_name_is_not_read_for_the_one_that_was_opened(
    write,
):
    path, sha256 = write()
    records = record_files.RecordFile(path, sha256=sha256)
    write("b", [b"other", b"", b"third record"])
    os.replace(f"{path[:-1]}b", path)
    os.replace(f"{path[:-1]}b.index", f"{path}.index")

    with pytest.raises(ValueError, match="a.index' was changed after"):
        records.get(0)


def test_an_index_that_is_damaged_gives_no_wrong_record(write):
    path, sha256 = write()
    with open(f"{path}.index", "rb") as file:
        content = bytearray(file.read())
    for place in range(3 * record_files.ENTRY.size):
        damaged = content.copy()
        damaged[place] ^= 1
        with open(f"{path}.index.new", "wb") as file:
            file.write(damaged)
        os.replace(f"{path}.index.new", f"{path}.index")
        # Another file for the system, so that nothing is left open.
        os.utime(path, ns=(place, place))
        records = record_files.RecordFile(path, sha256=sha256)

        number = place // record_files.ENTRY.size
        with pytest.raises(ValueError, match=f"record {number}, at byte"):
            records.get(number)


@pytest.fixture
def few_descriptors():
    """Lets the process open 300 more files."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    in_use = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (in_use + 300, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_more_files_are_read_than_may_be_open(write, few_descriptors):
    written = [write(f"f{n}", [b"%d" % n, b"x"]) for n in range(350)]

    opened = [record_files.RecordFile(path, sha256=s) for path, s in written]

    order = np.random.default_rng(0).permutation(700)
    for number in order % 350:
        assert opened[number].get(0) == b"%d" % number


_COUNTS = (4, 3, 6)


@pytest.fixture
def local(write_records, tmp_path):
    for name, count in zip("abc", _COUNTS, strict=True):
        records = [dynamic_record(5 + number) for number in range(count)]
        write_records(f"{name}.tfrecord", records, masking="dynamic", ngram=1)
    return tmp_path


@pytest.fixture
def remote(local):
    """The remote name of the folder."""
    return f"file://{local}"


def test_remote_records_are_those_of_local_files(local, remote):
    here = record_source.open_records(str(local / "*"), verify=True)
    there = record_source.open_records(f"{remote}/*", verify=True)

    assert there.num_records == here.num_records == sum(_COUNTS)
    assert there.fingerprint == here.fingerprint
    assert there.shard.config == here.shard.config
    numbers = np.arange(sum(_COUNTS))[::-1]
    assert there.get(numbers) == here.get(numbers)


def test_remote_batches_are_those_of_local_files(local, remote):
    def read_batches(folder):
        dataset = input_pipeline.training_dataset(
            record_source.open_records(f"{folder}/*.tfrecord"),
            InputShard(),
            global_batch_size=4,
            seed=1,
            start_example=8,
            by_files=True,
        )
        return list(dataset.take(9).as_numpy_iterator())

    assert_equal(read_batches(local), read_batches(remote))


@pytest.mark.parametrize(
    ("name", "change", "error", "message"),
    [
        ("a.tfrecord", lambda data: data[:-1], ValueError, "its sidecar says"),
        (
            "a.tfrecord",
            lambda data: data[:20] + b"?" + data[21:],
            ValueError,
            "is damaged, .*: record 0",
        ),
        ("a.tfrecord.json", None, FileNotFoundError, "json' cannot be"),
        ("a.tfrecord.index", None, FileNotFoundError, "index' cannot be"),
    ],
)
def test_what_is_wrong_with_a_remote_file_is_told(
    name, change, error, message, local, remote
):
    data = (local / name).read_bytes()
    (local / name).unlink()
    if change:
        (local / name).write_bytes(change(data))

    with pytest.raises(error, match=message):
        record_source.open_records(f"{remote}/*.tfrecord")


def test_a_remote_file_of_other_content_is_found(local, remote):
    sidecar = local / "a.tfrecord.json"
    sha256 = shards.read(f"{remote}/a.tfrecord").sha256
    sidecar.write_text(sidecar.read_text().replace(sha256, sha256[::-1]))

    with pytest.raises(ValueError, match=f"its .*, expected {sha256[::-1]}"):
        record_source.open_records(f"{remote}/*.tfrecord", verify=True)
