"""Finds the rows of each use: a file, or a share that is held out."""

import collections
import dataclasses
import hashlib
import json
import logging
import math
import os
from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar, TypeVar

from albert_tf import checks, files
from albert_tf.settings import setting
from albert_tf.tasks.example_files import Source
from albert_tf.tasks.spec import DataRequest, TaskConfig
from albert_tf.tasks.task_data import SPLITS

_LOGGER = logging.getLogger(__name__)
Example = TypeVar("Example")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileFlags(TaskConfig):
    """The files of each use, and which rows are held out."""

    # Endings of the files in `data_dir`.
    endings: ClassVar = (".tsv", ".csv", ".jsonl", ".json")

    data_dir: str | None = setting(
        None,
        "Directory of the files train, dev and test (.tsv, .csv or .jsonl).",
    )
    train_file: str | None = setting(
        None, "Examples to train on, instead of the train file of --data_dir."
    )
    eval_file: str | None = setting(
        None, "Examples to evaluate, instead of the dev files of --data_dir."
    )
    predict_file: str | None = setting(
        None, "Examples to predict, instead of the test files of --data_dir."
    )
    validation_share: float | None = setting(
        None,
        "Share of the training rows to evaluate instead of training on them, "
        "where there is no file to evaluate: of each label the same, chosen by "
        "the texts.",
        above=0,
        below=1,
    )
    validation_seed: int = setting(
        0, "Seed that chooses the rows of --validation_share."
    )


def given_file(
    config: TaskConfig, request: DataRequest, use: str
) -> Source | None:
    """Returns rows in memory, or the file that the settings name for a use.

    It is None if the file is to be found in `data_dir`.
    """
    if use in request.given_examples:
        return request.given_examples[use]
    names = [n for n in ("data_dir", f"{use}_file") if hasattr(config, n)]
    *_, path = values = [getattr(config, name) for name in names]
    if not any(values):
        raise ValueError(f"--{' or --'.join(names)} must be given.")
    return path or None


def find(
    config: FileFlags,
    request: DataRequest,
    use: str,
    *,
    is_optional: bool = False,
) -> Source:
    """Returns the source of a use: as named, or found in the folder.

    A file in the folder, such as `train.tsv`, may be gzipped. The source is ""
    if there is none and it `is_optional`.
    """
    named = use in request.given_examples or getattr(config, f"{use}_file")
    if is_optional and not (named or config.data_dir):
        return ""
    if path := given_file(config, request, use):
        return path
    folder, split = files.check_local(config.data_dir or ""), SPLITS[use]
    names = [f"{split}{e}{gz}" for gz in ("", ".gz") for e in config.endings]
    paths = (os.path.join(folder, name) for name in names)
    existing = [*filter(os.path.isfile, paths)]
    if len(existing) > 1:
        raise ValueError(
            f"There are several files for {split}: {', '.join(existing)}. Name "
            "the file to read."
        )
    if not (existing or is_optional):
        few = checks.listed(names[: len(config.endings)])
        raise FileNotFoundError(f"{folder!r} has none of {few}.")
    return existing[0] if existing else ""


def both_texts(row: Any) -> list[str]:
    """Returns the texts of a pair, in their order."""
    return [row.text_a, row.text_b]


def read(
    config: FileFlags,
    request: DataRequest,
    read_use: Callable[[str], list[Example]],
    *,
    texts: Callable[[Example], list[str]] = both_texts,
    old_texts: Callable[[Example], list[str]] | None = None,
    label: Callable[[Example], str] = lambda _: "",
) -> tuple[dict[str, list[Example]], list[object] | None]:
    """Reads the examples to train on and to evaluate, by use.

    With `validation_share`, `hold_out` takes the rows to evaluate from the
    training file. Share, seed and digests of these rows are returned, too: a
    run stores them as the setting `validation`. Weights in use, or a start that
    was trained on rows of this table, have digests that hold out the same rows.
    `read_use` reads the file of a use. Digests of older runs may be of the
    `old_texts` of a row.
    """
    uses = [use for use in request.uses if use != "predict"]
    share, seed = config.validation_share, config.validation_seed
    if not (share and uses):
        return {use: read_use(use) for use in uses}, None
    if to_evaluate := find(config, request, "eval", is_optional=True):
        raise ValueError(
            "--validation_share is for tables without a file to evaluate, "
            f"but there is {str(to_evaluate)!r}. Leave one of them out."
        )
    rows = read_use("train")
    weights = request.weights.settings.get("validation")
    start = request.start.settings.get("validation")
    if old_texts and any(
        _are_of(old_texts, rows, stored, texts)
        for stored in filter(None, (weights, start))
    ):
        texts = old_texts
    *old_split, digests = weights or [None]
    has_seen = request.weights.settings.get("task") == config.name
    if start:
        digests_of_rows = _digests(rows, start[1], texts)
        if has_seen := not {*start[2]}.isdisjoint(digests_of_rows):
            *old_split, digests = start
    elif request.start.settings.get("task") == config.name:
        _LOGGER.warning(
            "%s was trained for this task, and no rows were held out. If it "
            "was trained on this table, it has seen the rows to evaluate, and "
            "their scores are too good.",
            request.start.path,
        )
    if has_seen and old_split != [share, seed]:
        raise ValueError(
            "The weights have seen rows to evaluate: they were trained "
            f"with {old_split or None}, not {[share, seed]}, as "
            "--validation_share and --validation_seed. Pass the same, or "
            "an --eval_file."
        )
    train, evaluation, digests = hold_out(
        rows,
        share=share,
        seed=seed,
        texts=texts,
        label=label,
        held_out=digests,
    )
    parts = {"train": train, "eval": evaluation}
    examples = {use: parts[use] for use in uses}
    return examples, [share, seed, digests]


def hold_out(
    examples: Sequence[Example],
    *,
    share: float,
    seed: int,
    texts: Callable[[Example], list[str]],
    label: Callable[[Example], str],
    held_out: Collection[str] | None = None,
) -> tuple[list[Example], list[Example], Collection[str]]:
    """Divides examples; about a `share` of each label is in the second part.

    Each row has a digest of the seed and its texts. The rows with the digests
    `held_out` are held out; None for the lowest digests of each label. Digests
    of these rows are returned, too: with them, the part of a row depends on its
    texts alone, whatever rows are added or removed, or labels corrected.
    """
    digests = _digests(examples, seed, texts)
    by_label = collections.defaultdict(set)
    for each, digest in zip(examples, digests, strict=True):
        by_label[label(each)].add(digest)
    is_first = held_out is None
    if held_out is None:
        chosen: list[str] = []
        num_seen = 0
        for _, label_digests in sorted(by_label.items()):
            num_seen += len(label_digests)
            # The remainders of many rare labels add up.
            num_chosen = math.floor(num_seen * share + 0.5) - len(chosen)
            chosen += sorted(label_digests)[:num_chosen]
        held_out = sorted({*chosen})
    chosen_digests = {*held_out}
    parts: tuple[list[Example], list[Example]] = ([], [])
    for example, digest in zip(examples, digests, strict=True):
        parts[digest in chosen_digests].append(example)
    if not parts[1] or (is_first and not parts[0]):
        raise ValueError(
            f"--validation_share={share} of {len(examples)} rows holds "
            f"{len(parts[1])} out. Pass another share, or an --eval_file."
        )
    return *parts, held_out


def _are_of(
    old_texts: Callable[[Example], list[str]],
    examples: Sequence[Example],
    validation: Sequence[Any],
    texts: Callable[[Example], list[str]],
) -> bool:
    """Returns whether digests of an older run are not of `texts`."""
    _, seed, held_out = validation
    differing = [row for row in examples if old_texts(row) != texts(row)]
    return not {*held_out}.isdisjoint(_digests(differing, seed, old_texts))


def _digests(
    examples: Sequence[Example],
    seed: int,
    texts: Callable[[Example], list[str]],
) -> list[str]:
    contents = (json.dumps([seed, *texts(each)]) for each in examples)
    return [hashlib.sha256(c.encode()).hexdigest()[:16] for c in contents]
