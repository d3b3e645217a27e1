import errno
import os
import pathlib

import pytest

from albert_tf import files, folders, globs


def _touch(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")


def test_a_file_under_several_names_comes_once(tmp_path, monkeypatch):
    _touch(tmp_path, "a.txt", "b.txt")
    monkeypatch.chdir(tmp_path)
    os.symlink("a.txt", "link.txt")
    os.link("a.txt", "same.txt")

    found = globs.expand_globs(["a.txt", "./a.txt", "*.txt"])

    assert found == ["a.txt", "b.txt"]


def test_two_asterisks_match_folders_at_every_depth(tmp_path):
    # As in remote patterns.
    _touch(tmp_path, "a.txt", "b/b.txt", "b/c/c.txt", "b/c/d.json")

    found = globs.expand_globs(f"{tmp_path}/**/*.txt")

    assert [os.path.basename(path) for path in found] == [
        *("a.txt", "b.txt", "c.txt")
    ]


def test_a_name_with_glob_characters_means_itself(tmp_path):
    _touch(tmp_path, "part[1].txt", "part1.txt")

    found = globs.expand_globs(f"{tmp_path}/part[1].txt")

    assert [os.path.basename(path) for path in found] == ["part[1].txt"]


def test_a_write_that_the_system_refuses_names_the_file(tmp_path):
    path = tmp_path / "file.bin"

    with (
        pytest.raises(OSError, match=r"No space left.*file\.bin'"),
        files.atomic_write(path),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    assert os.listdir(tmp_path) == []


def _write_file(path):
    with files.atomic_write(path) as file:
        file.write(b"new")


def _write_folder(path):
    with folders.atomic_folder(path) as folder:
        (pathlib.Path(folder) / "new").touch()


@pytest.mark.parametrize("write", [_write_file, _write_folder])
def test_a_user_s_own_partial_is_kept(write, tmp_path):
    _touch(tmp_path, "x.partial", "y.partial/inner")

    write(tmp_path / "x")
    write(tmp_path / "y")

    found = sorted(p.name for p in tmp_path.iterdir())
    assert found == ["x", "x.partial", "y", "y.partial"]
    assert (tmp_path / "x.partial").read_text() == "x.partial"
    assert (tmp_path / "y.partial" / "inner").exists()


BOTH = pytest.mark.parametrize(
    "write", [files.atomic_write, folders.partial_folder]
)


@BOTH
def test_what_another_process_is_writing_is_kept(write, tmp_path):
    path = tmp_path / "a"
    with write(path), write(path):
        folders.clean_up(tmp_path)

        assert len(files.find_partials(path)) == 2


@BOTH
def test_the_next_writer_removes_what_killed_ones_left_and_nothing_else(
    write, tmp_path
):
    left = ["a.01234567.partial/variables/index", "a.89abcdef.partial"]
    others = ["a.partial", "ab.01234567.partial", "a.0123456x.partial"]
    _touch(tmp_path, *left, *others)
    assert sorted(files.find_partials(tmp_path / "a")) == [
        *("a.01234567.partial", "a.89abcdef.partial")
    ]
    assert files.find_partials(tmp_path / "none" / "a") == []

    with write(tmp_path / "a"):
        assert len(os.listdir(tmp_path)) == len(others) + 1


def test_json_that_is_nested_without_end_is_damaged(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("[" * 200_000)

    with pytest.raises(ValueError, match=r"a\.json is damaged"):
        files.read_json(path)


def test_json_lines_without_the_one_that_a_kill_cut_off(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"st')

    assert files.read_json_lines(path) == [{"step": 1}, {"step": 2}]


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "folder"

    with folders.atomic_folder(path) as partial:
        (pathlib.Path(partial) / "a").write_text("1")
        assert not path.exists()
    assert [p.name for p in path.iterdir()] == ["a"]

    with (
        pytest.raises(RuntimeError),
        folders.atomic_folder(tmp_path / "other") as partial,
    ):
        raise RuntimeError
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new"]


def test_a_folder_that_another_process_wrote_first_is_kept(tmp_path):
    path = tmp_path / "folder"

    with (
        pytest.raises(OSError, match="Directory not empty: .*folder'"),
        folders.atomic_folder(path),
    ):
        _touch(path, "theirs")

    assert os.listdir(tmp_path) == ["folder"]
    assert os.listdir(path) == ["theirs"]


def test_a_folder_may_be_replaced(tmp_path):
    _touch(tmp_path, "folder/old")

    for _ in range(2):
        with folders.atomic_folder(tmp_path / "folder", replace=True) as folder:
            (pathlib.Path(folder) / "new").touch()
            assert os.listdir(tmp_path / "folder") != []

    assert os.listdir(tmp_path) == ["folder"]
    assert os.listdir(tmp_path / "folder") == ["new"]


def test_a_name_with_a_number_stands_for_its_shards(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = globs.shard_names("a/train@3")
    assert names == [f"a/train-0000{i}-of-00003" for i in range(3)]
    assert globs.shard_names("train@x") == ["train@x"]
    _touch(tmp_path, *names)

    assert globs.expand_globs("a/train@3") == names
    os.remove(names[1])
    with pytest.raises(FileNotFoundError, match="train-00001-of-00003"):
        globs.expand_globs("a/train@3")
