"""Remote record files; those of `ram://` stand for those of `gs://`."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import (
    example_order,
    input_pipeline,
    record_lengths,
    record_source,
    remote_files,
    sidecar,
)
from albert_tf.data.example_order import InputShard
from tests.data.records import dynamic_record

_COUNTS = (4, 3, 6)
_NUMBERS = itertools.count()


@pytest.fixture
def local(write_records, tmp_path):
    for name, count in zip("abc", _COUNTS, strict=True):
        records = [dynamic_record(5 + number) for number in range(count)]
        write_records(f"{name}.tfrecord", records, masking="dynamic", ngram=1)
    return tmp_path


@pytest.fixture
def remote(local):
    """The folder of a copy of the records."""
    folder = f"ram://{next(_NUMBERS)}"
    for path in local.iterdir():
        write(f"{folder}/{path.name}", path.read_bytes())
    return folder


def write(path, data):
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(data)


def content(folder, name="a.tfrecord"):
    return remote_files.read(f"{folder}/{name}")


def test_remote_records_are_those_of_local_files(local, remote):
    here = record_source.open_records(str(local / "*"), verify=True)
    there = record_source.open_records(f"{remote}/*", verify=True)

    assert there.num_records == here.num_records == sum(_COUNTS)
    assert there.fingerprint == here.fingerprint
    assert there.layout == here.layout
    numbers = np.arange(sum(_COUNTS))[::-1]
    assert there.get(numbers) == here.get(numbers)
    assert there.sample() == here.sample()


@pytest.mark.parametrize("is_training", [True, False])
def test_remote_batches_are_those_of_local_files(is_training, local, remote):
    def read(folder):
        source = record_source.open_records(f"{folder}/*.tfrecord")
        if is_training:
            dataset = input_pipeline.training_dataset(
                source,
                InputShard(),
                global_batch_size=4,
                seed=1,
                start_example=8,
                by_files=True,
            ).take(9)
        else:
            dataset = input_pipeline.evaluation_dataset(
                source, InputShard(), batch_size=4, by_files=True
            )
        return list(dataset.as_numpy_iterator())

    here, there = read(local), read(remote)

    assert len(here) == (9 if is_training else 4)
    for one, other in zip(here, there, strict=True):
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])


def test_remote_and_local_files_may_be_mixed(local, remote):
    patterns = f"{local}/b.tfrecord,{remote}/[ac].tfrecord"

    found = record_lengths.open_records(patterns, [8])[8]

    assert found.files.paths == [
        f"{local}/b.tfrecord",
        f"{remote}/a.tfrecord",
        f"{remote}/c.tfrecord",
    ]
    assert found.files.first_numbers == [0, 3, 7]


def test_numbered_shards_have_a_common_name(write_records, tmp_path):
    folder = f"ram://{next(_NUMBERS)}"
    for i in range(2):
        write_records(
            f"train-0000{i}-of-00002",
            [dynamic_record(9 + i)],
            masking="dynamic",
        )
    for path in tmp_path.iterdir():
        write(f"{folder}/{path.name}", path.read_bytes())

    found = record_source.open_records(f"{folder}/train@2")

    assert found.num_records == 2
    with pytest.raises(FileNotFoundError, match="train-00000-of-00003"):
        record_source.open_records(f"{folder}/train@3")


def test_local_patterns_are_those_of_files(local):
    assert remote_files.expand_globs(f"{local}/a*,{local}/./a.tfrecord") == [
        f"{local}/a.tfrecord{end}" for end in ("", ".index", ".json")
    ]


@pytest.mark.parametrize(
    ("name", "change", "error", "message"),
    [
        ("a.tfrecord", lambda data: data[:-1], ValueError, "was cut short"),
        (
            "a.tfrecord",
            lambda data: data[:20] + b"?" + data[21:],
            ValueError,
            "is damaged, or is not the file that its index describes: record 0",
        ),
        (
            "a.tfrecord.json",
            lambda data: data[:-9],
            ValueError,
            "a.tfrecord.json' is not a sidecar .* Copy it again",
        ),
        (
            "a.tfrecord.json",
            None,
            FileNotFoundError,
            "together with their side",
        ),
        (
            "a.tfrecord.index",
            None,
            FileNotFoundError,
            "no file .*.index'. Check",
        ),
    ],
)
def test_what_is_wrong_with_a_remote_file_is_told(
    name, change, error, message, remote
):
    path = f"{remote}/{name}"
    data = remote_files.read(path)
    tf.io.gfile.remove(path)
    if change:
        write(path, change(data))

    with pytest.raises(error, match=message):
        record_source.open_records(f"{remote}/*.tfrecord")


def test_a_remote_file_of_other_content_is_found(remote):
    path = f"{remote}/a.tfrecord"
    facts = sidecar.read(path)
    other = facts.sha256[::-1]
    text = content(remote, "a.tfrecord.json").replace(
        facts.sha256.encode(), other.encode()
    )
    # What is written to a file in memory is added to it.
    tf.io.gfile.remove(f"{path}.json")
    write(f"{path}.json", text)

    with pytest.raises(
        ValueError, match=f"describes: its .*, expected {other}"
    ):
        record_source.open_records(f"{remote}/*.tfrecord", verify=True)


@pytest.mark.parametrize(
    ("pattern", "error", "message"),
    [
        (
            "ram://nowhere/*",
            FileNotFoundError,
            "No file matches 'ram://nowhere",
        ),
        (
            "s4://a/*",
            ValueError,
            "'s4://a/.' cannot be read: .*not implemented",
        ),
    ],
)
def test_patterns_without_files_are_an_error(pattern, error, message):
    with pytest.raises(error, match=message):
        remote_files.expand_globs(pattern)


def test_a_remote_file_that_vanishes_is_an_error(remote):
    source = record_source.open_records(f"{remote}/*.tfrecord")
    tf.io.gfile.remove(f"{remote}/b.tfrecord")

    with (
        pytest.raises(ValueError, match="missing, damaged, or was changed"),
        example_order.failed_reads_raised(),
    ):
        list(
            input_pipeline.evaluation_dataset(
                source, InputShard(), batch_size=4, by_files=True
            )
        )
