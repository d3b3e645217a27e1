"""Files: globs that must match, text and JSON, whole writes, locks.

Floor 0: plain Python. Local files only; remote paths (`gs://...`) must be
mounted or copied first, and are refused with that advice.
"""

import contextlib
import fcntl
import glob
import gzip
import hashlib
import json
import os
import shutil
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

Path = str | os.PathLike[str]

_BYTE_ORDER_MARK = "\ufeff"
_NUM_PATHS_SHOWN = 3
_LOCK_DIGITS = 16


def check_local(path: Path) -> str:
    """Returns `path` as a string.

    Raises:
        ValueError: It has a scheme (`gs://`), which nothing here can read.
    """
    text = os.fspath(path)
    if "://" in text:
        raise ValueError(
            f"{text!r} is a remote path. Mount or copy it to a local folder "
            "and pass that."
        )
    return text


def expand_globs(patterns: str | list[str]) -> list[str]:
    """Returns the files that comma-separated glob patterns match.

    Files come pattern by pattern, sorted within each, none twice, not even
    under another name (`a`, `./a`, a link to it): the first name stays.

    Raises:
        FileNotFoundError: A pattern matches no file; the message names it.
    """
    if isinstance(patterns, str):
        patterns = patterns.split(",")
    found: dict[tuple[int, int], str] = {}
    for pattern in (check_local(p.strip()) for p in patterns):
        if not pattern:
            continue
        matches = [pattern] if os.path.isfile(pattern) else []
        matches = matches or sorted(
            name for name in glob.glob(pattern) if os.path.isfile(name)
        )
        if not matches:
            raise FileNotFoundError(
                f"No file matches {pattern!r}. Check the path or the pattern."
            )
        for name in matches:
            found.setdefault(_identity(name), name)
    if not found:
        raise FileNotFoundError("No input file is named. Pass at least one.")
    return list(found.values())


def _identity(path: str) -> tuple[int, int]:
    """Returns what a file has in common with its other names."""
    status = os.stat(path)
    return status.st_dev, status.st_ino


def list_paths(paths: Sequence[str]) -> str:
    """Returns paths for a message: the first few, and how many more."""
    shown = ", ".join(map(repr, paths[:_NUM_PATHS_SHOWN]))
    more = len(paths) - _NUM_PATHS_SHOWN
    return f"{shown} and {more:,} more" if more > 0 else shown


def read_text(path: Path) -> str:
    """Reads a UTF-8 file.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is not UTF-8.
    """
    name = check_local(path)
    try:
        with open(name, encoding="utf-8", newline="\n") as file:
            return file.read()
    except FileNotFoundError:
        raise FileNotFoundError(
            f"There is no file {name!r}. Check the path."
        ) from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{name!r} is not UTF-8 text: {error}.") from error


def read_lines(path: Path) -> Iterator[str]:
    r"""Yields the lines of a UTF-8 file, without their line ends.

    See `read_numbered_lines`.
    """
    return (line for _, line in read_numbered_lines(path))


def read_numbered_lines(
    path: Path, *, on_bad_line: Callable[[str], None] | None = None
) -> Iterator[tuple[int, str]]:
    r"""Yields the numbers, from 1, and lines of a UTF-8 file.

    Lines end at `\n` or `\r\n` only: U+2028 and similar characters stay in the
    text. A file whose name ends in `.gz` is decompressed. A byte order mark at
    the start of the file is removed. One line is in memory at a time.

    Args:
        path: The file.
        on_bad_line: Called with what is wrong with a line that is not UTF-8,
            which is then skipped; if None, such a line is an error.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: A line is not UTF-8 (the message names file and line), or
            the gzip data is damaged.
    """
    name = check_local(path)
    open_file = gzip.open if name.endswith(".gz") else open
    number = 0
    try:
        with open_file(name, "rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    text = line.decode("utf-8").removesuffix("\n")
                except UnicodeDecodeError as error:
                    message = (
                        f"{name}, line {number}: not UTF-8 ({error.reason} at "
                        f"byte {error.start} of the line)."
                    )
                    if on_bad_line is None:
                        raise ValueError(
                            f"{message} Convert the file to UTF-8."
                        ) from error
                    on_bad_line(message)
                    continue
                if number == 1:
                    text = text.removeprefix(_BYTE_ORDER_MARK)
                yield number, text.removesuffix("\r")
    except FileNotFoundError:
        raise FileNotFoundError(
            f"There is no file {name!r}. Check the path."
        ) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"{name}, after line {number}: damaged gzip data ({error}). "
            "Create or copy the file again."
        ) from error


def read_json(path: Path) -> Any:
    """Reads a JSON file.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is not UTF-8, or not JSON.
    """
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{os.fspath(path)} is damaged: it is not JSON ({error}). "
            "Restore or remove it."
        ) from error


def read_json_object(path: Path, *, missing_ok: bool = False) -> dict[str, Any]:
    """Reads a JSON file that holds an object.

    Args:
        path: The file.
        missing_ok: Whether to return an empty object if the file is missing.

    Raises:
        FileNotFoundError: The file is missing and `missing_ok` is false.
        ValueError: It is not UTF-8, or not a JSON object.
    """
    if missing_ok and not os.path.exists(check_local(path)):
        return {}
    values = read_json(path)
    if not isinstance(values, dict):
        raise ValueError(
            f"{os.fspath(path)} is damaged: expected a JSON object, found "
            f"{type(values).__name__}. Restore or remove it."
        )
    return values


def read_json_lines(path: Path) -> list[Any]:
    """Reads a file of one JSON value a line.

    A last line without an end of line, as a killed process leaves it, is
    ignored.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: A line is not JSON; the message has its number.
    """
    values = []
    lines = read_text(path).splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        if not line.endswith("\n"):
            break
        try:
            values.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise ValueError(
                f"{os.fspath(path)} is damaged: line {number} is not JSON "
                f"({error}). Restore or remove it."
            ) from error
    return values


@contextlib.contextmanager
def atomic_write(path: Path, *, is_shared: bool = False) -> Iterator[IO[bytes]]:
    """Opens a file for writing that takes its name only when it is whole.

    Bytes go to `<path>.partial`, which is flushed to disk and renamed when
    the block ends, and removed when it fails. Missing folders are made.

    Args:
        path: The file.
        is_shared: Whether other processes may write it at the same time; the
            last one's bytes stay. What a kill leaves behind is then not
            overwritten by the next to write.

    Raises:
        OSError: It could not be written (no space, no permission); the error
            names the file.
    """
    name = check_local(path)
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    own = f".{uuid.uuid4().hex[:8]}" if is_shared else ""
    partial = f"{name}{own}.partial"
    try:
        with open(partial, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, name)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.remove(partial)
        if isinstance(error, OSError) and error.errno and not error.filename:
            # A failing write knows its reason but not its file.
            raise OSError(error.errno, error.strerror, name) from error
        raise


def write_text(path: Path, text: str) -> None:
    """Writes a UTF-8 file, whole or not at all."""
    with atomic_write(path) as file:
        file.write(text.encode("utf-8"))


def write_json(path: Path, values: Any, *, sort_keys: bool = False) -> None:
    """Writes a JSON file, whole or not at all."""
    text = json.dumps(values, indent=2, sort_keys=sort_keys)
    write_text(path, f"{text}\n")


def lock_path(path: Path) -> str:
    """Returns the lock file of a file, a hidden one beside it.

    Its name is short and matches no pattern for such files. The folder is
    made.
    """
    folder, name = os.path.split(os.path.realpath(check_local(path)))
    os.makedirs(folder, exist_ok=True)
    digest = hashlib.sha256(os.fsencode(name)).hexdigest()
    return os.path.join(folder, f".{digest[:_LOCK_DIGITS]}.lock")


@contextlib.contextmanager
def locked(path: Path, message: str) -> Iterator[None]:
    """Holds a lock file, which one process at a time can hold.

    The system releases the lock when the process ends, however it ends; the
    file that a killed process leaves behind locks nothing.

    Args:
        path: The lock file, which is created, and removed in the end.
        message: What to say if another process holds it.

    Raises:
        ValueError: Another process holds it.
    """
    name = check_local(path)
    with open(name, "a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The previous holder may have removed the file after it was
            # opened here, and a third process may have created another.
            if os.fstat(file.fileno()).st_nlink == 0:
                raise BlockingIOError
        except BlockingIOError:
            raise ValueError(message) from None
        try:
            yield
        finally:
            os.remove(name)


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[str]:
    """Gives a folder for writing that takes its name only when it is whole.

    Files go to `<path>.partial`, which is renamed when the block ends, and
    removed when it fails. Missing parents are made.

    Args:
        path: The folder; it must not exist when the block ends, or be empty.
    """
    name = os.path.normpath(check_local(path))
    partial = f"{name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    os.makedirs(partial)
    try:
        yield partial
        os.replace(partial, name)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
