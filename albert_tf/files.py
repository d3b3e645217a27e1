"""Files, local or remote: globs that must match, text and JSON, whole writes.

A path with a scheme (`gs://`, `s3://`, `hdfs://`) is opened by `storage.py`.
Folders and locks are local.
"""

import contextlib
import fcntl
import glob
import io
import json
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import IO, Any, NamedTuple, TypeVar

from albert_tf import registry

Path = str | os.PathLike[str]
T = TypeVar("T")

# Bytes of a name in a temporary name made of it: the limit of both is 255.
_STEM_SIZE = 200
_SHARDS = re.compile(r"(?P<stem>.*[^/])@(?P<count>\d+)", re.DOTALL)
_MAX_SHARDS = 99_999
# Requests to remote file systems at the same time.
_NUM_THREADS = 32
_PARTIAL = re.compile(r"(?P<stem>.*)\.[0-9a-f]{8}\.partial", re.DOTALL)
_REPLACED = re.compile(r"(?P<name>.*)\.[0-9a-f]{8}\.replaced", re.DOTALL)


def is_remote(path: Path) -> bool:
    """Returns whether a path has a scheme, such as `gs://`."""
    return "://" in os.fspath(path)


def _remote_files() -> Any:
    return registry.load(registry.FILE_SYSTEMS["remote"])


def check_local(path: Path) -> str:
    """Returns a path as a string; one with a scheme is a ValueError."""
    text = os.fspath(path)
    if is_remote(text):
        raise ValueError(
            f"{text!r} is a remote path. Mount or copy it to a local folder "
            "and pass that."
        )
    return text


def shard_names(name: str) -> list[str]:
    """Returns the files that a name such as `train@1024` stands for.

    >>> shard_names("train@2")
    ['train-00000-of-00002', 'train-00001-of-00002']

    Another name stands for itself.
    """
    match = _SHARDS.fullmatch(name)
    if match is None:
        return [name]
    count = int(match["count"])
    # Nobody means one file of this name.
    if not 1 <= count <= _MAX_SHARDS:
        raise ValueError(f"{name!r} must have 1 to {_MAX_SHARDS} shards.")
    return [f"{match['stem']}-{i:05}-of-{count:05}" for i in range(count)]


def expand_globs(patterns: str | list[str]) -> list[str]:
    """Returns the files that comma-separated glob patterns match.

    Files come pattern by pattern, sorted within each, none twice, not even
    under another name (`a`, `./a`, a link to it): the first name stays.
    `name@N` stands for all its shards, see `shard_names`. Every pattern must
    match.
    """
    if isinstance(patterns, str):
        patterns = patterns.split(",")
    first_names: dict[object, str] = {}
    for pattern in filter(None, map(str.strip, patterns)):
        for name in _matches(pattern):
            # Names of one file have the same inode and device.
            status = name if is_remote(name) else os.stat(name)[1:3]
            first_names.setdefault(status, name)
    return list(first_names.values())


def _matches(pattern: str) -> list[str]:
    if not is_remote(pattern) and os.path.isfile(pattern):
        return [pattern]
    names = shard_names(pattern)
    if names != [pattern]:
        return names
    if is_remote(pattern):
        names = _remote_files().glob(pattern)
    else:
        names = list(filter(os.path.isfile, glob.glob(pattern, recursive=True)))
    if not names:
        raise FileNotFoundError(
            f"No file matches {pattern!r}. Check the path or the pattern."
        )
    return sorted(names)


def for_all(function: Callable[[str], T], paths: list[str]) -> list[T]:
    """Calls a function with all paths: if there are remote ones, in threads."""
    if not any(map(is_remote, paths)):
        return [*map(function, paths)]
    with futures.ThreadPoolExecutor(_NUM_THREADS) as pool:
        return [*pool.map(function, paths)]


class FileStatus(NamedTuple):
    """The size of a file, and a mark that changes when it is written again."""

    num_bytes: int
    version: object


def status(path: Path) -> FileStatus | None:
    """Returns the status of a file, or None if there is no file."""
    try:
        if is_remote(path):
            return FileStatus(*_remote_files().status(os.fspath(path)))
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return FileStatus(status.st_size, (status.st_ino, status.st_mtime_ns))


def open_read(path: Path) -> io.BufferedReader:
    """Opens a file for reading bytes, from its beginning or any position."""
    if is_remote(path):
        remote: io.BufferedReader = _remote_files().open_read(os.fspath(path))
        return remote
    return open(path, "rb")


def read_bytes(path: Path, start: int = 0, end: int | None = None) -> bytes:
    """Returns the bytes of a file from `start` to `end`."""
    if is_remote(path):
        content: bytes = _remote_files().read_bytes(path, start, end)
        return content
    with open(path, "rb") as file:
        file.seek(start)
        return file.read(-1 if end is None else end - start)


def read_text(path: Path) -> str:
    """Reads a UTF-8 file."""
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        name = os.fspath(path)
        raise ValueError(f"{name!r} is not UTF-8 text: {error}.") from error


def read_json(path: Path) -> Any:
    """Reads a JSON file; one that is damaged is a ValueError that names it."""
    return _parse_json(read_text(path).removeprefix("\ufeff"), path, "it")


def _parse_json(text: str, path: Path, part: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(
            f"{os.fspath(path)} is damaged: {part} is not JSON ({error}). "
            "Restore it."
        ) from error


def read_json_object(path: Path, *, missing_ok: bool = False) -> dict[str, Any]:
    """Reads a JSON file that holds an object; empty if it may be missing."""
    if missing_ok and not os.path.exists(check_local(path)):
        return {}
    return _checked_object(read_json(path), path)


def object_of(content: dict[str, Any], key: str, path: Path) -> dict[str, Any]:
    """Returns the object under a key of a JSON file; empty if it has none."""
    inner = content.get(key)
    return {} if inner is None else _checked_object(inner, path, f" as {key!r}")


def _checked_object(
    content: object, path: Path, part: str = ""
) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise ValueError(
            f"{os.fspath(path)} is damaged: expected a JSON object{part}, "
            f"found {type(content).__name__}. Restore or correct it."
        )
    return content


def read_json_lines(path: Path) -> list[Any]:
    """Reads a file of one JSON value a line.

    A last line without an end of line, as a killed process leaves it, is
    ignored.
    """
    lines = read_text(path).split("\n")[:-1]
    return [
        _parse_json(line, path, f"line {number}")
        for number, line in enumerate(lines, start=1)
    ]


def partial_name(path: Path) -> str:
    """Returns a new name for an incomplete file, in the folder of `path`.

    It is `<name>.<8 hexadecimal digits>.partial`, with a long name cut.
    """
    folder, name = os.path.split(check_local(path))
    return os.path.join(folder, f"{_stem(name)}.{uuid.uuid4().hex[:8]}.partial")


def _stem(name: str) -> str:
    return os.fsencode(name)[:_STEM_SIZE].decode(errors="ignore")


def find_partials(path: Path) -> list[str]:
    """Returns the names of incomplete files of the writers of a path."""
    folder, name = os.path.split(os.path.abspath(check_local(path)))
    names = os.listdir(folder) if os.path.isdir(folder) else []
    matches = map(_PARTIAL.fullmatch, names)
    return [m[0] for m in matches if m and m["stem"] == _stem(name)]


def _remove_partials(path: Path) -> None:
    for name in find_partials(path):
        _remove_abandoned(os.path.join(os.path.dirname(path), name))


@contextlib.contextmanager
def _held(partial: str) -> Iterator[None]:
    """Locks an incomplete file or folder while this process writes it."""
    descriptor = os.open(partial, os.O_RDONLY)
    try:
        # Where a file system has no locks, nothing is ever abandoned.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def _remove_abandoned(partial: str) -> None:
    """Removes an incomplete file or folder that no process is writing."""
    with contextlib.suppress(OSError):
        descriptor = os.open(partial, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(partial)
        finally:
            os.close(descriptor)


def remove(path: str) -> None:
    """Removes a file or a folder that another process may remove, too."""
    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
        return
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if is_remote(path):
            _remote_files().remove(path)
        else:
            os.remove(path)


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """Opens a file for writing that takes its name only when it is whole.

    Bytes go to a file named by `partial_name`, which is flushed to disk and
    renamed when the block ends, and removed when it fails. Missing folders are
    made. Incomplete files of killed writers are removed first. A remote
    file is written to a local one without a name, and sent when the block ends.
    """
    name = os.fspath(path)
    if is_remote(name):
        with tempfile.TemporaryFile() as spool:
            yield spool
            spool.seek(0)
            _remote_files().send(spool.fileno(), name)
        return
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    _remove_partials(name)
    partial = partial_name(name)
    try:
        with open(partial, "wb") as file, _held(partial):
            yield file
            flush(file)
        os.replace(partial, name)
    except BaseException as error:
        remove(partial)
        # Errors of writes do not know the name of the file.
        if isinstance(error, OSError) and error.errno and not error.filename:
            raise OSError(error.errno, error.strerror, name) from error
        raise


def flush(file: IO[bytes]) -> None:
    """Brings the content of a file to its disk."""
    file.flush()
    os.fsync(file.fileno())


def write_text(path: Path, text: str) -> None:
    """Writes a UTF-8 file, whole or not at all."""
    with atomic_write(path) as file:
        file.write(text.encode("utf-8"))


def write_json(path: Path, content: object, *, sort_keys: bool = False) -> None:
    """Writes a JSON file, whole or not at all."""
    text = json.dumps(content, indent=2, sort_keys=sort_keys)
    write_text(path, f"{text}\n")


@contextlib.contextmanager
def partial_folder(path: Path) -> Iterator[str]:
    """Gives an empty folder that shall become the folder `path`.

    It is removed when the block ends, unless the block has renamed it. Missing
    parents are made. Incomplete folders of killed writers are removed first.
    """
    name = os.path.normpath(check_local(path))
    _remove_partials(name)
    partial = partial_name(name)
    os.makedirs(partial)
    try:
        with _held(partial):
            yield partial
    finally:
        remove(partial)


@contextlib.contextmanager
def atomic_folder(path: Path, *, replace: bool = False) -> Iterator[str]:
    """Gives a folder for writing that takes its name only when it is whole.

    A folder that exists is an error when the block ends, unless it is empty;
    or it is moved away first, to `replace` it. After a kill, `clean_up` puts
    it right.
    """
    name = os.path.normpath(check_local(path))
    with partial_folder(name) as partial:
        yield partial
        old = None
        if replace and os.path.exists(name):
            old = f"{name}.{uuid.uuid4().hex[:8]}.replaced"
            os.replace(name, old)
        os.replace(partial, name)
        if old:
            remove(old)


def lock_path(path: Path) -> str:
    """Returns the lock file of a file, hidden in its folder, which is made."""
    folder, name = os.path.split(os.path.realpath(check_local(path)))
    os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, f".{_stem(name)}.lock")


@contextlib.contextmanager
def locked(path: Path, message: str) -> Iterator[None]:
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


def replaced_copy(path: Path) -> str | None:
    """Returns where `atomic_folder` has moved a folder that it replaces."""
    pattern = f"{glob.escape(os.path.normpath(path))}.*.replaced"
    return next(iter(glob.glob(pattern)), None)


def clean_up(folder: Path) -> None:
    """Puts a folder right after processes were killed.

    A folder that `atomic_folder` moved away comes back if nothing took its
    place: only where no other process replaces folders. Incomplete files and
    folders are removed, unless another process is writing them.
    """
    for name in os.listdir(check_local(folder)):
        path = os.path.join(folder, name)
        replaced = _REPLACED.fullmatch(name)
        original = os.path.join(folder, replaced["name"]) if replaced else ""
        if replaced and not os.path.exists(original):
            os.replace(path, original)
        elif replaced:
            remove(path)
        elif _PARTIAL.fullmatch(name):
            _remove_abandoned(path)
