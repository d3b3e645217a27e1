"""Folders that appear whole, and locks; all of them are local."""

import contextlib
import glob
import os
import re
import uuid
from collections.abc import Iterator

from albert_tf import files

_REPLACED = re.compile(r"(?P<name>.*)\.[0-9a-f]{8}\.replaced", re.DOTALL)


@contextlib.contextmanager
def partial_folder(path: files.Path) -> Iterator[str]:
    """Gives an empty folder that shall become the folder `path`.

    It is removed when the block ends, unless the block has renamed it. Missing
    parents are made. Incomplete folders of killed writers are removed first.
    """
    name = os.path.normpath(files.check_local(path))
    files.remove_partials(name)
    partial = files.partial_name(name)
    os.makedirs(partial)
    try:
        with files.held(partial):
            yield partial
    finally:
        files.remove(partial)


@contextlib.contextmanager
def atomic_folder(path: files.Path, *, replace: bool = False) -> Iterator[str]:
    """Gives a folder for writing that takes its name only when it is whole.

    A folder that exists is an error when the block ends, unless it is empty;
    or it is moved away first, to `replace` it. After a kill, `clean_up` puts
    it right.
    """
    name = os.path.normpath(files.check_local(path))
    with partial_folder(name) as partial:
        yield partial
        old = None
        if replace and os.path.exists(name):
            old = f"{name}.{uuid.uuid4().hex[:8]}.replaced"
            os.replace(name, old)
        os.replace(partial, name)
        if old:
            files.remove(old)


def lock_path(path: files.Path) -> str:
    """Returns the lock file of a file, hidden in its folder, which is made."""
    folder, name = os.path.split(os.path.realpath(files.check_local(path)))
    os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, f".{files.stem(name)}.lock")


@contextlib.contextmanager
def locked(path: files.Path, message: str) -> Iterator[None]:
    """Holds a lock file; a ValueError of `message` if another process does.

    A file that a killed process has left locks nothing.
    """
    import filelock

    lock = filelock.FileLock(path, timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise ValueError(message) from None
    try:
        yield
    finally:
        os.remove(path)
        lock.release()


def replaced_copy(path: files.Path) -> str | None:
    """Returns where `atomic_folder` has moved a folder that it replaces."""
    pattern = f"{glob.escape(os.path.normpath(path))}.*.replaced"
    return next(iter(glob.glob(pattern)), None)


def clean_up(folder: files.Path) -> None:
    """Puts a folder right after processes were killed.

    A folder that `atomic_folder` moved away comes back if nothing took its
    place: only where no other process replaces folders. Incomplete files and
    folders are removed, unless another process is writing them.
    """
    for name in os.listdir(files.check_local(folder)):
        path = os.path.join(folder, name)
        replaced = _REPLACED.fullmatch(name)
        original = os.path.join(folder, replaced["name"]) if replaced else ""
        if replaced and not os.path.exists(original):
            os.replace(path, original)
        elif replaced:
            files.remove(path)
        elif files.PARTIAL.fullmatch(name):
            files.remove_abandoned(path)
