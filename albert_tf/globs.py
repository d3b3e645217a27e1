"""Names of files, local or remote: globs that must match, and shards."""

import glob
import os
import re
from collections.abc import Callable
from concurrent import futures
from typing import TypeVar

from albert_tf import files

T = TypeVar("T")

_SHARDS = re.compile(r"(?P<stem>.*[^/])@(?P<count>\d+)", re.DOTALL)
_MAX_SHARDS = 99_999
# Requests to remote file systems at the same time.
_NUM_THREADS = 32


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
            status = name if files.is_remote(name) else os.stat(name)[1:3]
            first_names.setdefault(status, name)
    return list(first_names.values())


def _matches(pattern: str) -> list[str]:
    if not files.is_remote(pattern) and os.path.isfile(pattern):
        return [pattern]
    names = shard_names(pattern)
    if names != [pattern]:
        return names
    if files.is_remote(pattern):
        names = files.remote_files().glob(pattern)
    else:
        names = list(filter(os.path.isfile, glob.glob(pattern, recursive=True)))
    if not names:
        raise FileNotFoundError(
            f"No file matches {pattern!r}. Check the path or the pattern."
        )
    return sorted(names)


def for_all(function: Callable[[str], T], paths: list[str]) -> list[T]:
    """Calls a function with all paths: if there are remote ones, in threads."""
    if not any(map(files.is_remote, paths)):
        return [*map(function, paths)]
    with futures.ThreadPoolExecutor(_NUM_THREADS) as pool:
        return [*pool.map(function, paths)]
