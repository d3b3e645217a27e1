"""Opens records of several sequence lengths: one source for each length.

Data flow: record files -> [this file] -> a `RecordSource` of each length.
"""

from collections.abc import Collection
from typing import Any

from albert_tf.data import (
    record_files,
    record_index,
    record_source,
    remote_files,
    sidecar,
)
from albert_tf.data.record_source import RecordSource


def open_records(
    patterns: str, lengths: Collection[int], **options: Any
) -> dict[int, RecordSource]:
    """Opens record files, divided by their sequence length.

    Args:
        patterns: Paths or globs, separated by commas.
        lengths: The S of the records that the caller reads, each once.
        **options: Those of `record_source.open_records`.

    Returns:
        The records of each length.

    Raises:
        FileNotFoundError: See `record_source.open_records`.
        ValueError: See there; or there are no records of a length, or there
            are records of another one.
    """
    if len(lengths) == 1:
        paths: dict[int, Any] = dict.fromkeys(lengths, patterns)
    else:
        paths = _paths_by_length(patterns, lengths)
    return {
        length: record_source.open_records(
            paths[length], max_seq_length=length, **options
        )
        for length in lengths
    }


def _paths_by_length(
    patterns: str, lengths: Collection[int]
) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {length: [] for length in lengths}
    for path in remote_files.expand_globs(patterns):
        if path.endswith(record_index.OTHER_SUFFIXES):
            continue
        length = _length_of(path)
        if length is None:
            continue
        if length not in found:
            raise ValueError(
                f"{path!r} has records of the length {length}, which no phase "
                f"reads; they read {', '.join(map(str, found))}. Leave the "
                "file out, or correct --length_schedule."
            )
        found[length].append(path)
    for length, paths in found.items():
        if not paths:
            raise ValueError(
                f"No file of {patterns!r} has records of the length {length}, "
                "which a phase reads. Build them with "
                f"--max_seq_length={length}, or correct --length_schedule."
            )
    return found


def _length_of(path: str) -> int | None:
    """Returns the length of a file's records; None if it has none."""
    facts = sidecar.read(path)
    if facts is not None:
        return facts.config.max_seq_length
    records = record_files.RecordFile(path)
    if not len(records):
        return None
    return record_source.infer_layout(records).max_seq_length
