"""The output directory of a run: its files, and the runs that may continue it.

    run/run.json                            the fingerprint
    run/flags.txt, run/eval_results.json    settings and scores
    run/checkpoints/, run/best/             see `checkpoints.run_checkpoints`

The fingerprint of a run is everything that determines its numbers. A run with
another fingerprint is refused. The directory also has config and vocabulary.
"""

import contextlib
import dataclasses
import glob
import hashlib
import logging
import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from albert_tf import checks, files, folders
from albert_tf.checkpoints import discovery, run_checkpoints, vocabularies
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.config import CONFIG_FILE
from albert_tf.optimization.optimizer_config import OptimizerConfig
from albert_tf.text import vocabulary_file
from albert_tf.training.callbacks import SEEDS, Result
from albert_tf.training.run_config import FinetuningConfig, RunConfig

if TYPE_CHECKING:
    from albert_tf.tasks.task_data import TaskData

_LOGGER = logging.getLogger(__name__)

LOCK_FILE = "run.lock"
RESULTS_FILE = "eval_results.json"
FINGERPRINT_FILE = "run.json"
Fingerprint: TypeAlias = Mapping[str, Any]
# Keys of a fingerprint: the settings of the task; within them, the tokenizer.
_SETTINGS, TOKENIZER = "settings", "tokenizer"
_VERSION, _VERSION_KEY = 1, "version"
_NUM_STEPS = "num_train_steps"
_START, _START_DIGEST = "init_checkpoint", "init_checkpoint_sha256"
# None in a run that does not evaluate.
_EVAL_RECORDS = "eval_records"
_EXAMPLE_FILES = r"(?m)^--(?:(?:train|eval|input)_file|data_dir)=.*"
# Settings that follow from the records; older runs do not have them.
_LEARNT = {"rules"}
# Config values that matter only while training.
_DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob")
# Settings that, with the records, determine the order of the examples.
_ORDER_SETTINGS = ("random_seed", "read_order", "num_readers")
_WEIGHTS_FILE = re.compile(r"\.(index|data-\d{5}-of-\d{5}|safetensors|h5)$")


def read_fingerprint(output_dir: str) -> files.JsonObject:
    """Returns the fingerprint of the run in a directory; empty without one."""
    path = os.path.join(output_dir, FINGERPRINT_FILE)
    values = files.read_json_object(path, missing_ok=True)
    if values.get(_VERSION_KEY, 0) > _VERSION:
        raise ValueError(f"{output_dir!r} is of a newer version of albert_tf.")
    return values


def fingerprint(config: RunConfig, **task_values: object) -> files.JsonObject:
    """Returns everything that determines the numbers of a training run.

    The task adds `task_values`, JSON values such as `records`.
    """
    names = [field.name for field in dataclasses.fields(OptimizerConfig)]
    names += ["train_batch_size", "precision", "random_seed", "random_depth"]
    return {
        "config": config.albert_config.to_dict(),
        **{name: getattr(config, name) for name in names},
        **_start(config.init_checkpoint),
        **task_values,
    }


def _start(path: str | None) -> files.JsonObject:
    return {_START: path, _START_DIGEST: path and _digest_of_weights(path)}


def _digest_of_weights(path: str) -> str | None:
    """Returns a digest of a checkpoint's files, or None if there are none."""
    name = run_checkpoints.trained_weights(path) or path
    if os.path.isdir(name):
        pattern = os.path.join(glob.escape(name), "*")
    else:
        pattern = f"{glob.escape(_WEIGHTS_FILE.sub('', name))}.*"
    weights = sorted(filter(_WEIGHTS_FILE.search, glob.glob(pattern)))
    digest = hashlib.sha256()
    for weights_file in weights:
        with open(weights_file, "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest() if weights else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunFolder:
    """The output directory of a training run; it may not exist yet."""

    path: str
    fingerprint: Fingerprint
    head: str | None = None  # the name of the model's head, if it is known
    num_examples: int | None = None  # number of training examples, if known

    @property
    def metadata(self) -> Metadata:
        """The metadata of the checkpoints in the directory."""
        settings = self.fingerprint.get(_SETTINGS, {})
        labels = settings.get("labels")
        return Metadata(
            task=self.fingerprint.get("task"),
            head=self.head,
            labels=None if labels is None else tuple(labels),
            multi_label=settings.get("multi_label"),
            target_mean=settings.get("target_mean"),
            target_scale=settings.get("target_scale"),
            tokenizer_hash=settings.get(TOKENIZER),
            settings={
                **settings,
                "random_seed": self.fingerprint.get("random_seed"),
                "train_examples": self.num_examples,
            },
            **settings.get(vocabulary_file.SETTINGS, {}),
        )

    def check(self) -> None:
        """Checks that the directory belongs to this run, or is empty."""
        if recorded := read_fingerprint(self.path):
            _check_same(self.path, recorded, self.fingerprint)
        elif os.path.isdir(self.path) and (
            {*os.listdir(self.path)}
            # Files of a run that failed early or was killed.
            - {LOCK_FILE}
            - {*files.find_partials(os.path.join(self.path, FINGERPRINT_FILE))}
        ):
            raise ValueError(
                f"{self.path!r} contains files but no {FINGERPRINT_FILE}, so "
                "it is not the output directory of a run. Pass another "
                "--output_dir."
            )

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Checks the directory and keeps other processes from training in it.

        Cleans up after killed processes. If the directory is new and still
        empty at the end, it is removed.
        """
        self.check()
        is_new = not os.path.isdir(self.path)
        os.makedirs(self.path, exist_ok=True)
        message = (
            f"Another process is training in {self.path!r}. Wait until it "
            "ends, or pass another --output_dir."
        )
        try:
            with folders.locked(os.path.join(self.path, LOCK_FILE), message):
                folders.clean_up(self.path)
                for entry in os.scandir(self.path):
                    if entry.is_dir():
                        folders.clean_up(entry.path)
                yield
        finally:
            if is_new and not os.listdir(self.path):
                os.rmdir(self.path)

    def claim(self, config: RunConfig) -> None:
        """Writes the fingerprint, the flags, the config and the vocabulary."""
        recorded, current = read_fingerprint(self.path), self.fingerprint
        before, now = recorded.get(_START_DIGEST), current.get(_START_DIGEST)
        if None not in (before, now) and before != now:
            _LOGGER.warning(
                "The weights of %s have changed since this run began. To start "
                "from the new ones, pass another --output_dir.",
                current[_START],
            )
        # Recorded values stay as they are, but a run may become longer.
        recorded = {k: v for k, v in recorded.items() if v is not None}
        values = {**current, **recorded}
        if _NUM_STEPS in current:
            values[_NUM_STEPS] = current[_NUM_STEPS]
        values[_VERSION_KEY] = _VERSION
        # The fingerprint first: it identifies the directory of a killed run.
        files.write_json(os.path.join(self.path, FINGERPRINT_FILE), values)
        config.albert_config.to_json_file(os.path.join(self.path, CONFIG_FILE))
        if config.vocabulary and not vocabularies.paths_in(self.path):
            vocabularies.write(config.vocabulary, self.path)
        flags_file = os.path.join(self.path, run_checkpoints.FLAGS_FILE)
        files.write_text(flags_file, config.flags_text)

    def check_continues(self, other_run: str) -> tuple[str, set[str]]:
        """Checks that this run can continue the pretraining `other_run`.

        Returns:
            The newest checkpoint of the other run; and the sequence lengths
            whose records both runs read in the same order, so that this run
            reads on where the other stopped.
        """
        other = read_fingerprint(other_run)
        checkpoint = run_checkpoints.latest_checkpoint(other_run)
        if checkpoint is None or not other or other.get("task"):
            raise ValueError(
                f"{other_run!r} is not the output directory of a pretraining "
                "with a checkpoint. Pass the directory of a pretraining as "
                "--continue_from."
            )
        discovery.open(other_run).check_task(self.metadata)
        # Weights and slots can be taken over only if these are the same.
        compared = [
            _model_of(v) | {n: v[n] for n in ("optimizer", "objectives")}
            for v in (other, self.fingerprint)
        ]
        if different := checks.differences(*compared):
            raise ValueError(
                f"The run of {other_run!r} cannot go on with other settings of "
                f"the model or the optimizer: {checks.listed(different)}. Pass "
                "--init_checkpoint instead to start from its weights alone."
            )
        if any(other[n] != self.fingerprint[n] for n in _ORDER_SETTINGS):
            return checkpoint, set()
        records = self.fingerprint["records"].items()
        return checkpoint, {n for n, _ in other["records"].items() & records}


def finetuning_folder(
    config: FinetuningConfig,
    data: "TaskData",
    records: str | None = None,
    eval_records: str | None = None,
) -> RunFolder:
    """Returns the output directory of a fine-tuning run.

    `records` and `eval_records` are digests of the records to train on and of
    the first evaluation set; the directory of several seeds has none.
    """
    values: files.JsonObject = {"task": data.name}
    values[_SETTINGS] = dict(data.settings)
    if config.num_seeds == 1:
        values |= fingerprint(
            config,
            records=records,
            eval_records=eval_records,
            task_settings=dict(config.task_settings),
            layerwise_lr_decay=config.layerwise_lr_decay,
            freeze_embeddings=config.freeze_embeddings,
            best_metric=config.best_metric or data.primary_metric,
        )
        if config.warmup_proportion is not None:
            # Not a number of steps: it would change if the run becomes longer.
            values["num_warmup_steps"] = f"{config.warmup_proportion:g} of all"
    else:
        # Other settings of each seed are checked in its own directory, so that
        # seeds can be added.
        values |= {
            "config": config.albert_config.to_dict(),
            **_start(config.init_checkpoint),
            "seeds_from": config.random_seed,
        }
    return RunFolder(
        path=config.output_dir, fingerprint=values, head=config.head
    )


def check_model(config: RunConfig, task_name: str | None) -> None:
    """Checks that the weights in `output_dir`, if any, are of this model.

    Dropout may differ. A pretraining has the task None.
    """
    recorded = read_fingerprint(config.output_dir)
    current = {"config": config.albert_config.to_dict(), "task": task_name}
    if recorded:
        _check_same(config.output_dir, _model_of(recorded), _model_of(current))


def _model_of(values: Fingerprint) -> files.JsonObject:
    """Returns the part of a fingerprint that describes the model."""
    config = values.get("config", {}).items()
    return {
        "config": {k: v for k, v in config if k not in _DROPOUTS},
        "task": values.get("task"),
    }


def weights_to_use(output_dir: str, init_checkpoint: str | None = None) -> str:
    """Returns the path of the weights that a run evaluates and predicts with.

    In the directory of a run, these are its best weights; then, if given,
    `init_checkpoint` must be these weights, or the start of the run. In another
    directory, they are `init_checkpoint`.
    """
    trained = run_checkpoints.trained_weights(output_dir)
    run = read_fingerprint(output_dir)
    if init_checkpoint and not run:
        return init_checkpoint
    same = {os.path.realpath(path) for path in (output_dir, trained) if path}
    if init_checkpoint and not (
        _is_same_start(run, _start(init_checkpoint))
        or os.path.realpath(init_checkpoint) in same
    ):
        raise ValueError(
            f"{output_dir!r} has the results of its own run, which the results "
            f"of {init_checkpoint!r} would overwrite. Pass another "
            "--output_dir, or leave --init_checkpoint out to use the weights "
            "of that run."
        )
    if trained is None:
        raise ValueError(
            f"There are no trained weights in {output_dir!r}. Pass the weights "
            "of a trained model as --init_checkpoint, or train first."
        )
    return trained


def write_results(
    config: RunConfig, weights: Checkpoint, result: Result
) -> Result:
    """Writes `eval_results.json`, and the evaluation into the metadata.

    Earlier results stay if they are results of several seeds, or if this run
    does not evaluate: the returned result then has `is_current=False`.
    """
    folder, metadata = config.output_dir, weights.metadata
    evaluation, results = result.evaluation, result.as_json()
    if evaluation:
        metadata = metadata.evaluated(evaluation)
    if weights.path == run_checkpoints.trained_weights(folder):
        metadata.write(weights.path)
    path = os.path.join(folder, RESULTS_FILE)
    if not evaluation:
        has_trained = getattr(config, "do_train", False)
        is_current = has_trained and not metadata.evaluation
    elif SEEDS in (
        files.read_json_object(path, missing_ok=True).keys() - results
    ):
        _LOGGER.warning("Keeping %s, which has the results of all seeds.", path)
        is_current = False
    else:
        facts = {n: value for n, value in evaluation.items() if n != "scores"}
        files.write_json(path, {**results, "evaluated": facts}, sort_keys=True)
        is_current = True
    return dataclasses.replace(result, is_current=is_current)


def _check_same(
    output_dir: str, recorded: Fingerprint, current: Fingerprint
) -> None:
    ignored = {_START_DIGEST, _VERSION_KEY}
    if _is_same_start(recorded, current):
        ignored.add(_START)
    if recorded.get(_NUM_STEPS, 0) <= current.get(_NUM_STEPS, 0):
        ignored.add(_NUM_STEPS)
    if None in (recorded.get(_EVAL_RECORDS), current.get(_EVAL_RECORDS)):
        ignored.add(_EVAL_RECORDS)
    compared = [
        {name: value for name, value in values.items() if name not in ignored}
        for values in (recorded, current)
    ]
    for values in compared:
        settings = values.get(_SETTINGS, {}).items()
        values[_SETTINGS] = {n: v for n, v in settings if n not in _LEARNT}
    if different := checks.differences(*compared):
        read = re.findall(_EXAMPLE_FILES, run_checkpoints.flags_of(output_dir))
        if not current.keys() <= recorded.keys():
            read.append("read by an older version, whose records may differ")
        raise ValueError(
            f"{output_dir!r} belongs to another run, with "
            f"{checks.listed(different)}. Examples: {checks.listed(read)}. "
            "Pass another --output_dir, or its settings to continue that run."
        )


def _is_same_start(run: Fingerprint, other: Fingerprint) -> bool:
    """Returns whether two runs start from the same weights, or same path."""
    digests = run.get(_START_DIGEST), other.get(_START_DIGEST)
    if None not in digests and digests[0] == digests[1]:
        return True
    paths = run.get(_START), other.get(_START)
    # A run that was moved with its start has the same path relative to it.
    return len({path and os.path.normpath(path) for path in paths}) == 1
