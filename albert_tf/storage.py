"""Files that may be remote: text and vocabulary to read, records to write.

A path with a scheme (`gs://`, `s3://`, `hdfs://`) is opened by fsspec and the
package of its file system; every other path as in `files`. Training reads
remote records in its own way, `data/record_files.py`.

fsspec is imported when a remote path is met.
"""

import contextlib
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Any

from albert_tf import files
from albert_tf.files import Path, is_remote

# Where a file appears when all of it is there, as in a bucket. Elsewhere it
# gets another name first.
_APPEAR_WHOLE = ("gs", "gcs", "s3", "s3a", "az", "abfs", "abfss", "memory")
# The default of s3:// is 50 MiB, and two of them are in memory.
_BLOCK_SIZE = 2**23
# By default, ten parts of 50 MiB are sent at once, from memory.
_S3_OPTIONS = {"max_concurrency": 2}
_OPTIONS = {"s3": _S3_OPTIONS, "s3a": _S3_OPTIONS}


def expand_globs(patterns: str | list[str]) -> list[str]:
    """Returns the files that local and remote patterns match."""
    return files.expand_globs(patterns, glob_remote=_glob)


def exists(path: Path) -> bool:
    """Returns whether there is a file."""
    return version_tag(path) is not None


def version_tag(path: Path) -> object | None:
    """Returns what changes when a file is written again; None without one."""
    try:
        if not is_remote(path):
            status = os.stat(path)
            return status.st_ino, status.st_mtime_ns
        with _file(path, "read") as (system, name):
            # `exists` takes every error for a missing file.
            system.info(name)
            return str(system.ukey(name))
    except FileNotFoundError:
        return None


def size(path: Path) -> int:
    """Returns the size of a file in bytes."""
    if not is_remote(path):
        return os.path.getsize(path)
    with _file(path, "read") as (system, name):
        return int(system.size(name))


def remove(path: Path) -> None:
    """Removes a file."""
    if not is_remote(path):
        os.remove(path)
        return
    with _file(path, "removed") as (system, name):
        system.rm_file(name)


def open_read(path: Path) -> IO[bytes]:
    """Opens a file for reading bytes, from its beginning or any place."""
    if not is_remote(path):
        return files.open_read(path)
    with _file(path, "read") as (system, name):
        opened = system.open(name, "rb", block_size=_BLOCK_SIZE)
    return io.BufferedReader(_RemoteFile(opened, os.fspath(path)))


def read_bytes(path: Path) -> bytes:
    """Returns the content of a file."""
    with open_read(path) as file:
        return file.read()


def read_text(path: Path) -> str:
    """Returns the text of a UTF-8 file."""
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        name = os.fspath(path)
        raise ValueError(f"{name!r} is not UTF-8 text: {error}.") from error


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """Opens a file for writing that appears only when it is whole.

    A local one is written as `files.atomic_write` does. A remote one is
    written to a temporary local file, which is sent when the block ends.
    """
    if not is_remote(path):
        with files.atomic_write(path) as file:
            yield file
        return
    # Without a name, so that nothing is left of it if this process is killed.
    with tempfile.TemporaryFile() as spool:
        yield spool
        spool.seek(0)
        with _file(path, "written") as (system, name):
            source = f"/dev/fd/{spool.fileno()}"
            _send(system, source, name, os.fspath(path))


def write_json(path: Path, values: Any) -> None:
    """Writes a JSON file with sorted keys."""
    with atomic_write(path) as file:
        text = json.dumps(values, indent=2, sort_keys=True)
        file.write(f"{text}\n".encode())


def _send(system: Any, source: str, name: str, path: str) -> None:
    if path.startswith(tuple(f"{scheme}://" for scheme in _APPEAR_WHOLE)):
        system.put_file(source, name)
        return
    system.makedirs(os.path.dirname(name), exist_ok=True)
    partial = files.partial_name(name)
    try:
        system.put_file(source, partial)
        system.mv(partial, name)
    except BaseException:
        with contextlib.suppress(Exception):
            system.rm_file(partial)
        raise


def _glob(pattern: str) -> list[str]:
    with _file(pattern, "read") as (system, name):
        matches = system.glob(name, detail=True)
        # A host before the path is no part of what was found.
        start = pattern.removesuffix(name) if pattern.endswith(name) else None
        return [
            system.unstrip_protocol(match) if start is None else start + match
            for match, facts in matches.items()
            if facts["type"] == "file" and _hidden(match) <= _hidden(name)
        ]


def _hidden(name: str) -> int:
    """Returns how many parts of a path begin with a point.

    As in local folders, asterisks do not stand for such parts.
    """
    return sum(part.startswith(".") for part in name.split("/"))


@contextlib.contextmanager
def _file(path: Path, done: str) -> Iterator[tuple[Any, str]]:
    """Gives the file system of a remote file and its name there.

    Args:
        path: The file.
        done: What is done with it, for errors in the `with` block.
    """
    with _errors_named(os.fspath(path), done):
        import fsspec

        text = os.fspath(path)
        options = _OPTIONS.get(text.partition("://")[0], {})
        # Without a memory of listings: other processes write, too.
        system, name = fsspec.url_to_fs(
            text, use_listings_cache=False, **options
        )
        yield system, name


@contextlib.contextmanager
def _errors_named(path: str, done: str) -> Iterator[None]:
    """Makes one-line errors of those of file systems, which are of any type."""
    try:
        yield
    except FileNotFoundError as error:
        what = "folder or bucket for" if done == "written" else "file"
        raise FileNotFoundError(
            f"There is no {what} {path!r}. Check the path."
        ) from error
    except ImportError as error:
        raise ImportError(
            f"{path!r} cannot be {done}: {error}. Remote files need fsspec and "
            "the package of their file system: gcsfs for gs://, s3fs for "
            "s3:// (the extra `remote`), pyarrow for hdfs://."
        ) from error
    except Exception as error:
        text = " ".join(str(error).split())
        raise OSError(
            f"{path!r} cannot be {done} ({type(error).__name__}: {text}). "
            "Check the path and your permissions, or use a local folder."
        ) from error


class _RemoteFile(io.RawIOBase):
    """A remote file that is open for reading, with errors that name it."""

    def __init__(self, file: IO[bytes], path: str) -> None:
        self._file = file
        self._path = path

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        with _errors_named(self._path, "read"):
            return function(*arguments)

    def readinto(self, buffer: Any) -> int:
        data = self._call(self._file.read, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return int(self._call(self._file.seek, offset, whence))

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
