"""One fine-tuning run in its directory, restarted while it is degenerate.

Data flow: records -> attempts at training -> best weights -> scores and files.
`attempts.json` records which attempt an output directory is in.
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

from albert_tf import files
from albert_tf.checkpoints import load, run_checkpoints
from albert_tf.tasks.task import FinetuningTask, MakeTask, Sets
from albert_tf.training import (
    collapse,
    metric_log,
    prediction,
    records,
    results,
    run_folder,
    train,
)
from albert_tf.training.records import RecordSet
from albert_tf.training.run_config import FinetuningConfig
from albert_tf.training.run_folder import RunFolder
from albert_tf.training.workers import Workers

_LOGGER = logging.getLogger(__name__)

ATTEMPTS_FILE = "attempts.json"
# Seeds of attempts are far from those of --num_seeds, which are consecutive.
_SEED_DISTANCE = 1_000_003
_WARMUP_SHARE = 0.1
_LONGEST_WARMUP = 0.5
# Files that a failed attempt takes with it, and those that it gets a copy of.
_OF_ATTEMPT = (
    run_checkpoints.CHECKPOINTS_FOLDER,
    run_checkpoints.BEST_FOLDER,
    metric_log.FILE_NAME,
    "events.out.tfevents*",
)
_OF_RUN = (
    run_folder.FINGERPRINT_FILE,
    run_folder.CONFIG_FILE,
    run_folder.FLAGS_FILE,
)


class AllAttemptsFailed(ValueError):
    """Every attempt of a run was degenerate; the message lists them."""


class ModelDegenerate(ValueError):
    """A trained model is degenerate; the message says how this shows."""


def folder_of(config: FinetuningConfig, sets: Sets[RecordSet]) -> RunFolder:
    """Returns the output directory of a run that trains with one seed."""
    train = sets.train.fingerprint if sets.train else None
    evaluation = sets.evaluation[0].fingerprint if sets.evaluation else None
    return run_folder.finetuning_folder(config, sets.data, train, evaluation)


class SingleRun:
    """A run with one seed: attempts, best weights, scores."""

    def __init__(
        self,
        config: FinetuningConfig,
        sets: Sets[RecordSet],
        make_task: MakeTask,
        workers: Workers,
    ) -> None:
        self._config = config
        self._sets = sets
        self._make_task = make_task
        self._workers = workers
        self._padding = records.padding_for(config, workers.strategy)

    def run(self) -> dict[str, float] | None:
        """Trains if there are examples to train on; evaluates and predicts.

        Returns:
            Scores, `loss` and `global_step`; and `collapse.DEGENERATE`, 1, if
            the model is degenerate and `on_collapse` accepts it. None if a
            signal stopped the training.
        """
        config, train_set = self._config, self._sets.train
        if train_set is None:
            return self.use(self._weights_to_use())
        folder = folder_of(config, self._sets)
        attempts = self._read_attempts(folder)
        while True:
            self._check_attempts(attempts)
            # Another seed and a longer warm-up after each failed attempt.
            attempt = attempts.config(config)
            task = self._create_task(attempt)
            try:
                if not self._train(attempt, train_set, folder, task):
                    return None
                return self.use(self._weights_to_use(), task)
            except ModelDegenerate as problem:
                attempts = self._fail(attempts, folder, str(problem))

    def _weights_to_use(self) -> str:
        return run_folder.weights_to_use(
            self._config.output_dir,
            self._config.init_checkpoint,
            is_training=self._sets.train is not None,
        )

    def _create_task(self, config: FinetuningConfig) -> FinetuningTask:
        with self._workers.strategy.scope():
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
    ) -> bool:
        """Trains one attempt; returns whether it is finished."""
        sets = self._sets
        evaluator = None
        if sets.evaluation:
            evaluator = results.FinetuningEvaluator(
                config, sets.evaluation, self._predictor(task)
            )
        is_finished = train.train(
            config,
            folder=folder,
            task=task,
            workers=self._workers,
            batches_from=functools.partial(
                records.training_batches,
                config,
                train_set,
                self._workers.strategy,
                self._padding,
            ),
            evaluator=evaluator,
        )
        if is_finished:
            _LOGGER.info("Training is finished.")
            # The chief may still be writing.
            self._workers.wait()
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
            ModelDegenerate: It has just been trained, and `on_collapse` is
                `restart`.
        """
        config, sets = self._config, self._sets
        task = task or self._create_task(config)
        load.load_checkpoint(task.model, path)
        self._workers.check_same_weights(task.model)
        _LOGGER.info("Using the weights of %s.", path)
        predictor = self._predictor(task, is_final=True)
        outputs = results.predict(
            predictor, sets.evaluation, config.eval_batch_size
        )
        scores = results.scores_of(sets.evaluation, outputs)
        judgement = results.judge(sets.evaluation, outputs)
        found = scores | (judgement.scores if judgement else {})
        if judgement and judgement.is_degenerate:
            _LOGGER.warning("%s: on the evaluation set, %s.", path, judgement)
        problem = self._problem(task, path, judgement)
        if problem and config.on_collapse == "restart":
            raise ModelDegenerate(problem)
        if problem:
            _LOGGER.warning("The model is degenerate: %s.", problem)
            found[collapse.DEGENERATE] = 1.0
        found["global_step"] = load.global_step(path)
        # All workers compute before one of them writes.
        outputs = results.predict(
            predictor, sets.prediction, config.predict_batch_size, outputs
        )
        self._workers.run_in_chief(
            functools.partial(
                results.write,
                *(config, sets, outputs, scores),
                own_results or found,
            ),
        )
        results.write_streams(
            config, sets.streams, predictor, scores, self._workers
        )
        return found

    def _problem(
        self,
        task: FinetuningTask,
        path: str,
        of_evaluation: collapse.Judgement | None,
    ) -> str | None:
        """Says why the model that has been trained is degenerate, if it is.

        It is not if the evaluation of the weights at `path` is above chance,
        or if the last evaluation of the training was: the primary metric may
        prefer worse weights. Where that is not known, and for a model that has
        learnt what does not help on other records, its newest weights and the
        records that it was trained on decide.
        """
        config, train_set = self._config, self._sets.train
        if train_set is None or config.num_train_steps < collapse.LEAST_STEPS:
            return None
        key = f"eval_{collapse.ABOVE_CHANCE}"
        lines = metric_log.read_lines(config.output_dir)
        is_sound = [line[key] for line in lines if key in line][-1:]
        if of_evaluation:
            is_sound.append(not of_evaluation.is_degenerate)
        if any(is_sound):
            return None
        newest = run_checkpoints.latest_checkpoint(config.output_dir) or path
        load.load_checkpoint(task.model, newest)
        columns = records.sample(train_set.columns)
        outputs = self._predictor(task).run(
            columns,
            # A number that the replicas divide.
            batch_size=config.train_batch_size
            // config.gradient_accumulation_steps,
        )
        load.load_checkpoint(task.model, path)
        judgement = collapse.judge(columns, outputs)
        if judgement is None or not judgement.is_degenerate:
            return None
        return f"on records it was trained on, {judgement}"

    def _predictor(
        self, task: FinetuningTask, *, is_final: bool = False
    ) -> prediction.Predictor:
        return prediction.Predictor(
            task, self._workers.strategy, self._padding, is_final=is_final
        )

    def _read_attempts(self, folder: RunFolder) -> "Attempts":
        def prepare() -> None:
            folder.check()
            # Completes what a kill may have interrupted.
            read_attempts(folder.path)

        self._workers.run_in_chief(prepare)
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
            f"{self._config.output_dir!r} gave a degenerate model, so there "
            f"is no result. Attempt {problems}. Lower --learning_rate, train "
            "longer, start from a better --init_checkpoint, or pass "
            "--on_collapse=ignore, with another --output_dir. The models are "
            f"kept in {os.path.join(self._config.output_dir, 'attempt-*')!r}."
        )

    def _fail(
        self, attempts: "Attempts", folder: RunFolder, problem: str
    ) -> "Attempts":
        _LOGGER.warning(
            "Attempt %d gave a degenerate model, which is kept in %s: %s.",
            attempts.number + 1,
            attempts.folder(folder.path),
            problem,
        )

        def put_aside() -> None:
            with folder.locked():
                fail_attempt(folder.path, attempts, problem)

        self._workers.run_in_chief(put_aside)
        failed = Attempts(problems=(*attempts.problems, problem))
        if failed.number <= self._config.max_restarts:
            attempt = failed.config(self._config)
            _LOGGER.warning(
                "Restarting with random_seed=%d, num_warmup_steps=%d.",
                attempt.random_seed,
                attempt.num_warmup_steps,
            )
        return failed


@dataclasses.dataclass(frozen=True, kw_only=True)
class Attempts:
    """The attempts of a run that restarts when it is degenerate.

    Args:
        problems: Why the model of each earlier attempt is degenerate.
        is_cleared: Whether the files of the last one have been put aside.
    """

    problems: tuple[str, ...] = ()
    is_cleared: bool = True

    @property
    def number(self) -> int:
        """Number of the current attempt, from 0."""
        return len(self.problems)

    def folder(self, output_dir: str) -> str:
        """Returns where the current attempt is kept if it fails."""
        return os.path.join(output_dir, f"attempt-{self.number + 1}")

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
    """Records that the current attempt failed, and puts its files aside.

    Its folder is that of a run, too: its models can be evaluated, exported
    and converted. The caller holds the lock of the directory.
    """
    failed = Attempts(problems=(*attempts.problems, problem), is_cleared=False)
    _write(output_dir, failed)
    _clear(output_dir, failed)


def _clear(output_dir: str, failed: Attempts) -> Attempts:
    folder = Attempts(problems=failed.problems[:-1]).folder(output_dir)
    os.makedirs(folder, exist_ok=True)
    for name in _OF_RUN:
        with contextlib.suppress(FileNotFoundError):
            shutil.copy2(os.path.join(output_dir, name), folder)
    for pattern in _OF_ATTEMPT:
        # A kill may have interrupted an earlier call: the rest is left.
        for path in glob.glob(os.path.join(glob.escape(output_dir), pattern)):
            os.replace(path, os.path.join(folder, os.path.basename(path)))
    cleared = dataclasses.replace(failed, is_cleared=True)
    _write(output_dir, cleared)
    return cleared


def _write(output_dir: str, attempts: Attempts) -> None:
    path = os.path.join(output_dir, ATTEMPTS_FILE)
    files.write_json(path, dataclasses.asdict(attempts))
