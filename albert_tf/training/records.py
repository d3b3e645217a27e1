"""The records of a fine-tuning job: made from its examples, or stored before.

Floor: training.
"""

import collections
import dataclasses
import functools
import os

import tensorflow as tf

from albert_tf.data import feature_cache
from albert_tf.data.feature_cache import RecordColumns
from albert_tf.tasks.task import Examples, TaskData
from albert_tf.training import distribution, run_folder
from albert_tf.training.run_config import ExampleSet, FinetuningJob


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordSet:
    """Examples and their records.

    Args:
        name: As in `ExampleSet`.
        examples: The task's own.
        data: Has made the records, and scores them.
        columns: The records.
        key: Digest of everything that made them.
    """

    name: str
    examples: Examples
    data: TaskData
    columns: RecordColumns
    key: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordSets:
    """All records of a job; see `FinetuningJob`."""

    train: RecordSet | None
    evaluation: tuple[RecordSet, ...]
    prediction: tuple[RecordSet, ...]


def open_sets(
    job: FinetuningJob, strategy: tf.distribute.Strategy
) -> RecordSets:
    """Makes the records, or reads those that are stored.

    Of several workers, the chief goes first and the others read.

    Raises:
        ValueError: Examples give no record or share a guid, or a record is
            not as the task says; the message names the set.
    """
    if not distribution.is_chief(strategy):
        distribution.wait_for_all(strategy)
    sets = RecordSets(
        train=_open(job, job.train_set, "train") if job.train_set else None,
        evaluation=tuple(_open(job, one, "eval") for one in job.eval_sets),
        prediction=tuple(
            _open(job, one, "predict") for one in job.predict_sets
        ),
    )
    if distribution.is_chief(strategy):
        distribution.wait_for_all(strategy)
    return sets


def _open(job: FinetuningJob, wanted: ExampleSet, kind: str) -> RecordSet:
    data = wanted.data or job.data
    label = "-".join(filter(None, (kind, wanted.name)))
    _check_guids(label, wanted.examples)
    key = feature_cache.fingerprint(
        settings=data.settings,
        examples=wanted.examples,
        is_training=kind == "train",
    )
    make = functools.partial(_make, job, wanted, data, kind)
    try:
        if wanted.is_stored:
            columns = feature_cache.load_or_make(
                _cached_dir(job),
                f"{data.name}-{label}",
                key,
                specs=data.array_specs,
                make=make,
            )
        else:
            columns = make()
    except ValueError as error:
        raise ValueError(f"{data.name}, {label}: {error}") from error
    return RecordSet(
        name=wanted.name,
        examples=wanted.examples,
        data=data,
        columns=columns,
        key=key,
    )


def _make(
    job: FinetuningJob, wanted: ExampleSet, data: TaskData, kind: str
) -> RecordColumns:
    return feature_cache.collect(
        data.records(wanted.examples, is_training=kind == "train"),
        data.array_specs,
        max_seq_length=job.finetuning.max_seq_length,
    )


def _cached_dir(job: FinetuningJob) -> str:
    return job.finetuning.cached_dir or os.path.join(
        job.output_dir, run_folder.CACHE_FOLDER
    )


def _check_guids(label: str, examples: Examples) -> None:
    counts = collections.Counter(example.guid for example in examples)
    twice = [guid for guid, count in counts.items() if count > 1]
    if twice:
        raise ValueError(
            f"{len(twice)} ids of the {label} examples stand for several of "
            f"them, the first is {twice[0]!r}. Give each example an id of its "
            "own."
        )
