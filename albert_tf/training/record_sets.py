"""The records of a fine-tuning run, and the batches to train on."""

import dataclasses
import functools
import hashlib
import logging

import numpy as np
import tensorflow as tf

from albert_tf import checks, files
from albert_tf.data import bucketed_batches, record_columns
from albert_tf.data.record_columns import Padding, RecordColumns
from albert_tf.devices import strategies
from albert_tf.metrics.scores import Score, Scores
from albert_tf.tasks.task_data import ExampleSet, Sets
from albert_tf.training import run_folder
from albert_tf.training.run_config import FinetuningConfig, Phase
from albert_tf.training.run_folder import RunFolder

_LOGGER = logging.getLogger(__name__)

# Training records on which the trained model is compared with chance level.
SAMPLE_SIZE = 1000
# A share of unknown tokens too large for emoji and foreign names to explain.
_MANY_UNKNOWN = 0.1
# Wide, because XLA compiles the model again for every length.
_COMPILED_BUCKET_WIDTH = 64


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class RecordSet(ExampleSet):
    """A set of examples and their records.

    The `caution` says how many are also trained on; it is "" if none are.
    """

    columns: RecordColumns
    caution: str = ""

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of examples and records."""
        digest = hashlib.sha256(self.columns.digest.encode())
        for example in self.examples:
            digest.update(repr(example).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


def describe(
    evaluated: ExampleSet, scores: Scores, name: str, *, num_folds: int = 1
) -> files.JsonObject:
    """Describes the evaluation of a set, for metadata and reports."""
    caution = evaluated.caution if isinstance(evaluated, RecordSet) else ""
    cautions = [caution] * bool(caution)
    absent, without_answer = (
        [s.of for s in scores.entries if s == Score.of_label(kind, s.of, 0)]
        for kind in ("number", "f1")
    )
    if absent:
        names = checks.listed(map(repr, absent))
        cautions.append(f"None of the examples has the label {names}.")
    if missed := [name for name in without_answer if name not in absent]:
        names = checks.listed(map(repr, missed))
        caution = f"No example of the label {names} is recognised (f1 0)."
        if "f1_macro" in scores:
            caution += (
                " --best_metric=f1_macro chooses weights by the mean over all "
                "labels."
            )
        cautions.append(caution)
        _LOGGER.warning("%s", caution)
    return {
        "data": name,
        "examples": len(evaluated.examples),
        "step": scores.step,
        "metric": evaluated.data.primary_metric,
        "has_numbers": evaluated.data.is_regression,
        "goal": evaluated.data.goal,
        "cautions": cautions,
        **({"folds": num_folds} if num_folds > 1 else {}),
        "scores": scores.flat(),
    }


def make_sets(
    config: FinetuningConfig, sets: Sets[ExampleSet]
) -> Sets[RecordSet]:
    """Makes records to train on and to evaluate; prediction makes its own."""

    def make(examples: ExampleSet, *, is_training: bool) -> RecordSet:
        columns = record_columns.collect(
            examples.data.records(examples.examples, is_training=is_training),
            examples.data.array_specs,
            max_seq_length=config.max_seq_length,
        )
        return RecordSet(**vars(examples), columns=columns)

    train = make(sets.train, is_training=True) if sets.train else None
    evaluation = {e: make(e, is_training=False) for e in sets.evaluation}
    if train:
        num_records = train.columns.num_records
        _warn_of_unknown(train)
        num_read = config.num_train_steps * config.train_batch_size
        _LOGGER.info(
            "%d training examples have %d records; %d steps of %d see each "
            "%.3g times.",
            len(train.examples),
            num_records,
            config.num_train_steps,
            config.train_batch_size,
            num_read / num_records,
        )
    seen = (
        {*train.data.keys_of(train.columns)} if train and evaluation else set()
    )
    recorded = run_folder.read_fingerprint(config.output_dir)
    for examples, records in evaluation.items():
        columns = records.columns
        num_seen = sum(key in seen for key in records.data.keys_of(columns))
        if not train and recorded.get("records") == columns.digest:
            num_seen = columns.num_records
        if num_seen:
            caution = (
                f"{num_seen} of the {columns.num_records} records to evaluate "
                "are also trained on, so the scores are better than on others."
            )
            _LOGGER.warning("%s", caution)
            evaluation[examples] = dataclasses.replace(records, caution=caution)
    return Sets(
        train=train,
        evaluation=tuple(evaluation.values()),
        prediction=tuple(evaluation.get(e, e) for e in sets.prediction),
    )


def _warn_of_unknown(train: RecordSet) -> None:
    special = train.data.tokenizer.special_ids
    ids = train.columns.values["input_ids"]
    borders = [i for i in (special.cls, special.sep) if i is not None]
    is_text = ~np.isin(ids, [special.pad, *borders])
    share = np.sum(ids == special.unk) / max(1, np.sum(is_text))
    if share > _MANY_UNKNOWN:
        _LOGGER.warning(
            "%.0f%% of the tokens of the training examples are unknown to the "
            "vocabulary, which may be for another language or script.",
            100 * share,
        )


def fold_numbers(rows: ExampleSet, num_folds: int) -> np.ndarray:
    """Returns the fold of each example, int `[N]`, by a digest of its texts.

    Folds have about the same share of each label; equal texts share a fold.
    """
    if not rows.data.has_folds:
        raise ValueError(
            "--num_folds is not for this task, whose examples share texts."
        )
    labels_and_digests = []
    for each in rows.examples:
        texts = repr(rows.data.texts_of(each))
        label = getattr(each, "label", None)
        # Numbers of a regression, and tags of words, are not stratified.
        label = "" if isinstance(label, float) else str(label)
        digest = hashlib.sha256(texts.encode("utf-8", "surrogatepass"))
        labels_and_digests.append((label, digest.digest()))
    folds = {
        digest: i % num_folds
        for i, (_, digest) in enumerate(sorted({*labels_and_digests}))
    }
    if len({*folds.values()}) < num_folds:
        raise ValueError(f"--num_folds={num_folds}: there are fewer texts.")
    return np.array([folds[digest] for _, digest in labels_and_digests])


def fingerprints(sets: Sets[RecordSet]) -> files.JsonObject:
    """Returns digests and counts that must be the same in all workers."""
    return {
        "train": sets.train and sets.train.columns.digest,
        "eval": [one.digest for one in sets.evaluation],
        "predict": [len(one.examples) for one in sets.prediction],
    }


def folder_of(config: FinetuningConfig, sets: Sets[RecordSet]) -> RunFolder:
    """Returns the output directory of a run that trains with one seed."""
    train = sets.train.columns.digest if sets.train else None
    evaluation = sets.evaluation[0].digest if sets.evaluation else None
    folder = run_folder.finetuning_folder(config, sets.data, train, evaluation)
    num_examples = len(sets.train.examples) if sets.train else None
    return dataclasses.replace(folder, num_examples=num_examples)


def sample(records: RecordSet) -> RecordSet:
    """Samples at most `SAMPLE_SIZE` records, the same ones every time."""
    columns = records.columns
    rng = np.random.default_rng(0)
    size = min(SAMPLE_SIZE, columns.num_records)
    chosen = np.sort(rng.choice(columns.num_records, size, replace=False))
    rows = (columns.padded([i], int(columns.lengths[i])) for i in chosen)
    longest = int(columns.lengths.max())
    collected = record_columns.collect(
        rows, columns.specs, max_seq_length=longest
    )
    return dataclasses.replace(records, columns=collected)


def padding_for(
    config: FinetuningConfig, strategy: tf.distribute.Strategy
) -> Padding:
    """Returns the padding of batches: on a TPU, to the longest sequence."""
    device = strategies.device_type(strategy)
    width = record_columns.GPU_BUCKET_WIDTH if device == "GPU" else None
    if config.jit_compile:
        width = _COMPILED_BUCKET_WIDTH
    if device == "TPU":
        width = config.max_seq_length
    return Padding(
        max_seq_length=config.max_seq_length,
        bucket_width=width,
        is_compiled=config.jit_compile and device != "TPU",
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
    return strategies.distribute(
        strategy,
        bucketed_batches.training_dataset,
        records.columns,
        order,
        padding=padding,
        start_step=position // phase.batch_size,
    )
