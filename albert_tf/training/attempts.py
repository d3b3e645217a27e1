"""One fine-tuning run in its directory, restarted while it is degenerate.

Data flow: records -> attempts at training -> best weights -> scores and files.
`attempts.json` records which attempt an output directory is in.

Floor: training.
"""

import contextlib
import dataclasses
import functools
import glob
import logging
import os
import shutil
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints import load, run_checkpoints
from albert_tf.tasks.task import FinetuningTask, MakeTask, Sets
from albert_tf.training import (
    collapse,
    distribution,
    metric_log,
    records,
    results,
    run_folder,
    train,
)
from albert_tf.training.records import RecordSet
from albert_tf.training.run_config import FinetuningConfig
from albert_tf.training.run_folder import RunFolder

_LOGGER = logging.getLogger(__name__)

ATTEMPTS_FILE = "attempts.json"
# Seeds of attempts are far from those of --num_seeds, which are consecutive.
_SEED_DISTANCE = 1_000_003
_WARMUP_SHARE = 0.1
_LONGEST_WARMUP = 0.5


class AllAttemptsFailed(ValueError):
    """Every attempt of a run was degenerate; the message lists them."""


class SingleRun:
    """A run with one seed: attempts, best weights, scores."""

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
        self._padding = records.padding_for(config, strategy)

    def run(self) -> dict[str, float] | None:
        """Trains if there are examples to train on; evaluates and predicts.

        Returns:
            Scores and `global_step`; and `collapse.CONSTANT_KEY`, 1, if the
            predictions are constant and `on_collapse` does not restart the
            run. None if a signal stopped the training.
        """
        config, train_set = self._config, self._sets.train
        if train_set is None:
            return self.use(self._weights_to_use())
        folder = run_folder.finetuning_folder(
            config, train_set.data, train_set.fingerprint
        )
        attempts = self._read_attempts(folder)
        while True:
            self._check_attempts(attempts)
            # Another seed and a longer warm-up after each failed attempt.
            attempt = attempts.config(config)
            task = self._create_task(attempt)
            try:
                if not self._train(attempt, train_set, folder, task, attempts):
                    return None
                return self.use(self._weights_to_use(), task)
            except collapse.RunCollapsed as problem:
                attempts = self._fail(attempts, folder, str(problem))

    def _weights_to_use(self) -> str:
        return run_folder.weights_to_use(
            self._config.output_dir,
            self._config.init_checkpoint,
            is_training=self._sets.train is not None,
        )

    def _create_task(self, config: FinetuningConfig) -> FinetuningTask:
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
        attempts: "Attempts",
    ) -> bool:
        """Trains one attempt; returns whether it is finished."""
        sets = self._sets
        evaluator = on_checkpoint = None
        if sets.evaluation:
            evaluator = results.FinetuningEvaluator(
                config, sets.evaluation, self._predictor(task)
            )
        chance = _chance_loss(train_set)
        # A chance level of 0 means that there is nothing to learn.
        if config.on_collapse == "restart" and chance > 0:
            on_checkpoint = functools.partial(
                collapse.check,
                config=config,
                strategy=self._strategy,
                chance=chance,
                is_last_attempt=attempts.number >= config.max_restarts,
            )
        is_finished = train.train(
            config,
            folder=folder,
            task=task,
            strategy=self._strategy,
            batches_from=functools.partial(
                records.training_batches,
                config,
                train_set,
                self._strategy,
                self._padding,
            ),
            evaluator=evaluator,
            on_checkpoint=on_checkpoint,
        )
        if is_finished:
            _LOGGER.info("Training is finished.")
            # The chief may still be writing.
            distribution.wait_for_all(self._strategy)
        return is_finished

    def use(
        self,
        path: str,
        task: FinetuningTask | None = None,
        *,
        own_results: Mapping[str, Any] | None = None,
    ) -> dict[str, float]:
        """Evaluates and predicts with the weights at a path; see `run`.

        The model of `task` receives the weights, or a new one. `own_results`,
        JSON values, are written in place of the scores.

        Raises:
            RunCollapsed: The predictions of a trained model are constant.
        """
        config, sets = self._config, self._sets
        task = task or self._create_task(config)
        load.load_checkpoint(task.model, path)
        _LOGGER.info("Using the weights of %s.", path)
        predictor = self._predictor(task)
        outputs = results.predict(
            predictor, sets.evaluation, config.eval_batch_size
        )
        scores = results.scores_of(sets.evaluation, outputs)
        found = dict(scores)
        problem = sets.evaluation and results.constant_predictions(
            sets.evaluation[0], outputs
        )
        if problem and self._restarts_degenerate_runs():
            raise collapse.RunCollapsed(problem)
        if problem:
            _LOGGER.warning("%s The model has learnt nothing useful.", problem)
            found[collapse.CONSTANT_KEY] = 1.0
        found["global_step"] = load.global_step(path)
        # All workers compute before one of them writes.
        outputs = results.predict(
            predictor, sets.prediction, config.predict_batch_size, outputs
        )
        if self._is_chief:
            results.write(config, sets, outputs, scores, own_results or found)
        results.write_streams(
            config, sets.streams, predictor, scores, is_chief=self._is_chief
        )
        return found

    def _restarts_degenerate_runs(self) -> bool:
        return (
            self._sets.train is not None
            and self._config.on_collapse == "restart"
            and self._config.num_train_steps >= collapse.LEAST_STEPS
        )

    def _predictor(self, task: FinetuningTask) -> results.Predictor:
        return results.Predictor(task, self._strategy, self._padding)

    def _read_attempts(self, folder: RunFolder) -> "Attempts":
        if self._is_chief:
            folder.check()
            # Completes what a kill may have interrupted.
            read_attempts(folder.path)
        distribution.wait_for_all(self._strategy)
        return read_attempts(folder.path)

    def _check_attempts(self, attempts: "Attempts") -> None:
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
        self, attempts: "Attempts", folder: RunFolder, problem: str
    ) -> "Attempts":
        _LOGGER.warning("Attempt %d failed: %s", attempts.number + 1, problem)
        problem = problem.split(". ")[0].rstrip(".")
        if self._is_chief:
            with folder.locked():
                fail_attempt(folder.path, attempts, problem)
        distribution.wait_for_all(self._strategy)
        failed = Attempts(problems=(*attempts.problems, problem))
        if failed.number <= self._config.max_restarts:
            attempt = failed.config(self._config)
            _LOGGER.warning(
                "Restarting with random_seed=%d, num_warmup_steps=%d.",
                attempt.random_seed,
                attempt.num_warmup_steps,
            )
        return failed


def _chance_loss(train_set: RecordSet) -> float:
    labels = train_set.labels
    if labels is None:
        # Such records are answered by a position in the sequence.
        return float(np.mean(np.log(train_set.columns.lengths)))
    return collapse.chance_loss(labels)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Attempts:
    """The attempts of a run that restarts when it is degenerate.

    Args:
        problems: Why each earlier attempt failed.
        is_cleared: Whether the files of the last one have been put aside.
    """

    problems: tuple[str, ...] = ()
    is_cleared: bool = True

    @property
    def number(self) -> int:
        """Number of the current attempt, from 0."""
        return len(self.problems)

    def config(self, config: FinetuningConfig) -> FinetuningConfig:
        """Returns the settings of the current attempt.

        A restart has another seed, and a longer warm-up: doubled each time, at
        least a tenth of the run longer, and over by the middle of the run.
        """
        if not self.number:
            return config
        steps = config.num_train_steps
        longer = max(
            config.num_warmup_steps * 2**self.number,
            int(steps * _WARMUP_SHARE * self.number),
        )
        longest = int(steps * _LONGEST_WARMUP) - config.start_warmup_step
        return dataclasses.replace(
            config,
            random_seed=config.random_seed + _SEED_DISTANCE * self.number,
            num_warmup_steps=max(config.num_warmup_steps, min(longer, longest)),
        )


def read_attempts(output_dir: str) -> Attempts:
    """Returns the attempts of a run; completes an interrupted clean-up."""
    values = files.read_json_object(
        os.path.join(output_dir, ATTEMPTS_FILE), missing_ok=True
    )
    if not values:
        return Attempts()
    found = Attempts(
        problems=tuple(values["problems"]), is_cleared=values["is_cleared"]
    )
    return found if found.is_cleared else _clear(output_dir, found)


def fail_attempt(output_dir: str, attempts: Attempts, problem: str) -> None:
    """Records that the current attempt failed and makes room for the next.

    The log is kept as `attempt-<number>.jsonl`; checkpoints are removed. The
    caller holds the lock of the directory.
    """
    failed = Attempts(problems=(*attempts.problems, problem), is_cleared=False)
    _write(output_dir, failed)
    _clear(output_dir, failed)


def _clear(output_dir: str, attempts: Attempts) -> Attempts:
    log = os.path.join(output_dir, metric_log.FILE_NAME)
    with contextlib.suppress(FileNotFoundError):
        kept = f"attempt-{attempts.number - 1}.jsonl"
        os.replace(log, os.path.join(output_dir, kept))
    for name in (
        run_checkpoints.CHECKPOINTS_FOLDER,
        run_checkpoints.BEST_FOLDER,
    ):
        shutil.rmtree(os.path.join(output_dir, name), ignore_errors=True)
    pattern = os.path.join(glob.escape(output_dir), "events.out.tfevents*")
    for path in glob.glob(pattern):
        os.remove(path)
    cleared = dataclasses.replace(attempts, is_cleared=True)
    _write(output_dir, cleared)
    return cleared


def _write(output_dir: str, attempts: Attempts) -> None:
    path = os.path.join(output_dir, ATTEMPTS_FILE)
    files.write_json(path, dataclasses.asdict(attempts))
