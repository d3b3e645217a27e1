"""Remote files; those of `memory://` and `file://` stand for the others."""

import errno
import gzip

import fsspec
import pytest

from albert_tf import files, globs
from albert_tf.text import text_lines


@pytest.fixture(params=["memory", "file", "local"])
def folder(request, tmp_path):
    """An empty folder of some file system."""
    if request.param == "memory":
        fsspec.filesystem("memory").store.clear()
        return "memory://bucket/folder"
    start = "file://" if request.param == "file" else ""
    return f"{start}{tmp_path}/folder"


def write(path, data):
    with files.atomic_write(path) as file:
        file.write(data)


def test_what_was_written_is_read(folder):
    path = f"{folder}/a.txt"

    write(path, b"one\ntwo\n")

    assert files.status(path).num_bytes == 8
    assert files.read_text(path) == "one\ntwo\n"
    with files.open_read(path) as file:
        file.seek(-4, 2)
        assert file.read() == b"two\n"
    write(path, b"new")
    assert files.read_bytes(path) == b"new"
    files.remove(path)
    assert files.status(path) is None


def test_a_write_that_fails_leaves_the_old_file_and_no_debris(folder):
    path = f"{folder}/a"
    write(path, b"old")

    with pytest.raises(RuntimeError), files.atomic_write(path) as file:
        file.write(b"half of the n")
        raise RuntimeError

    assert files.read_bytes(path) == b"old"
    assert globs.expand_globs(f"{folder}/*") == [path]


def test_a_file_that_cannot_be_sent_is_an_error_and_leaves_no_debris(
    tmp_path, monkeypatch
):
    def refuse(self, *_):
        raise PermissionError(errno.EACCES, "denied")

    path = f"file://{tmp_path}/a"
    write(path, b"old")
    system = fsspec.get_filesystem_class("file")
    monkeypatch.setattr(system, "mv", refuse)

    with pytest.raises(OSError, match=r"a' cannot be written \(Permission"):
        write(path, b"new")

    assert [found.read_bytes() for found in tmp_path.iterdir()] == [b"old"]


def test_files_come_in_the_order_of_the_patterns_each_once(folder):
    for name in ("b", "a", "deep/c", "x"):
        write(f"{folder}/{name}", b"")

    found = globs.expand_globs(f"{folder}/b,{folder}/[abd]*, ,{folder}/x")

    assert found == [f"{folder}/{name}" for name in "bax"]


def test_hidden_files_are_left_out_unless_they_are_named(folder):
    # As in local folders.
    for name in ("a", ".b", ".c/a", "c/.d", ".e/a", ".e/.f"):
        write(f"{folder}/{name}", b"")

    for pattern, names in (
        ("*", ["a"]),
        ("**", ["a"]),
        (".b", [".b"]),
        (".*", [".b"]),
        (".e/*", [".e/a"]),
    ):
        found = globs.expand_globs(f"{folder}/{pattern}")
        assert found == [f"{folder}/{name}" for name in names]


def test_local_and_remote_patterns_may_be_mixed(tmp_path):
    fsspec.filesystem("memory").store.clear()
    write("memory://m/a", b"")
    write(tmp_path / "b", b"")

    found = globs.expand_globs(f"memory://m/*,{tmp_path}/*,memory://m/t@2")

    assert found == [
        "memory://m/a",
        str(tmp_path / "b"),
        "memory://m/t-00000-of-00002",
        "memory://m/t-00001-of-00002",
    ]


def test_a_host_stays_in_the_names_of_what_is_found(monkeypatch):
    class Hdfs:
        def glob(self, name, detail):
            assert name == "/a/*" and detail
            facts = {"type": "file"}
            return {"/a/y": facts, "/a/x": facts, "/a/d": {"type": "directory"}}

    monkeypatch.setattr(fsspec, "url_to_fs", lambda *_, **__: (Hdfs(), "/a/*"))

    assert globs.expand_globs("hdfs://host:8020/a/*") == [
        "hdfs://host:8020/a/x",
        "hdfs://host:8020/a/y",
    ]


@pytest.mark.parametrize("name", ["lines.txt", "lines.txt.gz"])
def test_lines_are_read_from_anywhere(folder, name):
    data = "Zoë\n雨\n".encode() * 10_000
    path = f"{folder}/{name}"
    write(path, gzip.compress(data) if name.endswith("gz") else data)

    assert [*text_lines.read_lines(path)] == ["Zoë", "雨"] * 10_000


@pytest.mark.parametrize("use", [files.read_bytes, globs.expand_globs])
def test_a_missing_file_is_named(use, folder):
    with pytest.raises(FileNotFoundError, match="gone"):
        use(f"{folder}/gone")
