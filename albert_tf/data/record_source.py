"""Record files opened for reading: checked, and any record at once.

Data flow: record files -> [this file] -> bytes of records by number.
Floor: data. Plain Python and NumPy.

Every claim of the sidecars is checked before the first batch, so that a wrong
file stops a run at its start. Files without a sidecar are taken for the
original's: static masks, with sizes as in their first record.
"""

import bisect
import dataclasses
import hashlib
import itertools
import mmap
import os
from collections.abc import Mapping

import numpy as np

from albert_tf import features, files
from albert_tf.data import record_files, sidecar

_SUFFIXES_OF_OTHERS = (".json", ".partial")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordLayout:
    """What all records of a source have in common.

    Everything that has a default is None if no sidecar tells it.

    Args:
        masking: `static` or `dynamic`.
        max_seq_length: S.
        num_prediction_slots: P.
        pair_objective: `sop`, `nsp` or `none`.
        tokenizer_hash: Digest of vocabulary and normalisation.
        vocab_size: V.
        special_ids: Ids by name: pad, unk, cls, sep, mask.
        forbidden_ids: Ids that a random replacement must not be.
    """

    masking: str
    max_seq_length: int
    num_prediction_slots: int
    pair_objective: str | None = None
    tokenizer_hash: str | None = None
    vocab_size: int | None = None
    special_ids: Mapping[str, int] | None = None
    forbidden_ids: tuple[int, ...] | None = None

    @classmethod
    def from_sidecar(cls, facts: sidecar.Sidecar) -> "RecordLayout":
        """Returns the part of a sidecar that all files must share."""
        return cls(
            masking=facts.masking,
            max_seq_length=facts.max_seq_length,
            num_prediction_slots=facts.num_prediction_slots,
            pair_objective=facts.pair_objective,
            tokenizer_hash=facts.tokenizer_hash,
            vocab_size=facts.vocab_size,
            special_ids=facts.special_ids,
            forbidden_ids=tuple(facts.forbidden_ids),
        )


# By what masks are drawn while reading; of static ones, it may differ.
_DYNAMIC_SETTINGS = (
    "max_predictions_per_seq",
    "masked_lm_prob",
    "ngram",
    "favor_shorter_ngram",
    "do_whole_word_mask",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _RecordFile:
    """One checked file and where its records are."""

    path: str
    layout: RecordLayout
    facts: sidecar.Sidecar | None
    offsets: np.ndarray
    lengths: np.ndarray

    @property
    def num_records(self) -> int:
        return len(self.offsets)

    @property
    def shared(self) -> dict[str, object]:
        """What all files of a source must have in common, by name."""
        values = dict(vars(self.layout))
        if self.layout.masking == "dynamic":
            for name in _DYNAMIC_SETTINGS:
                values[name] = getattr(self.facts, name)
        return values

    @property
    def identity(self) -> str:
        """What stands for the content of the file."""
        if self.facts is not None:
            return self.facts.sha256
        return f"{self.num_records} records, {os.path.getsize(self.path)} bytes"


class RecordSource:
    """Records by number, over all files of a data set.

    Made by `open_records`. The bytes are mapped, not read, so that the
    operating system keeps in memory what is used.

    Args:
        opened: At least one file, in the order of the numbering.

    Attributes:
        layout: What the records have in common.
        facts: Sidecar of the first file that has one, or None.
        num_records: N; records are numbered from 0 to N - 1.
        fingerprint: Hexadecimal digest of the content of all files in their
            order, so that a run can tell that its data changed.
    """

    def __init__(self, opened: list[_RecordFile]) -> None:
        self._maps = [_map(file.path) for file in opened]
        self._offsets = [file.offsets for file in opened]
        self._lengths = [file.lengths for file in opened]
        counts = [file.num_records for file in opened]
        self._first_numbers = [0, *itertools.accumulate(counts)]
        described = _best_described(opened)
        self.layout = described.layout
        self.facts = described.facts
        self.num_records = sum(counts)
        identities = "\n".join(file.identity for file in opened)
        self.fingerprint = hashlib.sha256(identities.encode()).hexdigest()

    def get(self, indices: np.ndarray) -> list[bytes]:
        """Returns the records with these numbers, in this order."""
        return [self._record(int(index)) for index in indices]

    def _record(self, index: int) -> bytes:
        if not 0 <= index < self.num_records:
            raise IndexError(
                f"There is no record {index}; the source has "
                f"{self.num_records}."
            )
        file = bisect.bisect_right(self._first_numbers, index) - 1
        place = index - self._first_numbers[file]
        offset = int(self._offsets[file][place])
        length = int(self._lengths[file][place])
        return self._maps[file][offset : offset + length]


def open_records(
    patterns: str | list[str],
    *,
    max_seq_length: int | None = None,
    max_predictions: int | None = None,
) -> RecordSource:
    """Opens record files and checks them against their sidecars.

    Args:
        patterns: Paths or globs, in a list or separated by commas. Sidecars
            and unfinished files that a glob matches are left out.
        max_seq_length: The S that the caller expects, if any.
        max_predictions: The masked positions a record may have that the
            caller expects, if any. With permutation, either that or P.

    Raises:
        FileNotFoundError: A pattern matches nothing, or no record file.
        ValueError: A file is damaged, cut short, or not what its sidecar says;
            the files differ from each other or from what the caller expects;
            or there is no record. The message names file and values.
    """
    found = files.expand_globs(patterns)
    paths = [p for p in found if not p.endswith(_SUFFIXES_OF_OTHERS)]
    if not paths:
        raise FileNotFoundError(
            f"{patterns!r} matches only sidecars and unfinished files "
            f"({found[0]!r}). Pass record files."
        )
    opened = [_open_file(path) for path in paths]
    opened = [file for file in opened if file.num_records]
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


def _open_file(path: str) -> _RecordFile:
    facts = sidecar.read(path)
    if facts is not None:
        _check_size(path, facts)
    offsets, lengths = record_files.index_records(path)
    if facts is not None:
        layout = RecordLayout.from_sidecar(facts)
        _check_count(path, len(offsets), facts)
    else:
        layout = _infer_layout(path, offsets, lengths)
    return _RecordFile(
        path=path, layout=layout, facts=facts, offsets=offsets, lengths=lengths
    )


def _check_size(path: str, facts: sidecar.Sidecar) -> None:
    size = os.path.getsize(path)
    if size != facts.num_bytes:
        problem = "was cut short" if size < facts.num_bytes else "is too long"
        raise ValueError(
            f"{path!r} {problem}: it has {size} bytes, and its sidecar says "
            f"{facts.num_bytes}. Build or copy the file again."
        )


def _check_count(path: str, num_records: int, facts: sidecar.Sidecar) -> None:
    if num_records != facts.counts["records"]:
        raise ValueError(
            f"{path!r} has {num_records} records, and its sidecar says "
            f"{facts.counts['records']}. Build or copy the file again."
        )


def _infer_layout(
    path: str, offsets: np.ndarray, lengths: np.ndarray
) -> RecordLayout:
    """Takes the sizes from the first record: the original has no sidecars."""
    if not len(offsets):
        return RecordLayout(
            masking="static", max_seq_length=0, num_prediction_slots=0
        )
    first = slice(int(offsets[0]), int(offsets[0] + lengths[0]))
    sizes = {
        name: len(values)
        for name, values in record_files.decode_example(
            _map(path)[first]
        ).items()
    }
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
                f"{path!r} has no sidecar, and its first record is not one of "
                f"pretraining with static masks: {feature.record_name!r} has "
                f"{size} values, wanted {feature.length or 'some'}. Pass "
                "pretraining records, and dynamic ones with their sidecars."
            )
    return layout


def _best_described(opened: list[_RecordFile]) -> _RecordFile:
    """Returns the first file with a sidecar, or else the first file."""
    return next((file for file in opened if file.facts), opened[0])


def _check_agreement(one: _RecordFile, other: _RecordFile) -> None:
    """Refuses files that differ in what both tell and must share."""
    theirs = other.shared
    for name, value in one.shared.items():
        if None not in (value, theirs[name]) and value != theirs[name]:
            raise ValueError(
                f"The record files differ in `{name}`: {one.path!r} has "
                f"{value!r}, {other.path!r} has {theirs[name]!r}. Pass files "
                "of one build."
            )


def _check_expected(
    file: _RecordFile, max_seq_length: int | None, max_predictions: int | None
) -> None:
    layout = file.layout
    if max_seq_length not in (None, layout.max_seq_length):
        raise ValueError(
            f"{file.path!r} has max_seq_length={layout.max_seq_length}. "
            f"Received: max_seq_length={max_seq_length}. Pass the former, or "
            "build records of the latter."
        )
    # TF1: with permutation the flag of the original's reader is P, twice that
    # of its builder.
    possible = [layout.num_prediction_slots]
    if file.facts is not None:
        possible.append(file.facts.max_predictions_per_seq)
    if max_predictions is not None and max_predictions not in possible:
        raise ValueError(
            f"{file.path!r} has max_predictions_per_seq={possible[-1]}. "
            f"Received: max_predictions_per_seq={max_predictions}. Pass the "
            "former, or build records of the latter."
        )


def _map(path: str) -> mmap.mmap:
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
