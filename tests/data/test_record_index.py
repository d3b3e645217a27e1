import hashlib
import os
import resource

import numpy as np
import pytest

from albert_tf.data import record_files, record_index

RECORDS = [b"first", b"", b"third record"]


@pytest.fixture
def write(tmp_path):
    """A function that writes records and their index; returns path, sha256."""

    def run(name="a", records=RECORDS):
        path = str(tmp_path / name)
        data = record_files.frame_records(records)
        sha256 = hashlib.sha256(data).hexdigest()
        with open(path, "wb") as file:
            file.write(data)
        with record_index.index_writer(path) as index:
            for record in records:
                index.add(record_files.frame_records([record]))
            index.finish(sha256)
        return path, sha256

    return run


@pytest.fixture
def refuse_scans(monkeypatch):
    def scan(path):
        raise AssertionError(f"{path} was read")

    monkeypatch.setattr(record_index, "scan", scan)


def test_a_file_with_an_index_is_opened_without_reading_it(write, refuse_scans):
    path, sha256 = write()

    file = record_files.RecordFile(path, sha256=sha256)

    assert len(file) == 3
    assert [file.get(number) for number in (2, 0, 1)] == [
        *(b"third record", b"first", b"")
    ]


@pytest.mark.parametrize("num_records", [0, 1])
def test_small_files_have_an_index(write, refuse_scans, num_records):
    path, sha256 = write(records=RECORDS[:num_records])

    file = record_files.RecordFile(path, sha256=sha256)

    assert list(file.verified()) == RECORDS[:num_records]


def test_with_and_without_an_index_the_digest_is_the_same(write):
    path, sha256 = write()

    indexed = record_files.RecordFile(path, sha256=sha256)
    scanned = record_files.RecordFile(path)

    assert indexed.digest == scanned.digest
    other, _ = write("b", [b"First", *RECORDS[1:]])
    assert record_files.RecordFile(other).digest != scanned.digest


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

    file = record_files.RecordFile(path, sha256=sha256)

    assert len(file) == 3
    assert list(file.verified()) == list(
        record_files.RecordFile(path).verified()
    )


@pytest.mark.parametrize("has_index", [True, False])
def test_one_flipped_bit_is_an_error_that_names_file_and_record(
    write, has_index
):
    path, sha256 = write()
    with open(path, "r+b") as file:
        content = bytearray(file.read())
        content[content.index(b"record")] ^= 1
        file.seek(0)
        file.write(content)

    records = record_files.RecordFile(
        path, sha256=sha256 if has_index else None
    )

    assert records.get(0) == b"first"
    with pytest.raises(ValueError, match="a' is damaged.*record 2, at byte 37"):
        records.get(2)


@pytest.mark.parametrize("has_index", [True, False])
def test_a_file_that_is_overwritten_after_it_was_opened_is_noticed(
    write, has_index
):
    path, sha256 = write()
    records = record_files.RecordFile(
        path, sha256=sha256 if has_index else None
    )
    records.get(0)
    with open(path, "r+b") as file:
        file.write(record_files.frame_records([b"tsrif", b"", b"droce"]))

    cause = "its index describes" if has_index else "was changed after"
    with pytest.raises(ValueError, match=f"{cause}.*record 0, at byte 0"):
        records.get(0)
    os.truncate(path, 20)
    with pytest.raises(ValueError, match=f"{cause}.*record 2, at byte 37"):
        records.get(2)


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


def test_a_file_that_is_empty_before_its_first_record_is_read_is_named(write):
    path, sha256 = write()
    records = record_files.RecordFile(path, sha256=sha256)
    os.truncate(path, 0)

    with pytest.raises(ValueError, match="a' is empty. Build or copy"):
        records.get(0)


def test_an_index_that_is_damaged_gives_no_wrong_record(write):
    path, sha256 = write()
    with open(f"{path}.index", "rb") as file:
        content = bytearray(file.read())
    for place in range(3 * 12):
        damaged = content.copy()
        damaged[place] ^= 1
        with open(f"{path}.index.new", "wb") as file:
            file.write(damaged)
        os.replace(f"{path}.index.new", f"{path}.index")
        # Another file for the system, so that nothing is left open.
        os.utime(path, ns=(place, place))
        records = record_files.RecordFile(path, sha256=sha256)

        number = place // 12
        with pytest.raises(ValueError, match=f"record {number}, at byte"):
            records.get(number)


def test_another_file_of_the_name_is_not_overwritten(write, tmp_path):
    (tmp_path / "a.index").write_text("notes")

    with pytest.raises(ValueError, match="a.index' exists already, and is not"):
        write()
    assert (tmp_path / "a.index").read_text() == "notes"
    (tmp_path / "a.index").unlink()
    write()
    write()


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
