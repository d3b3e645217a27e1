import os
import signal
import subprocess
import sys

import pytest

from albert_tf import locks


def test_one_process_at_a_time_holds_a_lock(tmp_path):
    path = tmp_path / "lock"
    with (
        locks.held(path, "It is locked."),
        pytest.raises(ValueError, match="It is locked"),
        locks.held(path, "It is locked."),
    ):
        pass

    with locks.held(path, ""):
        assert path.exists()
    assert not path.exists()


def test_the_lock_of_a_process_that_was_killed_is_free(tmp_path):
    code = (
        "import os, signal, sys\n"
        "from albert_tf import locks\n"
        "with locks.held(sys.argv[1], ''):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    path = tmp_path / "lock"
    done = subprocess.run([sys.executable, "-c", code, str(path)])

    assert done.returncode == -signal.SIGKILL
    assert path.exists()
    with locks.held(path, "It is locked."):
        pass


def test_a_lock_whose_file_was_removed_meanwhile_is_no_lock(
    tmp_path, monkeypatch
):
    flock = locks.fcntl.flock

    def remove_and_lock(file, flags):
        os.remove(file.name)
        flock(file, flags)

    monkeypatch.setattr(locks.fcntl, "flock", remove_and_lock)

    with (
        pytest.raises(ValueError, match="It is locked"),
        locks.held(tmp_path / "lock", "It is locked."),
    ):
        pass
