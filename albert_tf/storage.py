"""Remote file systems (`gs://`, `s3://`, `hdfs://`), by fsspec.

`files.py` calls this for every path with a scheme. Most records of a training
are read by TensorFlow: `data/graph_reading.py`.
"""

import contextlib
import io
import os
import uuid
from collections.abc import Iterator
from typing import IO, Any

# Where a file appears when all of it is there, as in a bucket.
_APPEAR_WHOLE = ("gs", "gcs", "s3", "s3a", "az", "abfs", "abfss", "memory")
# The default of s3:// is 50 MiB, and two of them are in memory.
_BLOCK_SIZE = 2**23
# By default, ten parts of 50 MiB are sent at once, from memory.
_S3_OPTIONS = {"max_concurrency": 2}
_OPTIONS = {"s3": _S3_OPTIONS, "s3a": _S3_OPTIONS}


def glob(pattern: str) -> list[str]:
    """Returns the files that a pattern matches."""
    with _system(pattern, "read") as (system, name):
        matches = system.glob(name, detail=True)
        # Matches do not have the host that is before the path.
        prefix = pattern.removesuffix(name) if pattern.endswith(name) else None
        return [
            system.unstrip_protocol(match) if prefix is None else prefix + match
            for match, facts in matches.items()
            if facts["type"] == "file" and _hidden(match) <= _hidden(name)
        ]


def _hidden(name: str) -> int:
    # As in local folders, asterisks do not stand for parts with a point first.
    return sum(part.startswith(".") for part in name.split("/"))


def status(path: str) -> tuple[int, str]:
    """Returns the size of a file, and a text that changes with its content."""
    with _system(path, "read") as (system, name):
        # `exists` takes every error for a missing file.
        info = system.info(name)
        return int(info["size"]), str(info)


def open_read(path: str) -> io.BufferedReader:
    """Opens a file for reading bytes, from its beginning or any position."""
    with _system(path, "read") as (system, name):
        opened = system.open(name, "rb", block_size=_BLOCK_SIZE)
    return io.BufferedReader(_RemoteFile(opened, path))


def read_bytes(path: str, start: int, end: int | None) -> bytes:
    """Returns the bytes of a file from `start` to `end`."""
    with _system(path, "read") as (system, name):
        # A file without content has no range, not even from byte 0 on.
        return bytes(system.cat_file(name, start=start or None, end=end))


def remove(path: str) -> None:
    """Removes a file."""
    with _system(path, "removed") as (system, name):
        system.rm_file(name)


def send(descriptor: int, path: str) -> None:
    """Writes an open local file to a remote one, whole or not at all."""
    local_path = f"/dev/fd/{descriptor}"
    with _system(path, "written") as (system, name):
        if path.partition("://")[0] in _APPEAR_WHOLE:
            system.put_file(local_path, name)
            return
        system.makedirs(os.path.dirname(name), exist_ok=True)
        partial = f"{name}.{uuid.uuid4().hex[:8]}.partial"
        try:
            system.put_file(local_path, partial)
            system.mv(partial, name)
        except BaseException:
            with contextlib.suppress(Exception):
                system.rm_file(partial)
            raise


@contextlib.contextmanager
def _system(path: str, done: str) -> Iterator[tuple[Any, str]]:
    """Gives the file system of a remote file and its name there."""
    with _errors_named(path, done):
        import fsspec

        options = _OPTIONS.get(path.partition("://")[0], {})
        # Without a memory of listings: other processes write, too.
        system, name = fsspec.url_to_fs(
            path, use_listings_cache=False, **options
        )
        yield system, name


@contextlib.contextmanager
def _errors_named(path: str, done: str) -> Iterator[None]:
    """Makes errors of one line of the errors of file systems, of any type."""
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"{path!r} cannot be {done}: {error}. Remote files need fsspec and "
            "the package of their file system: gcsfs for gs://, s3fs for "
            "s3:// (the extra `remote`), pyarrow for hdfs://."
        ) from error
    except Exception as error:
        text = " ".join(str(error).split())
        is_missing = isinstance(error, FileNotFoundError)
        raise (FileNotFoundError if is_missing else OSError)(
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

    def readinto(self, buffer: Any) -> int:
        with _errors_named(self._path, "read"):
            data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return int(self._file.seek(offset, whence))

    def close(self) -> None:
        self._file.close()
        super().close()
