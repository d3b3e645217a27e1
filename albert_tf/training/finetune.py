"""Fine-tuning, from examples to scores, predictions and a report.

Data flow: examples -> records -> training, one run per seed -> best weights
-> scores and files.
Floor: training.

Source: google-research/albert, the `main` of `run_classifier.py`,
`run_race.py` and `run_squad_v*.py`.
"""

import dataclasses
import functools
import gc
import logging
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints import load, run_checkpoints
from albert_tf.data import bucketed_batches
from albert_tf.data.bucketed_batches import Padding
from albert_tf.tasks.task import ExampleSet, FinetuningTask, MakeTask, Sets
from albert_tf.training import (
    collapse,
    distribution,
    evaluation,
    records,
    seeds,
    train,
)
from albert_tf.training import finetune_checks as checks
from albert_tf.training import results as results_lib
from albert_tf.training.divergence import TrainingDiverged
from albert_tf.training.records import RecordSet
from albert_tf.training.run_config import FinetuningConfig
from albert_tf.training.run_folder import RunFolder

_LOGGER = logging.getLogger(__name__)

BUCKET_WIDTH = 16
# XLA compiles the model again for every length.
_COMPILED_BUCKET_WIDTH = 64
_STEP = "global_step"


class AllAttemptsFailed(ValueError):
    """Every attempt of a run was degenerate; the message lists them."""


def run(
    config: FinetuningConfig, sets: Sets[ExampleSet], make_task: MakeTask
) -> dict[str, float] | None:
    """Trains, or resumes training, then evaluates and predicts.

    Besides what every run leaves in `output_dir`, there are `eval/` (and
    `eval_<name>/`) with the predictions of the evaluation sets, the files of
    the task for the sets to predict, and `report.html`.

    Args:
        config: Settings of the run.
        sets: Examples to train on, evaluate and predict.
        make_task: Makes the model half of the task.

    Returns:
        Scores of the best weights and `global_step`. With several seeds, the
        medians, with `<key>_std` and `<key>_best` beside them. None if a
        signal stopped the training.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: Files, settings or the output directory do not fit one
            another, or every attempt was degenerate.
    """
    checks.check_settings(config, sets)
    train.make_deterministic(config)
    strategy = distribution.create_strategy(config)
    checks.check_batch_sizes(config, sets, strategy.num_replicas_in_sync)
    # Before records are made, which takes time and writes to the directory.
    for one in [config, *seeds.configs(config)]:
        checks.check_folder(one, sets)
    opened = records.open_sets(config, sets, strategy)
    if (
        opened.train
        and config.train_batch_size > opened.train.columns.num_records
    ):
        _LOGGER.warning(
            "A training batch has %d records, but there are only %d, so some "
            "occur several times in it. Lower --train_batch_size.",
            config.train_batch_size,
            opened.train.columns.num_records,
        )
    if config.num_seeds > 1:
        return _run_seeds(config, opened, make_task, strategy)
    return _Run(config, opened, make_task, strategy).run()


def _run_seeds(
    config: FinetuningConfig,
    sets: Sets[RecordSet],
    make_task: MakeTask,
    strategy: tf.distribute.Strategy,
) -> dict[str, float] | None:
    """Runs every seed in a directory of its own; uses the best weights.

    A seed that is finished is only evaluated.
    """
    is_chief = distribution.is_chief(strategy)
    if is_chief:
        folder = checks.folder_of(config, sets)
        folder.check()
        os.makedirs(config.output_dir, exist_ok=True)
        folder.claim(config)
    scores: dict[int, dict[str, float]] = {}
    failures: dict[int, str] = {}
    without_prediction = dataclasses.replace(sets, prediction=())
    for one in seeds.configs(config):
        seed = one.random_seed
        _LOGGER.info("Seed %d, of %d seeds.", seed, config.num_seeds)
        try:
            found = _Run(one, without_prediction, make_task, strategy).run()
        except (AllAttemptsFailed, TrainingDiverged) as problem:
            failures[seed] = str(problem)
            _LOGGER.warning("Seed %d gives no result: %s", seed, problem)
            continue
        gc.collect()  # the model of this seed, which refers to itself
        if found is None:
            return None
        if found.pop(collapse.CONSTANT_KEY, None):
            failures[seed] = "Its predictions are constant."
            continue
        scores[seed] = found
    if not scores:
        raise AllAttemptsFailed(
            f"None of the {config.num_seeds} seeds gives a result. The first: "
            f"{failures[config.random_seed]}"
        )
    primary_metric = sets.data.primary_metric
    best = max(scores, key=lambda seed: scores[seed][primary_metric])
    if is_chief:
        seeds.copy_best_weights(config.output_dir, best)
    distribution.wait_for_all(strategy)
    results = seeds.summary(scores, best, num_failed=len(failures))
    details = seeds.details(config.output_dir, scores, failures)
    if failures:
        _LOGGER.warning(
            "%d of %d seeds give no result and are left out of the medians: "
            "%s.",
            len(failures),
            config.num_seeds,
            ", ".join(map(str, failures)),
        )
    best_run = _Run(
        config, dataclasses.replace(sets, train=None), make_task, strategy
    )
    best_run.use(
        os.path.join(config.output_dir, run_checkpoints.BEST_FOLDER),
        best_run.make_task(config),
        results=results | details,
    )
    return results


class _Run:
    """One run in its output directory: attempts, best weights, scores.

    Args:
        config: Settings of the run, with its own seed and directory.
        sets: Sets of records.
        make_task: Makes the model half of the task.
        strategy: The replicas.
    """

    def __init__(
        self,
        config: FinetuningConfig,
        sets: Sets[RecordSet],
        make_task: MakeTask,
        strategy: tf.distribute.Strategy,
    ) -> None:
        self._config = config
        self._sets = sets
        self._make_task = make_task
        self._strategy = strategy
        self._is_chief = distribution.is_chief(strategy)
        self._padding = padding_for(config, strategy)

    def run(self) -> dict[str, float] | None:
        """Trains if there are examples to train on; evaluates and predicts.

        Returns:
            Scores and `global_step`; and `collapse.CONSTANT_KEY`, 1, if the
            predictions are constant and `on_collapse` does not restart the
            run. None if a signal stopped the training.
        """
        config, train_set = self._config, self._sets.train
        if train_set is None:
            return self.use(
                checks.weights_to_use(config, self._sets),
                self.make_task(config),
            )
        folder = checks.folder_of(config, self._sets, train_set.fingerprint)
        attempts = self._read_attempts(folder)
        while True:
            self._check_attempts(attempts)
            # Another seed and a longer warm-up after each failed attempt.
            attempt = attempts.config(config)
            task = self.make_task(attempt)
            try:
                if not self._train(attempt, train_set, folder, task, attempts):
                    return None
                return self.use(checks.weights_to_use(config, self._sets), task)
            except collapse.RunCollapsed as problem:
                if config.on_collapse == "ignore":
                    raise
                attempts = self._fail(attempts, folder, str(problem))

    def make_task(self, config: FinetuningConfig) -> FinetuningTask:
        """Makes the model in the scope of the strategy."""
        with self._strategy.scope():
            return self._make_task(
                config.albert_config,
                seed=config.random_seed,
                dtype=config.dtype_policy,
            )

    def _train(
        self,
        config: FinetuningConfig,
        train_set: RecordSet,
        folder: RunFolder,
        task: FinetuningTask,
        attempts: collapse.Attempts,
    ) -> bool:
        """Trains one attempt; returns whether it is finished."""
        sets = self._sets
        evaluator = None
        if sets.evaluation:
            evaluator = results_lib.FinetuningEvaluator(
                config, sets.evaluation, self._predictor(task)
            )
        guard = collapse.Guard(
            config,
            self._strategy,
            chance=_chance_loss(train_set),
            is_last_attempt=attempts.number >= config.max_restarts,
        )
        is_finished = train.train(
            config,
            folder=folder,
            task=task,
            strategy=self._strategy,
            batches=_TrainingBatches(
                config, train_set, self._strategy, self._padding
            ),
            evaluator=evaluator,
            on_checkpoint=guard.check if guard.is_active else None,
        )
        if is_finished:
            _LOGGER.info("Training is finished.")
            # The chief may still be writing.
            distribution.wait_for_all(self._strategy)
        return is_finished

    def use(
        self,
        path: str,
        task: FinetuningTask,
        *,
        results: Mapping[str, Any] | None = None,
    ) -> dict[str, float]:
        """Evaluates and predicts with the weights at a path.

        Args:
            path: A checkpoint of the task.
            task: Its model receives the weights.
            results: Written in place of the scores; JSON values.

        Returns:
            See `run`.

        Raises:
            RunCollapsed: The predictions of a trained model are constant.
        """
        config, sets = self._config, self._sets
        load.load_checkpoint(task.model, path)
        _LOGGER.info("Using the weights of %s.", path)
        predictor = self._predictor(task)
        outputs = results_lib.predict(
            predictor, sets.evaluation, config.eval_batch_size
        )
        scores = results_lib.scores_of(sets.evaluation, outputs)
        found = dict(scores)
        problem = sets.evaluation and results_lib.constant_predictions(
            sets.evaluation[0], outputs
        )
        if problem and self._restarts_degenerate_runs():
            raise collapse.RunCollapsed(problem)
        if problem:
            _LOGGER.warning("%s The model has learnt nothing useful.", problem)
            found[collapse.CONSTANT_KEY] = 1.0
        found[_STEP] = load.global_step(path)
        # All workers compute before one of them writes.
        outputs = results_lib.predict(
            predictor, sets.prediction, config.predict_batch_size, outputs
        )
        if self._is_chief:
            results_lib.write(config, sets, outputs, scores, results or found)
        return found

    def _restarts_degenerate_runs(self) -> bool:
        return (
            self._sets.train is not None
            and self._config.on_collapse == "restart"
            and self._config.num_train_steps >= collapse.LEAST_STEPS
        )

    def _predictor(self, task: FinetuningTask) -> evaluation.Predictor:
        return evaluation.Predictor(task, self._strategy, self._padding)

    def _read_attempts(self, folder: RunFolder) -> collapse.Attempts:
        if self._is_chief:
            folder.check()
            # Completes what a kill may have interrupted.
            collapse.read_attempts(folder.path)
        distribution.wait_for_all(self._strategy)
        return collapse.read_attempts(folder.path)

    def _check_attempts(self, attempts: collapse.Attempts) -> None:
        if attempts.number <= self._config.max_restarts:
            return
        problems = "; ".join(
            f"{number}: {problem}"
            for number, problem in enumerate(attempts.problems, start=1)
        )
        raise AllAttemptsFailed(
            f"All {attempts.number} attempts of the run in "
            f"{self._config.output_dir!r} failed, so there is no result. "
            f"Attempt {problems}. Lower --learning_rate, train longer, start "
            "from a better --init_checkpoint, or pass --on_collapse=ignore, "
            "with another --output_dir."
        )

    def _fail(
        self, attempts: collapse.Attempts, folder: RunFolder, problem: str
    ) -> collapse.Attempts:
        _LOGGER.warning("Attempt %d failed: %s", attempts.number + 1, problem)
        problem = problem.split(". ")[0].rstrip(".")
        if self._is_chief:
            with folder.locked():
                collapse.fail_attempt(folder.path, attempts, problem)
        distribution.wait_for_all(self._strategy)
        failed = collapse.Attempts(problems=(*attempts.problems, problem))
        if failed.number <= self._config.max_restarts:
            attempt = failed.config(self._config)
            _LOGGER.warning(
                "Restarting with random_seed=%d, num_warmup_steps=%d.",
                attempt.random_seed,
                attempt.num_warmup_steps,
            )
        return failed


@dataclasses.dataclass(frozen=True)
class _TrainingBatches:
    """The training stream; see `loop.Batches`."""

    config: FinetuningConfig
    records: RecordSet
    strategy: tf.distribute.Strategy
    padding: Padding

    def starting_at(self, position: int) -> tf.data.Dataset:
        """Returns the batches from a position on."""
        columns = self.records.columns
        order = bucketed_batches.BucketedOrder(
            columns.lengths,
            batch_size=self.config.train_batch_size,
            seed=self.config.random_seed,
        )
        return distribution.distribute(
            self.strategy,
            functools.partial(
                bucketed_batches.training_dataset,
                columns,
                order,
                padding=self.padding,
                start_step=position,
            ),
        )


def padding_for(
    config: FinetuningConfig, strategy: tf.distribute.Strategy
) -> Padding:
    """Returns how batches are padded: on a TPU, all to the same length."""
    width = _COMPILED_BUCKET_WIDTH if config.jit_compile else BUCKET_WIDTH
    if distribution.device_type(strategy) == "TPU":
        width = config.max_seq_length
    return Padding(max_seq_length=config.max_seq_length, bucket_width=width)


def _chance_loss(train_set: RecordSet) -> float:
    """Returns the training loss at chance level; 0 if it is not known.

    Records without labels are answered by a position in the sequence.
    """
    labels = results_lib.labels_of(train_set)
    if labels is None:
        return float(np.mean(np.log(train_set.columns.lengths)))
    return collapse.chance_loss(labels)
