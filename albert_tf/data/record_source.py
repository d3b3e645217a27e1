"""Opens record files for random access, and checks them first.

Data flow: record files -> [this file] -> bytes of records by number.
Files without a sidecar are taken for files of the original: static masks, with
the sizes of their first record.
"""

import bisect
import collections
import copy
import functools
import hashlib
import itertools
import logging
import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf import checks, features, files, globs
from albert_tf.data import example_codec, masking, record_files, shards
from albert_tf.data.record_files import RecordFile, RemoteRecordFile
from albert_tf.data.shards import BuildCounts, Shard

_LOGGER = logging.getLogger(__name__)

_SAMPLE_SIZE = 100
# A share of masked tokens below this part of `masked_lm_prob` is worth a
# warning.
_LARGE_PART = 2 / 3
_NUMBERED = re.compile(r"(?P<stem>.*)-\d{5}-of-(?P<count>\d{5})", re.DOTALL)


_OpenShard = tuple[Shard, RecordFile]


class RecordSource:
    """Gives access to records by number, over all files of a data set.

    `shards` are all files; `shard` describes their records, with the mask
    settings that `open_records` was given. `counts` has the number of records
    of each file, `first_numbers` the number of its first record; `num_records`
    counts all records, and `fingerprint` is a digest of the content.
    """

    def __init__(self, opened: list[_OpenShard]) -> None:
        self.shards = [shard for shard, _ in opened]
        described = [shard for shard in self.shards if shard.has_sidecar]
        self.shard = [*described, *self.shards][0]
        self._files = [records for _, records in opened]
        self.counts = [len(records) for records in self._files]
        *self.first_numbers, self.num_records = itertools.accumulate(
            self.counts, initial=0
        )
        digests = "\n".join(shard.sha256 for shard in self.shards)
        self.fingerprint = hashlib.sha256(digests.encode()).hexdigest()

    def with_mask_rate(self, masked_lm_prob: float | None) -> "RecordSource":
        """Returns these records with another share of masked tokens.

        The maximum number of them changes in proportion. None changes nothing.
        """
        settings = self.shard.settings
        if masked_lm_prob in (None, settings.masked_lm_prob):
            return self
        if settings.masking == "static":
            raise ValueError(
                "`mask_schedule` needs records of --masking=dynamic; the masks "
                f"of {self.shard.path!r} were drawn when it was built. Build "
                "it anew, or pass an empty --mask_schedule=."
            )
        ratio = masked_lm_prob / settings.masked_lm_prob
        slots = math.ceil(settings.max_predictions_per_seq * ratio)
        masks = {
            "masked_lm_prob": masked_lm_prob,
            "max_predictions_per_seq": min(slots, settings.token_budget),
        }
        source = copy.copy(self)
        source.shard = self.shard.with_masks(masks)
        return source

    def get(self, indices: np.ndarray) -> list[bytes]:
        """Returns the serialized records with these numbers, in this order."""
        records, starts = [], self.first_numbers
        for index in map(int, indices):
            file = bisect.bisect_right(starts, index) - 1
            records.append(self._files[file].get(index - starts[file]))
        return records


def open_records(patterns: str | list[str], **options: Any) -> RecordSource:
    """Opens record files of one length; see `open_by_length`."""
    [source] = open_by_length(patterns, None, **options).values()
    return source


def open_by_length(
    patterns: str | list[str],
    lengths: Collection[int] | None,
    *,
    vocab_size: int | None = None,
    mask_settings: Mapping[str, object] | None = None,
    verify: bool = False,
) -> dict[int, RecordSource]:
    """Opens record files and checks them; divides them by sequence length.

    Args:
        patterns: Paths or globs, in a list or separated by commas.
        lengths: Sequence lengths S, each of which some records must have, and
            no record another; None for one length, which is called 0.
        vocab_size: The V of the model that reads the records, if any; it is
            compared with the ids of some of them.
        mask_settings: Values for some of `MASK_SETTINGS`, by name. Masks of
            dynamic records are drawn with them; static records must have been
            built with them.
        verify: Whether to read all files and compare their checksums.
    """
    by_length, masks = collections.defaultdict(list), mask_settings or {}
    for shard, records in _open_files(patterns, masks, verify):
        length = shard.settings.max_seq_length if lengths else 0
        by_length[length].append((shard, records))
    if lengths and by_length.keys() != {*lengths}:
        examples = [f"{n} ({by_length[n][0][0].path})" for n in by_length]
        raise ValueError(
            f"The records of {patterns!r} have the lengths "
            f"{checks.listed(examples)}; the phases read "
            f"{checks.listed(lengths)}. Name other files, or correct "
            "--max_seq_length or --length_schedule."
        )
    sources = {n: RecordSource(by_length[n]) for n in lengths or by_length}
    for source in sources.values():
        for shard in source.shards:
            _check_agreement(source.shard, shard)
            _check_masks(shard, masks)
        _check_sample(source, vocab_size)
    return sources


def _open_files(
    patterns: str | list[str], masks: Mapping[str, object], verify: bool
) -> list[_OpenShard]:
    """Opens and checks files one by one; returns the files with a record."""
    paths = [
        path
        for path in globs.expand_globs(patterns)
        if not path.endswith(record_files.OTHER_SUFFIXES)
    ]
    open_file = functools.partial(_open_file, masks=masks)
    opened = globs.for_all(open_file, paths)
    check_sets([shard for shard, _ in opened])
    with_records = [(shard, file) for shard, file in opened if len(file)]
    if not with_records:
        raise ValueError(
            f"There is no record in {patterns!r}. Pass record files, or build "
            "the records again from a longer text."
        )
    if verify:
        for shard, records in with_records:
            records.verify(shard.sha256 if shard.has_sidecar else None)
    return with_records


def _open_file(path: str, masks: Mapping[str, object]) -> _OpenShard:
    try:
        shard = shards.read(path)
    except FileNotFoundError:
        if files.is_remote(path):
            raise
        records = RecordFile(path)
        return _describe(records), records
    if files.is_remote(path):
        records = RemoteRecordFile(path, shard.counts.records)
    else:
        records = RecordFile(path, sha256=shard.sha256)
    sizes = (records.num_bytes, len(records))
    expected = (shard.num_bytes, shard.counts.records)
    if sizes != expected:
        raise ValueError(
            f"{path!r} has {sizes[0]} bytes and {sizes[1]} records, but its "
            f"sidecar says {expected[0]} and {expected[1]}. Build or copy the "
            "file again."
        )
    if shard.settings.masking == "dynamic":
        shard = shard.with_masks(masks)
    return shard, records


def _describe(records: RecordFile) -> Shard:
    """Describes a file without a sidecar by its first record."""
    if not len(records):
        _LOGGER.warning("%r has no record.", records.path)
        return Shard(path=records.path, config={})
    fields = example_codec.decode_example(records.get(0))
    sizes = {name: len(column) for name, column in fields.items()}
    max_seq_length = sizes.get("input_ids", 0)
    max_predictions = sizes.get("masked_lm_positions", 0)
    for feature in features.static_pretraining_features(
        max_seq_length=max_seq_length, max_predictions=max_predictions
    ):
        size = sizes.get(feature.record_name, 0)
        if feature.is_read and (not size or size != feature.length):
            raise ValueError(
                f"{records.path!r} has no sidecar, and its first record is "
                "not a pretraining record with static masks: "
                f"{feature.record_name!r} has {size} values, expected "
                f"{feature.length or 'some'}. Pass pretraining records; keep "
                "dynamic records together with their sidecars."
            )
    return Shard(
        path=records.path,
        config={
            "masking": "static",
            "max_seq_length": max_seq_length,
            "max_predictions_per_seq": max_predictions,
        },
        counts=BuildCounts(records=len(records)),
        num_bytes=records.num_bytes,
        sha256=hashlib.sha256(records.entries).hexdigest(),
    )


def check_sets(shards: Sequence[Shard]) -> None:
    """Checks that shards of one name, `train-00000-of-00008`, are of one build.

    Warns of missing shards, and of records that are in two files.
    """
    sets = collections.defaultdict(list)
    for shard in shards:
        if name := _NUMBERED.fullmatch(shard.path):
            sets[name["stem"], int(name["count"])].append(shard)
    for (stem, count), members in sets.items():
        if len(members) < count:
            _LOGGER.warning(
                "%d of the %d shards of %r are read; the others are not named.",
                *(len(members), count, f"{stem}@{count}"),
            )
        described = [shard for shard in members if shard.has_sidecar]
        for first, second in itertools.pairwise(described):
            if differences := checks.differences(first.build, second.build):
                raise ValueError(
                    f"{first.path!r} and {second.path!r} are shards of "
                    f"different builds: {checks.listed(differences)}. Build "
                    "all shards from the same text, with the same settings."
                )
    _warn_of_overlaps(shards)


def _warn_of_overlaps(shards: Sequence[Shard]) -> None:
    """Warns of copies, and of builds with other numbers of shards."""
    builds = collections.defaultdict(list)
    for shard in shards:
        made_by = shard.build if shard.has_sidecar else {"": shard.sha256}
        if shard.counts.records:
            builds[tuple(made_by.values())].append(shard)
    for members in builds.values():
        members.sort(key=lambda shard: shard.extent)
        for first, second in itertools.pairwise(members):
            if second.extent[0] < first.extent[1]:
                _LOGGER.warning(
                    "%r holds some of the same records as %r, so they are read "
                    "twice as often. Pass the files of one build.",
                    *(second.path, first.path),
                )
                break


def report_common_text(
    trained: Sequence[Shard], evaluated: Sequence[Shard]
) -> None:
    """Warns of shards to evaluate on whose text is also trained on."""
    for shard, other in itertools.product(evaluated, trained):
        if _have_common_text(shard, other):
            _LOGGER.warning(
                "%r, to evaluate on, holds text of %r, which is also trained "
                "on, so its scores say nothing about other text. Build an "
                "--eval_file of held-out text.",
                *(shard.path, other.path),
            )
            return


def _have_common_text(shard: Shard, other: Shard) -> bool:
    if shard.sha256 == other.sha256:
        return True
    if shard.corpus_sha256 != other.corpus_sha256 or not shard.has_sidecar:
        return False
    ranges: list[Sequence[float]] = [shard.blocks, other.blocks]
    # Other records of a block are of other text, if there is one copy of it.
    if shard.build == other.build and shard.config["dupe_factor"] == 1:
        ranges = [shard.extent, other.extent]
    (start, end), (other_start, other_end) = ranges
    return start < other_end and other_start < end


def _check_agreement(first: Shard, second: Shard) -> None:
    """Refuses files that differ in a fact that both must share and know."""
    facts, others = (
        {
            "masking": shard.settings.masking,
            "max_seq_length": shard.settings.max_seq_length,
            "num_prediction_slots": shard.settings.num_prediction_slots,
            "pair_objective": shard.settings.pair_objective,
            "tokenizer_hash": shard.tokenizer_hash,
            **shard.mask_settings,
        }
        for shard in (first, second)
    )
    names = [n for n in facts if None not in (facts[n], others.get(n))]
    if differences := checks.differences(
        {name: facts[name] for name in names},
        {name: others[name] for name in names},
    ):
        raise ValueError(
            f"The record files {first.path!r} and {second.path!r} differ: "
            f"{checks.listed(differences)}. Pass files of one build."
        )


def _check_masks(shard: Shard, mask_settings: Mapping[str, object]) -> None:
    """Refuses masks with which static records were not built."""
    for name, value in mask_settings.items():
        possible = {shard.config.get(name)}
        if name == "max_predictions_per_seq":
            # TF1: with permutation, the original's reader expects P in this
            # flag, which is twice the flag of its builder.
            possible.add(shard.settings.num_prediction_slots)
        if value not in possible:
            raise ValueError(
                f"`{name}` cannot be {value} for {shard.path!r}: its masks "
                "were drawn when it was built, with "
                f"{shard.config.get(name, 'an unknown value')}. Leave the "
                "setting out, or build records with --masking=dynamic."
            )


def _check_sample(source: RecordSource, vocab_size: int | None) -> None:
    """Checks ids and masks of records that are spread over the source."""
    settings = source.shard.settings
    spread = np.linspace(0, source.num_records - 1, _SAMPLE_SIZE)
    num_tokens, num_masked, largest_id = 0, 0, 0
    targets: collections.Counter[int] = collections.Counter()
    for data in source.get(np.unique(spread.astype(np.int64))):
        fields = example_codec.decode_example(data)
        if settings.masking == "dynamic":
            ids = fields["pair_ids"]
            special = source.shard.special_ids
            length = len(ids) + special.num_around(settings.num_segments)
            masked = masking.num_to_predict(np.array([length]), settings)
            targets.update(ids.tolist())
        else:
            ids = np.append(fields["input_ids"], fields["masked_lm_ids"])
            length = int(fields["input_mask"].sum())
            masked = fields["masked_lm_weights"]
            targets.update(fields["masked_lm_ids"][masked > 0].tolist())
        num_tokens += length
        num_masked += int(masked.sum())
        largest_id = max(largest_id, int(ids.max(initial=0)))
    if vocab_size is not None and largest_id >= vocab_size:
        raise ValueError(
            f"{source.shard.path!r}, or another file, has the token id "
            f"{largest_id}, but the model has vocab_size={vocab_size}. Pass "
            "records and a config of the same vocabulary."
        )
    share = num_masked / num_tokens
    most = max(targets.values()) / targets.total()
    _LOGGER.info(
        "%d records, %.1f%% of the tokens masked. To predict the most frequent "
        "token is right for %.1f%% of them.",
        *(source.num_records, 100 * share, 100 * most),
    )
    is_small = share < _LARGE_PART * settings.masked_lm_prob
    if source.shard.has_sidecar and is_small:
        _LOGGER.warning(
            "Only %.1f%% of the tokens are masked, although masked_lm_prob is "
            "%g, because max_predictions_per_seq is %d. Pass a larger one to "
            "training if masks are dynamic; otherwise build the records with "
            "it.",
            100 * share,
            settings.masked_lm_prob,
            settings.max_predictions_per_seq,
        )
