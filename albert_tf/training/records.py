"""The records of a fine-tuning run: made or cached, and their batches."""

import collections
import dataclasses
import functools
import itertools
import logging
import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.data import bucketed_batches, feature_cache
from albert_tf.data.bucketed_batches import Padding
from albert_tf.data.feature_cache import RecordColumns
from albert_tf.tasks.task import Examples, ExampleSet, ExampleStream, Sets
from albert_tf.training import devices, run_folder
from albert_tf.training.phases import Phase
from albert_tf.training.run_config import FinetuningConfig
from albert_tf.training.workers import Workers

_LOGGER = logging.getLogger(__name__)

# Records of a training set that a model is judged by.
SAMPLE_SIZE = 1000
# Tensor cores of a GPU multiply by eights.
_GPU_BUCKET_WIDTH = 8
# XLA compiles the model again for every length.
_COMPILED_BUCKET_WIDTH = 64
_LABELS = "label_ids"
# What a task records of itself, but its records do not depend on: names of
# columns, of which the examples hold the texts.
_NOT_OF_RECORDS = ("text_columns",)
# Records of a stream that are in memory together.
_PART_SIZE = 16_384
# A run of several windows for each question that sees fewer is warned of.
_LEAST_SHARE_SEEN = 0.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordSet(ExampleSet):
    """A set of examples, their records, and a digest of all that made them."""

    columns: RecordColumns
    fingerprint: str

    @property
    def labels(self) -> np.ndarray | None:
        """The labels of the records, `[N]`; None if they have none."""
        if _LABELS not in self.columns.values:
            return None
        return self.columns.field(_LABELS)


def open_sets(
    config: FinetuningConfig,
    sets: Sets[ExampleSet],
    workers: Workers,
) -> Sets[RecordSet]:
    """Makes the records of all sets, or reads them from the cache.

    Of several workers, the chief goes first; the others read what it cached.
    Streams to predict stay as they are; see `parts_of_stream`.

    Raises:
        ValueError: Examples give no record or share an id, or a record is not
            as the task specifies; the message names the set.
    """
    open_all = functools.partial(_open_all, config, sets)
    opened = workers.run_in_chief(open_all) or open_all()
    if train := opened.train:
        _tell_share_seen(config, train)
        num_records = train.columns.num_records
        if config.train_batch_size > num_records:
            _LOGGER.warning(
                "A training batch has %d records, but there are only %d, so "
                "some occur several times in it. Lower --train_batch_size.",
                config.train_batch_size,
                num_records,
            )
    return opened


def _open_all(
    config: FinetuningConfig, sets: Sets[ExampleSet]
) -> Sets[RecordSet]:
    train = _open(config, sets.train, "train") if sets.train else None
    evaluation = tuple(_open(config, s, "eval") for s in sets.evaluation)
    # SQuAD predicts and evaluates the same questions.
    opened = dict(zip(map(id, sets.evaluation), evaluation, strict=True))
    streams = tuple(
        s for s in sets.prediction if isinstance(s.examples, ExampleStream)
    )
    prediction = tuple(
        opened.get(id(s)) or _open(config, s, "predict")
        for s in sets.prediction
        if s not in streams
    )
    return Sets(
        train=train,
        evaluation=evaluation,
        prediction=prediction,
        streams=streams,
    )


def fingerprints(sets: Sets[RecordSet]) -> dict[str, str]:
    """Returns the fingerprints of all sets, by their use."""
    train = (sets.train,) if sets.train else ()
    named: dict[str, Iterable[RecordSet]] = {
        "train": train,
        "eval": sets.evaluation,
        "predict": sets.prediction,
    }
    found = [(use, one.name, one) for use, own in named.items() for one in own]
    found += [("predict", one.name, one.examples) for one in sets.streams]
    return {
        "-".join(filter(None, (use, name))): examples.fingerprint
        for use, name, examples in found
    }


def parts_of_stream(
    config: FinetuningConfig, one: ExampleSet
) -> Iterator[tuple[list[Any], RecordColumns]]:
    """Yields the examples of an `ExampleStream`, and their records, in parts.

    Each example must have one record. No records are cached.
    """
    read, kept = itertools.tee(one.examples)
    made = one.data.records(read, is_training=False)
    while part := list(itertools.islice(made, _PART_SIZE)):
        columns = feature_cache.collect(
            part, one.data.array_specs, max_seq_length=config.max_seq_length
        )
        yield list(itertools.islice(kept, len(part))), columns


def _tell_share_seen(config: FinetuningConfig, train: RecordSet) -> None:
    """Logs how many records the run trains on, and how many there are."""
    num_records, num_examples = train.columns.num_records, len(train.examples)
    num_seen = config.num_train_steps * config.train_batch_size
    share = min(1.0, num_seen / num_records)
    _LOGGER.info(
        "%d examples to train on have %d records; %d steps of %d see %.3g%% "
        "of them.",
        num_examples,
        num_records,
        config.num_train_steps,
        config.train_batch_size,
        100 * share,
    )
    if num_records > num_examples and share < _LEAST_SHARE_SEEN:
        _LOGGER.warning(
            "The run sees less than half of the %d windows of its questions, "
            "because its epochs count %d questions, as in the original. Pass "
            "--count_windows_as_epochs, or more --num_train_epochs.",
            num_records,
            num_examples,
        )


def _open(
    config: FinetuningConfig, examples: ExampleSet, use: str
) -> RecordSet:
    data, is_training = examples.data, use == "train"
    label = "-".join(filter(None, (use, examples.name)))
    fingerprint = feature_cache.fingerprint(
        settings={
            name: value
            for name, value in data.settings.items()
            if name not in _NOT_OF_RECORDS
        },
        examples=examples.examples,
        is_training=is_training,
    )
    _check_ids(label, examples.examples)
    try:
        columns = feature_cache.load_or_make(
            config.cached_dir
            or os.path.join(config.output_dir, run_folder.CACHE_FOLDER),
            f"{data.name}-{label}",
            fingerprint,
            specs=data.array_specs,
            make=functools.partial(
                _make, examples, is_training, config.max_seq_length
            ),
        )
    except ValueError as error:
        raise ValueError(f"{data.name}, {label}: {error}") from error
    return RecordSet(**vars(examples), columns=columns, fingerprint=fingerprint)


def _make(
    examples: ExampleSet, is_training: bool, max_seq_length: int
) -> RecordColumns:
    data = examples.data
    return feature_cache.collect(
        data.records(examples.examples, is_training=is_training),
        data.array_specs,
        max_seq_length=max_seq_length,
    )


def _check_ids(label: str, examples: Examples) -> None:
    counts = collections.Counter(example.guid for example in examples)
    repeated = [guid for guid, count in counts.items() if count > 1]
    if repeated:
        raise ValueError(
            f"{len(repeated)} ids of the {label} examples occur more than "
            f"once, the first is {repeated[0]!r}. Give each example its own id."
        )


def sample(columns: RecordColumns) -> RecordColumns:
    """Returns at most `SAMPLE_SIZE` records, always the same ones."""
    rng = np.random.default_rng(0)
    size = min(SAMPLE_SIZE, columns.num_records)
    chosen = np.sort(rng.choice(columns.num_records, size, replace=False))
    longest = int(columns.lengths.max())
    rows = (
        {name: values[0] for name, values in columns.padded([i], n).items()}
        for i, n in zip(chosen, columns.lengths[chosen].tolist(), strict=True)
    )
    return feature_cache.collect(rows, columns.specs, max_seq_length=longest)


def padding_for(
    config: FinetuningConfig, strategy: tf.distribute.Strategy
) -> Padding:
    """Returns how batches are padded: on a TPU, all to the same length."""
    device = devices.device_type(strategy)
    width = _GPU_BUCKET_WIDTH if device == "GPU" else None
    if config.jit_compile:
        width = _COMPILED_BUCKET_WIDTH
    if device == "TPU":
        width = config.max_seq_length
    return Padding(
        max_seq_length=config.max_seq_length,
        bucket_width=width,
        is_compiled=config.jit_compile,
    )


def training_batches(
    config: FinetuningConfig,
    records: RecordSet,
    strategy: tf.distribute.Strategy,
    padding: Padding,
    phase: Phase,
    position: int,
) -> tf.data.Dataset:
    """Returns the batches after the first `position` examples."""
    order = bucketed_batches.BucketedOrder(
        records.columns.lengths,
        batch_size=phase.batch_size,
        seed=config.random_seed,
    )
    return devices.distribute(
        strategy,
        functools.partial(
            bucketed_batches.training_dataset,
            records.columns,
            order,
            padding=padding,
            start_step=position // phase.batch_size,
        ),
    )
