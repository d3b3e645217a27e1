"""Opens record files for random access, and checks them first.

Data flow: record files -> [this file] -> bytes of records by number.
Floor: data. Plain Python and NumPy.

Files are compared with their sidecars before the first batch, so that a wrong
file stops a run at its start. Files without a sidecar are taken for files of
the original: static masks, with the sizes of their first record.
"""

import bisect
import dataclasses
import hashlib
import itertools
import os

import numpy as np

from albert_tf import features, files
from albert_tf.data import record_files, sidecar

_OTHER_SUFFIXES = (".json", ".partial")
# How masks are drawn when records are read; files of static masks may differ.
_DYNAMIC_SETTINGS = (
    "max_predictions_per_seq",
    "masked_lm_prob",
    "ngram",
    "favor_shorter_ngram",
    "do_whole_word_mask",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordLayout:
    """What all records of a source have in common.

    Fields are those of `PretrainingDataConfig` and `Tokenizer` of these names.
    The last three are None if there is no sidecar.
    """

    masking: str
    max_seq_length: int
    num_prediction_slots: int
    pair_objective: str | None = None
    tokenizer_hash: str | None = None
    vocab_size: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class _CheckedFile:
    """A file that agrees with its sidecar, if it has one."""

    records: record_files.RecordFile
    layout: RecordLayout
    sidecar: sidecar.Sidecar | None

    @property
    def path(self) -> str:
        return self.records.path

    @property
    def shared(self) -> dict[str, object]:
        """What the files of a source must have in common, by name."""
        values = dict(vars(self.layout))
        if self.sidecar is not None and self.layout.masking == "dynamic":
            for name in _DYNAMIC_SETTINGS:
                values[name] = getattr(self.sidecar.config, name)
        return values

    @property
    def fingerprint(self) -> str:
        """What identifies the content of the file."""
        if self.sidecar is not None:
            return self.sidecar.sha256
        size = os.path.getsize(self.path)
        return f"{len(self.records)} records, {size} bytes"


class RecordSource:
    """Gives access to records by number, over all files of a data set.

    Created by `open_records`.

    Attributes:
        layout: What the records have in common.
        sidecar: Sidecar of the first file that has one, or None.
        num_records: N; records are numbered from 0 to N - 1.
        fingerprint: Hexadecimal digest of the content of all files in their
            order, so that a run can detect that its data changed.
    """

    def __init__(self, opened: list[_CheckedFile]) -> None:
        self._files = [file.records for file in opened]
        self._first_numbers = [0, *itertools.accumulate(map(len, self._files))]
        self.num_records = self._first_numbers[-1]
        described = _best_described(opened)
        self.layout = described.layout
        self.sidecar = described.sidecar
        content = "\n".join(file.fingerprint for file in opened)
        self.fingerprint = hashlib.sha256(content.encode()).hexdigest()

    def get(self, indices: np.ndarray) -> list[bytes]:
        """Returns the serialized records with these numbers, in this order."""
        return [self._record(int(index)) for index in indices]

    def _record(self, index: int) -> bytes:
        if not 0 <= index < self.num_records:
            raise IndexError(
                f"There is no record {index}: the source has "
                f"{self.num_records} records, numbered from 0."
            )
        file = bisect.bisect_right(self._first_numbers, index) - 1
        return self._files[file].get(index - self._first_numbers[file])


def open_records(
    patterns: str | list[str],
    *,
    max_seq_length: int | None = None,
    max_predictions: int | None = None,
) -> RecordSource:
    """Opens record files and checks them against their sidecars.

    Args:
        patterns: Paths or globs, in a list or separated by commas. Sidecars
            and unfinished files that a glob matches are skipped.
        max_seq_length: The S that the caller expects, if any.
        max_predictions: The `max_predictions_per_seq` that the caller
            expects, if any. For records with permutation it may also be P.

    Raises:
        FileNotFoundError: A pattern matches nothing, or no record file.
        ValueError: A file is damaged, cut short, or differs from its sidecar;
            the files differ from each other or from what the caller expects;
            or there is no record. The message names file and values.
    """
    found = files.expand_globs(patterns)
    paths = [p for p in found if not p.endswith(_OTHER_SUFFIXES)]
    if not paths:
        raise FileNotFoundError(
            f"{patterns!r} matches only sidecars and unfinished files "
            f"({found[0]!r}). Pass record files."
        )
    opened = [file for path in paths if (file := _open_file(path))]
    if not opened:
        raise ValueError(
            f"There is no record in {paths[0]!r}"
            + (f" or the {len(paths) - 1} other files" if paths[1:] else "")
            + ". Build the records again from a longer text."
        )
    described = _best_described(opened)
    for other in opened:
        _check_agreement(described, other)
    _check_expected(described, max_seq_length, max_predictions)
    return RecordSource(opened)


def _open_file(path: str) -> _CheckedFile | None:
    """Opens and checks a file; None if it has no record."""
    facts = sidecar.read(path)
    if facts is not None:
        _check_size(path, facts.num_bytes)
    records = record_files.RecordFile(path)
    if facts is not None and len(records) != facts.counts.records:
        raise ValueError(
            f"{path!r} has {len(records)} records, but its sidecar says "
            f"{facts.counts.records}. Build or copy the file again."
        )
    if not len(records):
        return None
    if facts is None:
        layout = _infer_layout(records)
    else:
        layout = RecordLayout(
            masking=facts.config.masking,
            max_seq_length=facts.config.max_seq_length,
            num_prediction_slots=facts.config.num_prediction_slots,
            pair_objective=facts.config.pair_objective,
            tokenizer_hash=facts.tokenizer_hash,
            vocab_size=facts.vocab_size,
        )
    return _CheckedFile(records=records, layout=layout, sidecar=facts)


def _check_size(path: str, expected: int) -> None:
    size = os.path.getsize(path)
    if size != expected:
        problem = "was cut short" if size < expected else "is too long"
        raise ValueError(
            f"{path!r} {problem}: it has {size} bytes, but its sidecar says "
            f"{expected}. Build or copy the file again."
        )


def _infer_layout(records: record_files.RecordFile) -> RecordLayout:
    """Takes the sizes from the first record, where there is no sidecar."""
    values = record_files.decode_example(records.get(0))
    sizes = {name: len(column) for name, column in values.items()}
    layout = RecordLayout(
        masking="static",
        max_seq_length=sizes.get("input_ids", 0),
        num_prediction_slots=sizes.get("masked_lm_positions", 0),
    )
    wanted = features.static_pretraining_features(
        max_seq_length=layout.max_seq_length,
        max_predictions=layout.num_prediction_slots,
    )
    for feature in wanted:
        size = sizes.get(feature.record_name, 0)
        if not size or size != feature.length:
            raise ValueError(
                f"{records.path!r} has no sidecar, and its first record is "
                "not a pretraining record with static masks: "
                f"{feature.record_name!r} has {size} values, expected "
                f"{feature.length or 'some'}. Pass pretraining records; keep "
                "dynamic records together with their sidecars."
            )
    return layout


def _best_described(opened: list[_CheckedFile]) -> _CheckedFile:
    """Returns the first file with a sidecar, or else the first file."""
    return next((file for file in opened if file.sidecar), opened[0])


def _check_agreement(one: _CheckedFile, other: _CheckedFile) -> None:
    """Refuses files that differ in what both must share, where both know it."""
    theirs = other.shared
    for name, value in one.shared.items():
        if None not in (value, theirs[name]) and value != theirs[name]:
            raise ValueError(
                f"The record files differ in `{name}`: {one.path!r} has "
                f"{value!r}, {other.path!r} has {theirs[name]!r}. Pass files "
                "of one build."
            )


def _check_expected(
    file: _CheckedFile, max_seq_length: int | None, max_predictions: int | None
) -> None:
    # TF1: with permutation, the original's reader expects P in this flag, which
    # is twice the flag of its builder.
    sizes = [file.layout.num_prediction_slots]
    if file.sidecar is not None:
        sizes.append(file.sidecar.config.max_predictions_per_seq)
    for name, expected, possible in (
        ("max_seq_length", max_seq_length, [file.layout.max_seq_length]),
        ("max_predictions_per_seq", max_predictions, sizes),
    ):
        if expected is not None and expected not in possible:
            raise ValueError(
                f"`{name}` is {possible[-1]} in {file.path!r}. Received: "
                f"{name}={expected}. Pass {possible[-1]}, or build other "
                "records."
            )
