"""Checks that shards of one name, `train-00000-of-00008`, are of one build.

And that no others hold the same records, or the text to evaluate on.
"""

import logging
import re
from collections.abc import Mapping

from albert_tf.data.sidecar import Sidecar

_LOGGER = logging.getLogger(__name__)

_SHARD = re.compile(r"(?P<stem>.*)-\d{5}-of-(?P<number>\d{5})", re.DOTALL)


def check(sidecars: Mapping[str, Sidecar | None]) -> None:
    """Checks record files, given by path with their sidecars, if any.

    Warns of missing shards, and of records that are in two files.

    Raises:
        ValueError: Two shards of a set are of different builds, so that text
            is in both of them, or in none.
    """
    sets: dict[tuple[str, int], list[str]] = {}
    for path in sidecars:
        if found := _SHARD.fullmatch(path):
            key = (found["stem"], int(found["number"]))
            sets.setdefault(key, []).append(path)
    for (stem, number), paths in sets.items():
        if len(paths) < number:
            _LOGGER.warning(
                "%d of the %d shards of %r are read; the others are not named.",
                len(paths),
                number,
                f"{stem}@{number}",
            )
        described = [(p, facts) for p in paths if (facts := sidecars[p])]
        for path, facts in described[1:]:
            _check_pair(*described[0], path, facts)
    _warn_of_overlaps(sidecars)


def _warn_of_overlaps(sidecars: Mapping[str, Sidecar | None]) -> None:
    """Warns of files that hold records of the same text, by the same build.

    So do the shards of two builds that differ in the number of shards.
    """
    builds: dict[object, list[tuple[list[int], list[int], str]]] = {}
    for path, facts in sidecars.items():
        if facts and facts.corpus_sha256 and facts.counts.records:
            key = (facts.tokenizer_hash, *_build(facts).values())
            builds.setdefault(key, []).append((facts.blocks, facts.part, path))
    for described in builds.values():
        described.sort()
        blocks, part, path = described[0]
        for other_blocks, other_part, other in described[1:]:
            is_other_part = blocks == other_blocks and part[1] == other_part[1]
            if other_blocks[0] < blocks[1] and not is_other_part:
                _LOGGER.warning(
                    "%r holds some of the same records as %r, so they are read "
                    "twice as often. Pass the files of one build.",
                    other,
                    path,
                )
                break
            if other_blocks[1] > blocks[1]:
                blocks, part, path = other_blocks, other_part, other


def report_common_text(
    trained: Mapping[str, Sidecar | None],
    evaluated: Mapping[str, Sidecar | None],
) -> None:
    """Warns of files to evaluate on whose text is also trained on.

    Files are given by path with their sidecars. The same file is left to who
    compares digests.
    """
    corpora = {facts.corpus_sha256 for facts in evaluated.values() if facts}
    candidates = [
        (path, facts)
        for path, facts in trained.items()
        if facts and facts.corpus_sha256 and facts.corpus_sha256 in corpora
    ]
    found = {
        path: other_path
        for path, facts in evaluated.items()
        for other_path, other in candidates
        if facts and _has_common_text(facts, other)
    }
    if found:
        _LOGGER.warning(
            "%d of %d files to evaluate on hold text that is also trained on, "
            "such as %r some of that of %r, so their scores say nothing about "
            "other text. Build an --eval_file of held-out text.",
            len(found),
            len(evaluated),
            *next(iter(found.items())),
        )


def _has_common_text(one: Sidecar, other: Sidecar) -> bool:
    if one.corpus_sha256 != other.corpus_sha256 or one.sha256 == other.sha256:
        return False
    (first, end), (other_first, other_end) = one.blocks, other.blocks
    if end <= other_first or other_end <= first:
        return False
    # Other records of a block are of other text, if there is one copy of it.
    is_other_part = one.part[1] == other.part[1] and one.part != other.part
    is_one_copy = one.config.dupe_factor == 1
    return not (is_other_part and is_one_copy and _build(one) == _build(other))


def _check_pair(
    path: str, one: Sidecar, other_path: str, other: Sidecar
) -> None:
    values, others = _build(one), _build(other)
    for name, value in values.items():
        if others[name] != value:
            raise ValueError(
                f"{path!r} and {other_path!r} are shards of different builds: "
                f"{name} is {value!r} and {others[name]!r}. Build all shards "
                "from the same text, with the same settings."
            )


def _build(facts: Sidecar) -> dict[str, object]:
    return facts.config.record_settings() | {
        "corpus_sha256": facts.corpus_sha256
    }
