import os
import pathlib

import pytest

from albert_tf.export import version_folder


def test_versions_are_counted_from_one(tmp_path):
    assert version_folder.next_version(tmp_path / "none") == 1
    for name in ("1", "12", "3", "x", "99.partial"):
        (tmp_path / name).mkdir()

    assert version_folder.next_version(tmp_path) == 13


def test_a_version_appears_whole_beside_a_batching_configuration(tmp_path):
    with version_folder.new_version(tmp_path / "served", 2) as folder:
        pathlib.Path(folder, "file").write_text("x")
        assert not (tmp_path / "served" / "2").exists()

    assert sorted(os.listdir(tmp_path / "served")) == [
        "2",
        "batching_parameters.txt",
    ]
    assert os.listdir(tmp_path / "served" / "2") == ["file"]


def test_a_batching_configuration_that_was_changed_is_kept(tmp_path):
    path = tmp_path / version_folder.BATCHING_FILE
    path.write_text("mine")
    with version_folder.new_version(tmp_path, 1):
        pass

    assert path.read_text() == "mine"


def test_after_a_failure_nothing_stays(tmp_path):
    with (
        pytest.raises(RuntimeError, match="half way"),
        version_folder.new_version(tmp_path / "served", 1),
    ):
        raise RuntimeError("half way")

    assert os.listdir(tmp_path) == []


def test_a_version_is_not_written_over(tmp_path):
    (tmp_path / "4").mkdir()

    with (
        pytest.raises(ValueError, match="4 exists already.*Pass another"),
        version_folder.new_version(tmp_path, 4),
    ):
        pass


def test_what_is_not_a_folder_gets_no_versions(tmp_path):
    path = tmp_path / "file"
    path.write_text("mine")

    for make in (
        lambda: version_folder.next_version(path),
        lambda: version_folder.new_version(path, 1).__enter__(),
    ):
        with pytest.raises(ValueError, match="file is there, and not a folder"):
            make()
    assert path.read_text() == "mine"
