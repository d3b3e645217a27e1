"""Files, local or remote: text, JSON, atomic writes.

A path with a scheme (`gs://`, `s3://`, `hdfs://`) is opened by `storage.py`.
"""

import contextlib
import fcntl
import io
import json
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

from albert_tf import registry

Path = str | os.PathLike[str]
JsonObject = dict[str, Any]

# Bytes of a file name that its temporary name keeps; a name has at most 255.
_STEM_SIZE = 200
PARTIAL = re.compile(r"(?P<stem>.*)\.[0-9a-f]{8}\.partial", re.DOTALL)


def is_remote(path: Path) -> bool:
    """Returns whether a path has a scheme, such as `gs://`."""
    return "://" in os.fspath(path)


def remote_files() -> Any:
    """Returns the module that opens paths with a scheme."""
    return registry.load(registry.FILE_SYSTEMS["remote"])


def check_local(path: Path) -> str:
    """Returns a path as a string; raises ValueError if it has a scheme."""
    text = os.fspath(path)
    if is_remote(text):
        raise ValueError(
            f"{text!r} is a remote path. Mount or copy it to a local folder "
            "and pass that."
        )
    return text


class FileStatus(NamedTuple):
    """The size of a file, and a mark that changes when it is written again."""

    num_bytes: int
    version: object


def status(path: Path) -> FileStatus | None:
    """Returns the status of a file, or None if there is no file."""
    try:
        if is_remote(path):
            return FileStatus(*remote_files().status(os.fspath(path)))
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return FileStatus(status.st_size, (status.st_ino, status.st_mtime_ns))


def open_read(path: Path) -> io.BufferedReader:
    """Opens a file for reading bytes, from its beginning or any position."""
    if is_remote(path):
        remote: io.BufferedReader = remote_files().open_read(os.fspath(path))
        return remote
    return open(path, "rb")


def read_bytes(path: Path, start: int = 0, end: int | None = None) -> bytes:
    """Returns the bytes of a file from `start` to `end`."""
    if is_remote(path):
        content: bytes = remote_files().read_bytes(path, start, end)
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
    """Reads a JSON file; if it is damaged, a ValueError names the file."""
    return _parse_json(read_text(path).removeprefix("\ufeff"), path, "it")


def _parse_json(text: str, path: Path, part: str) -> Any:
    try:
        value = json.loads(text)
        if "\\u" in text:  # Half of a surrogate pair could not be written.
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except (RecursionError, ValueError) as error:
        raise ValueError(
            f"{os.fspath(path)} is damaged: {part} is not JSON ({error}). "
            "Restore it."
        ) from error


def read_json_object(path: Path, *, missing_ok: bool = False) -> JsonObject:
    """Reads a JSON file that holds an object; empty if it may be missing."""
    if missing_ok and not os.path.exists(check_local(path)):
        return {}
    return _checked_object(read_json(path), path)


def object_of(content: JsonObject, key: str, path: Path) -> JsonObject:
    """Returns the object under a key of a JSON file; empty if it has none."""
    inner = content.get(key)
    return {} if inner is None else _checked_object(inner, path, f" as {key!r}")


def _checked_object(content: object, path: Path, part: str = "") -> JsonObject:
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
    return os.path.join(folder, f"{stem(name)}.{uuid.uuid4().hex[:8]}.partial")


def stem(name: str) -> str:
    """Returns the beginning of a file name, for its temporary names."""
    return os.fsencode(name)[:_STEM_SIZE].decode(errors="ignore")


def find_partials(path: Path) -> list[str]:
    """Returns the names of incomplete files that writers of `path` made."""
    folder, name = os.path.split(os.path.abspath(check_local(path)))
    names = os.listdir(folder) if os.path.isdir(folder) else []
    matches = map(PARTIAL.fullmatch, names)
    return [m[0] for m in matches if m and m["stem"] == stem(name)]


def remove_partials(path: Path) -> None:
    """Removes incomplete files that killed writers of a path have left."""
    for name in find_partials(path):
        remove_abandoned(os.path.join(os.path.dirname(path), name))


@contextlib.contextmanager
def held(partial: str) -> Iterator[None]:
    """Locks an incomplete file or folder while this process writes it."""
    descriptor = os.open(partial, os.O_RDONLY)
    try:
        # Where a file system has no locks, nothing is ever abandoned.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def remove_abandoned(partial: str) -> None:
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
            remote_files().remove(path)
        else:
            os.remove(path)


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """Opens a file for writing; it gets its name only when it is complete.

    Bytes go to a file named by `partial_name`, which is flushed to disk and
    renamed when the block ends, and removed when it fails. Missing folders are
    created. Incomplete files of killed writers are removed first. A remote
    file is written to an unnamed local file, and sent when the block ends.
    """
    name = os.fspath(path)
    if is_remote(name):
        with tempfile.TemporaryFile() as spool:
            yield spool
            spool.seek(0)
            remote_files().send(spool.fileno(), name)
        return
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    remove_partials(name)
    partial = partial_name(name)
    try:
        with open(partial, "wb") as file, held(partial):
            yield file
            flush(file)
        os.replace(partial, name)
    except BaseException as error:
        remove(partial)
        # Errors of writes do not have the name of the file.
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
