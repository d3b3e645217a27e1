"""Files: globs that must match, text and JSON, writes that are whole or not.

Floor 0: plain Python. Local files only; remote paths (`gs://...`) must be
mounted or copied first, and are refused with that advice.
"""

import contextlib
import glob
import gzip
import json
import os
import shutil
import uuid
import zlib
from collections.abc import Iterator
from typing import IO, Any

Path = str | os.PathLike[str]

_BYTE_ORDER_MARK = "\ufeff"


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

    Files come pattern by pattern, sorted within each, none twice.

    Raises:
        FileNotFoundError: A pattern matches no file; the message names it.
    """
    if isinstance(patterns, str):
        patterns = patterns.split(",")
    found: dict[str, None] = {}
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
        found.update(dict.fromkeys(matches))
    if not found:
        raise FileNotFoundError("No input file is named. Pass at least one.")
    return list(found)


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

    Lines end at `\n` or `\r\n` only: U+2028 and similar characters stay in the
    text. A file whose name ends in `.gz` is decompressed. A byte order mark at
    the start of the file is removed. One line is in memory at a time.

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
                text = line.decode("utf-8").removesuffix("\n")
                if number == 1:
                    text = text.removeprefix(_BYTE_ORDER_MARK)
                yield text.removesuffix("\r")
    except FileNotFoundError:
        raise FileNotFoundError(
            f"There is no file {name!r}. Check the path."
        ) from None
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name}, line {number}: not UTF-8 ({error.reason} at byte "
            f"{error.start} of the line). Convert the file to UTF-8."
        ) from error
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
