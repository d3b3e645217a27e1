"""Opens record files for random access, and checks them first.

Data flow: record files -> [this file] -> bytes of records by number.

Files are compared with their sidecars before the first batch, so that a wrong
file stops a run at its start. Files without a sidecar are taken for files of
the original: static masks, with the sizes of their first record.
"""

import bisect
import dataclasses
import functools
import hashlib
import itertools
import logging
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from albert_tf import features
from albert_tf.data import (
    masking,
    record_files,
    record_index,
    remote_files,
    shard_sets,
    sidecar,
)
from albert_tf.data.record_files import RecordFile, RecordFiles
from albert_tf.data.remote_files import RemoteRecordFile
from albert_tf.files import is_remote

_LOGGER = logging.getLogger(__name__)

AnyRecordFile = RecordFile | RemoteRecordFile

_SAMPLE_SIZE = 100
# A share of masked tokens below this part of `masked_lm_prob` is worth a
# warning.
_LARGE_PART = 2 / 3
# Fields of `PretrainingDataConfig` that say how masks are drawn: of static
# records when they are built, of dynamic ones when they are read.
MASK_SETTINGS = (
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
    The last four are None if there is no sidecar.
    """

    masking: str
    max_seq_length: int
    num_prediction_slots: int
    pair_objective: str | None = None
    tokenizer_hash: str | None = None
    vocab_size: int | None = None
    token_boundary: bool | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class _CheckedFile:
    """A file that agrees with its sidecar, if it has one."""

    records: AnyRecordFile
    layout: RecordLayout
    sidecar: sidecar.Sidecar | None

    @property
    def path(self) -> str:
        return self.records.path

    @property
    def mask_settings(self) -> dict[str, object]:
        """How masks are drawn when records are read; empty for static ones."""
        if self.sidecar is None or self.layout.masking == "static":
            return {}
        config = self.sidecar.config
        return {name: getattr(config, name) for name in MASK_SETTINGS}

    @property
    def shared(self) -> dict[str, object]:
        """What the files of a source must have in common, by name."""
        return vars(self.layout) | self.mask_settings

    @property
    def fingerprint(self) -> str:
        """What identifies the content of the file."""
        return self.sidecar.sha256 if self.sidecar else self.records.digest


class Sample(NamedTuple):
    """What some records hold: the share of masked tokens, the largest id."""

    masked_share: float
    largest_id: int


class RecordSource:
    """Gives access to records by number, over all files of a data set.

    Created by `open_records`.

    Attributes:
        layout: What the records have in common.
        sidecar: Sidecar of the first file that has one, or None; its config
            has the mask settings that `open_records` was given.
        mask_settings: How masks are drawn when records are read, by name;
            empty for static records.
        num_records: N; records are numbered from 0 to N - 1.
        paths: The file of each content, by its digest.
        sidecars: The sidecar of each file, by its path; None without one.
        fingerprint: Hexadecimal digest of the content of all files in their
            order, so that a run can detect that its data changed.
    """

    def __init__(self, opened: list[_CheckedFile]) -> None:
        self._files = [file.records for file in opened]
        self.sidecars = {file.path: file.sidecar for file in opened}
        self._first_numbers = [0, *itertools.accumulate(map(len, self._files))]
        self.num_records = self._first_numbers[-1]
        described = _best_described(opened)
        self.layout = described.layout
        self.sidecar = described.sidecar
        self.mask_settings = described.mask_settings
        digests = [file.fingerprint for file in opened]
        self.fingerprint = hashlib.sha256(
            "\n".join(digests).encode()
        ).hexdigest()
        self.paths: dict[str, str] = {}
        for file, digest in zip(opened, digests, strict=True):
            if self.paths.setdefault(digest, file.path) != file.path:
                _LOGGER.warning(
                    "%r holds the same records as %r, so they are read twice "
                    "as often.",
                    file.path,
                    self.paths[digest],
                )

    @property
    def files(self) -> RecordFiles:
        """The files, for those who read them by themselves."""
        return RecordFiles(
            [file.path for file in self._files],
            list(map(len, self._files)),
            self._first_numbers[:-1],
        )

    def get(self, indices: np.ndarray) -> list[bytes]:
        """Returns the serialized records with these numbers, in this order."""
        places = [self._place(int(index)) for index in indices]
        for file in {file for file, _ in places}:
            file.check_size()
        return [file.get(number) for file, number in places]

    def sample(self) -> Sample:
        """Returns what records that are spread evenly over the source hold."""
        spread = np.linspace(0, self.num_records - 1, _SAMPLE_SIZE)
        num_tokens, num_masked, largest_id = 0, 0, 0
        for data in self.get(np.unique(spread.astype(np.int64))):
            values = record_files.decode_example(data)
            if self.sidecar is not None and self.mask_settings:
                config = self.sidecar.config
                ids = values["pair_ids"]
                length = len(ids) + config.max_seq_length - config.token_budget
                wanted = masking.num_to_predict(np.array([length]), config)
            else:
                ids = np.append(values["input_ids"], values["masked_lm_ids"])
                length = int(values["input_mask"].sum())
                wanted = values["masked_lm_weights"]
            num_tokens += length
            num_masked += int(wanted.sum())
            largest_id = max(largest_id, int(ids.max(initial=0)))
        return Sample(num_masked / num_tokens, largest_id)

    def _place(self, index: int) -> tuple[AnyRecordFile, int]:
        """Returns the file of a record, and its number there."""
        if not 0 <= index < self.num_records:
            raise IndexError(
                f"There is no record {index}: the source has "
                f"{self.num_records} records, numbered from 0."
            )
        file = bisect.bisect_right(self._first_numbers, index) - 1
        return self._files[file], index - self._first_numbers[file]


def open_records(
    patterns: str | list[str],
    *,
    max_seq_length: int | None = None,
    vocab_size: int | None = None,
    mask_settings: Mapping[str, Any] | None = None,
    verify: bool = False,
) -> RecordSource:
    """Opens record files and checks them against their sidecars.

    Args:
        patterns: Paths or globs, in a list or separated by commas. Sidecars,
            indexes and unfinished files that a glob matches are skipped.
        max_seq_length: The S that the caller expects, if any.
        vocab_size: The V of the model that reads the records, if any; it is
            compared with the ids of some of them.
        mask_settings: Values for some of `MASK_SETTINGS`, by name; None is the
            records' own value. Masks of dynamic records are drawn with them;
            static records must have been built with them. For records with
            permutation, `max_predictions_per_seq` may also be P.
        verify: Whether to read all files and compare their checksums.

    Raises:
        FileNotFoundError: A pattern matches nothing, or no record file.
        ValueError: A file is damaged, cut short, or differs from its sidecar;
            shards are of different builds; the files differ from each other
            or from what the caller expects; or there is no record. The message
            names file and values.
    """
    found = remote_files.expand_globs(patterns)
    paths = [p for p in found if not p.endswith(record_index.OTHER_SUFFIXES)]
    if not paths:
        raise FileNotFoundError(
            f"{patterns!r} matches only sidecars, indexes and unfinished files "
            f"({found[0]!r}). Pass record files."
        )
    given = mask_settings or {}
    chosen = {name: v for name, v in given.items() if v is not None}
    open_file = functools.partial(_open_file, mask_settings=chosen)
    found_files = remote_files.open_all(open_file, paths)
    opened = [file for file in found_files if file and len(file.records)]
    if not opened:
        raise ValueError(
            f"There is no record in {paths[0]!r}"
            + (f" or the {len(paths) - 1} other files" if paths[1:] else "")
            + ". Build the records again from a longer text."
        )
    described_by: dict[str, sidecar.Sidecar | None] = dict.fromkeys(paths)
    described_by |= {file.path: file.sidecar for file in found_files if file}
    shard_sets.check(described_by)
    described = _best_described(opened)
    for other in opened:
        _check_agreement(described, other)
        _check_expected(other, {"max_seq_length": max_seq_length, **chosen})
        if verify:
            verify_file(other.records, other.sidecar)
    source = RecordSource(opened)
    _check_sample(source, vocab_size)
    return source


def report_common_files(
    train_records: RecordSource | None, eval_records: RecordSource | None
) -> None:
    """Warns of files to evaluate on that are also trained on."""
    if not train_records or not eval_records:
        return
    for digest in train_records.paths.keys() & eval_records.paths:
        _LOGGER.warning(
            "%r holds records that are also trained on, so its scores say "
            "nothing about other text. Build an --eval_file of held-out text.",
            eval_records.paths[digest],
        )
    shard_sets.report_common_text(train_records.sidecars, eval_records.sidecars)


def _open_file(
    path: str, mask_settings: Mapping[str, Any]
) -> _CheckedFile | None:
    """Opens and checks a file; None if it has no record and no sidecar."""
    records: AnyRecordFile
    facts = sidecar.read(path)
    if facts is not None and is_remote(path):
        records = RemoteRecordFile(path, facts.counts.records)
        _check_size(path, records.num_bytes, facts.num_bytes)
    else:
        if facts is not None:
            _check_size(path, os.path.getsize(path), facts.num_bytes)
        sha256 = None if facts is None else facts.sha256
        records = RecordFile(path, sha256=sha256)
    if facts is not None and len(records) != facts.counts.records:
        raise ValueError(
            f"{path!r} has {len(records)} records, but its sidecar says "
            f"{facts.counts.records}. Build or copy the file again."
        )
    if not len(records):
        _LOGGER.warning("%r has no record.", path)
        if facts is None:
            return None
    if facts is None:
        layout = infer_layout(records)
    else:
        if facts.config.masking == "dynamic":
            config = dataclasses.replace(facts.config, **mask_settings)
            facts = dataclasses.replace(facts, config=config)
        layout = RecordLayout(
            masking=facts.config.masking,
            max_seq_length=facts.config.max_seq_length,
            num_prediction_slots=facts.config.num_prediction_slots,
            pair_objective=facts.config.pair_objective,
            tokenizer_hash=facts.tokenizer_hash,
            vocab_size=facts.vocab_size,
            token_boundary=facts.config.token_boundary,
        )
    return _CheckedFile(records=records, layout=layout, sidecar=facts)


def verify_file(records: AnyRecordFile, facts: sidecar.Sidecar | None) -> None:
    """Reads a whole file and compares its checksums.

    Raises:
        ValueError: A record or the index is damaged, or the file is not the
            one that its sidecar describes.
    """
    if facts is not None:
        digest = records.sha256()
        if digest == facts.sha256:
            records.check_index()
            return
    for _ in records.verified():
        pass
    if facts is not None:
        raise ValueError(
            f"{records.path!r} is not the file that its sidecar describes: its "
            f"sha256 is {digest}, expected {facts.sha256}. Build or copy both "
            "again."
        )


def _check_sample(source: RecordSource, vocab_size: int | None) -> None:
    """Checks the ids of some records; says how many tokens are masked."""
    share, largest_id = source.sample()
    if vocab_size is not None and largest_id >= vocab_size:
        raise ValueError(
            f"{next(iter(source.paths.values()))!r} or a file beside it has "
            f"the token id {largest_id}, but the model has "
            f"vocab_size={vocab_size}. Pass records and a config of the same "
            "vocabulary."
        )
    _LOGGER.info(
        "%d records, %.1f%% of the tokens masked.",
        source.num_records,
        100 * share,
    )
    build = source.sidecar and source.sidecar.config
    if build and share < _LARGE_PART * build.masked_lm_prob:
        _LOGGER.warning(
            "Only %.1f%% of the tokens are masked, although masked_lm_prob is "
            "%g, because max_predictions_per_seq is %d. %s",
            100 * share,
            build.masked_lm_prob,
            build.max_predictions_per_seq,
            "Pass a larger --max_predictions_per_seq."
            if source.mask_settings
            else "Build the records with a larger one, or with "
            "--masking=dynamic.",
        )


def _check_size(path: str, size: int, expected: int) -> None:
    if size != expected:
        problem = "was cut short" if size < expected else "is too long"
        raise ValueError(
            f"{path!r} {problem}: it has {size} bytes, but its sidecar says "
            f"{expected}. Build or copy the file again."
        )


def infer_layout(records: AnyRecordFile) -> RecordLayout:
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


def _check_expected(file: _CheckedFile, expected: Mapping[str, Any]) -> None:
    """Refuses a file that has other settings than the caller expects."""
    # TF1: with permutation, the original's reader expects P in this flag, which
    # is twice the flag of its builder.
    known = {
        "max_seq_length": [file.layout.max_seq_length],
        "max_predictions_per_seq": [file.layout.num_prediction_slots],
    }
    if file.sidecar is not None:
        for name in MASK_SETTINGS:
            own = getattr(file.sidecar.config, name)
            known[name] = [*known.get(name, ()), own]
    for name, value in expected.items():
        possible = known.get(name)
        if value is None or (possible and value in possible):
            continue
        if possible is None:
            raise ValueError(
                f"`{name}` cannot be chosen for {file.path!r}: its masks were "
                "drawn when it was built, and there is no sidecar. Received: "
                f"{name}={value}. Leave it out."
            )
        raise ValueError(
            f"`{name}` is {possible[-1]} in {file.path!r}. Received: "
            f"{name}={value}. Pass {possible[-1]}, or build other records"
            + (
                "; masks can be chosen for those of masking='dynamic'."
                if name in MASK_SETTINGS
                else "."
            )
        )
