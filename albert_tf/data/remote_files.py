"""Record files of remote file systems, those that TensorFlow knows: `gs://`.

They are not mapped into memory: each look at one is a request. So only sidecars
and a few records are read here, and all others by `graph_reading.py`.

TensorFlow is imported when a remote file is met.
"""

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import TypeVar

from albert_tf import files
from albert_tf.data.record_index import (
    CHECKSUM,
    ENTRY,
    ENTRY_AND_NEXT,
    HEADER_SIZE,
    index_path,
    masked_checksum,
)

T = TypeVar("T")

# Requests at the same time.
_NUM_THREADS = 32
_CHUNK_SIZE = 2**24


def expand_globs(patterns: str | list[str]) -> list[str]:
    """Returns the files that local and remote patterns match.

    Raises:
        FileNotFoundError: See `files.expand_globs`.
        ValueError: A remote file system is not known or does not answer.
    """
    return files.expand_globs(patterns, glob_remote=_glob)


def _glob(pattern: str) -> list[str]:
    import tensorflow as tf

    with _errors_named(pattern):
        return list(tf.io.gfile.glob(pattern))


def open_all(open_file: Callable[[str], T], paths: list[str]) -> list[T]:
    """Calls a function with all paths: if there are remote ones, in threads."""
    if not any(map(files.is_remote, paths)):
        return [*map(open_file, paths)]
    with futures.ThreadPoolExecutor(_NUM_THREADS) as pool:
        return [*pool.map(open_file, paths)]


def read(path: str, start: int = 0, count: int = -1) -> bytes:
    """Returns bytes of a remote file; a negative count is that of the rest.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It cannot be read.
    """
    import tensorflow as tf

    with _errors_named(path), tf.io.gfile.GFile(path, "rb") as file:
        file.seek(start)
        return bytes(file.read(count))


@contextlib.contextmanager
def _errors_named(path: str) -> Iterator[None]:
    import tensorflow as tf

    try:
        yield
    except tf.errors.NotFoundError as error:
        raise FileNotFoundError(
            f"There is no file {path!r}. Check the path."
        ) from error
    except tf.errors.OpError as error:
        raise ValueError(
            f"{path!r} cannot be read: {error.message.splitlines()[0]}. Check "
            "the path and your permissions, or copy the files to a local "
            "folder."
        ) from error


class RemoteRecordFile:
    """The records of a remote TFRecord file that has a sidecar and an index.

    For members, see `record_files.RecordFile`.

    Args:
        path: The file.
        num_records: How many records its sidecar says that it has.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It cannot be read.
    """

    def __init__(self, path: str, num_records: int) -> None:
        import tensorflow as tf

        self.path = path
        self._num_records = num_records
        with _errors_named(path):
            self.num_bytes = int(tf.io.gfile.stat(path).length)

    def __len__(self) -> int:
        return self._num_records

    @property
    def digest(self) -> str:
        """What identifies the records: the digest of the file."""
        return self.sha256()

    def get(self, number: int) -> bytes:
        """Returns a record, numbered from 0.

        Raises:
            FileNotFoundError: There is no index.
            ValueError: It does not agree with its checksum.
        """
        start, checksum, end = ENTRY_AND_NEXT.unpack(
            read(
                index_path(self.path),
                number * ENTRY.size,
                ENTRY_AND_NEXT.size,
            )
        )
        size = end - start - HEADER_SIZE - CHECKSUM.size
        record = read(self.path, start + HEADER_SIZE, size)
        if masked_checksum(record) != checksum:
            raise ValueError(
                f"{self.path!r} is damaged, or is not the file that its index "
                f"describes: record {number}, at byte {start}, does not agree "
                "with its checksum. Copy it again with its sidecar and index."
            )
        return record

    def check_size(self) -> None:
        """Checks nothing: a remote file is read anew each time."""

    def check_index(self) -> None:
        """Checks nothing: training reads a remote file without its index."""

    def sha256(self) -> str:
        """Returns the hexadecimal digest of the whole file."""
        digest = hashlib.sha256()
        for start in range(0, self.num_bytes, _CHUNK_SIZE):
            digest.update(read(self.path, start, _CHUNK_SIZE))
        return digest.hexdigest()

    def verified(self) -> Iterator[bytes]:
        """Yields the records in order; raises as `get`."""
        return map(self.get, range(len(self)))
