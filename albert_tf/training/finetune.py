"""Fine-tuning, from examples to scores and predictions.

Data flow: examples -> records -> training -> best weights -> evaluation,
predictions -> callbacks. With several seeds or folds, `several_runs` repeats
this.

Source: google-research/albert, the `main` of `run_classifier.py`,
`run_race.py` and `run_squad_v*.py`.
"""

import contextlib
import dataclasses
import functools
import logging
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from albert_tf import files, registry
from albert_tf.checkpoints import discovery, heads, run_checkpoints
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.devices import strategies
from albert_tf.devices.strategies import Workers
from albert_tf.inference import record_outputs
from albert_tf.inference.record_outputs import OutputComputer
from albert_tf.metrics.scores import Role, Score, Scores
from albert_tf.tasks.label_frequencies import Comparison
from albert_tf.tasks.task import MakeTask
from albert_tf.tasks.task_data import ExampleSet, Outputs, Sets, TaskData
from albert_tf.training import (
    loop,
    record_sets,
    resume,
    run_folder,
    several_runs,
)
from albert_tf.training.callbacks import Callback, CallbackList, Result, Run
from albert_tf.training.computation import Computation
from albert_tf.training.record_sets import RecordSet
from albert_tf.training.run_config import FinetuningConfig

_LOGGER = logging.getLogger(__name__)

# Runs with fewer steps are trials, which are not compared with chance.
LEAST_STEPS = 50


def run(
    config: FinetuningConfig,
    sets: Sets[ExampleSet],
    make_task: MakeTask,
    start: Checkpoint | None = None,
    callbacks: Sequence[Callback] = (),
) -> Result | None:
    """Trains, or resumes training, then evaluates and predicts.

    Args:
        config: Settings of the run.
        sets: Examples to train on, to evaluate and to predict.
        make_task: Makes the model half of the task.
        start: Checkpoint that the training starts from, or that is used without
            training; None for random weights.
        callbacks: Observers, besides the standard ones.

    Returns:
        The result of the best weights; with several seeds, the medians. None if
        the training was stopped.
    """
    # 1. Checks, before records are made.
    _check_settings(config, sets)
    resume.make_deterministic(config)
    with contextlib.ExitStack() as stack:
        workers = stack.enter_context(strategies.start_workers(config))
        config.check_batch_sizes(
            workers.strategy.num_replicas_in_sync,
            train_batch_size=sets.train,
            eval_batch_size=sets.evaluation,
            predict_batch_size=sets.prediction,
        )
        if start and not sets.train:
            _check_weights(config, sets.data, start)

        make_run = functools.partial(
            FinetuningRun,
            computation=Computation(config, make_task, workers),
            workers=workers,
            start=start,
            callbacks=callbacks,
        )
        if config.num_folds > 1 and sets.train:
            workers.run_in_chief(several_runs.claim, config, sets, stack)
            observers = _make_observers(config, sets, callbacks, workers)
            return several_runs.run_folds(
                config, sets.train, make_run, workers, observers
            )

        # 2. Records, which all seeds share.
        with_records = record_sets.make_sets(config, sets)
        workers.check_same(
            record_sets.fingerprints(with_records),
            "All workers need the same files.",
        )

        # 3. Training, evaluation, predictions, report.
        if config.num_seeds > 1:
            workers.run_in_chief(
                several_runs.claim, config, with_records, stack
            )
            return several_runs.run_seeds(
                config, with_records, make_run, workers
            )
        return make_run(config, with_records).run()


def _check_settings(config: FinetuningConfig, sets: Sets[ExampleSet]) -> None:
    """Checks that the settings fit the examples."""
    unused = {"best_metric": None, "early_stopping_patience": 0, "num_seeds": 1}
    has_scores = sets.train and (sets.evaluation or config.num_folds > 1)
    for name, default in unused.items():
        if getattr(config, name) != default and not has_scores:
            raise ValueError(
                f"`{name}` needs training and evaluations. Pass --do_train and "
                f"--do_eval. Received: {name}={getattr(config, name)!r}."
            )


def _check_weights(
    config: FinetuningConfig, data: TaskData, weights: Checkpoint
) -> None:
    """Checks that weights match the model, labels and tokenizer of the task."""
    run_folder.check_model(config, data.name)
    if config.head in heads.HEADS:
        weights.head(config.head)  # raises if it has another
    labels = data.settings.get("labels")
    weights.check_task(
        Metadata(
            labels=None if labels is None else tuple(labels),
            do_lower_case=data.tokenizer.settings.do_lower_case,
            tokenizer_hash=data.settings.get(run_folder.TOKENIZER),
        ),
    )


def _make_observers(
    config: FinetuningConfig,
    sets: Sets[Any],
    callbacks: Sequence[Callback],
    workers: Workers,
) -> CallbackList:
    run = Run(
        config=config,
        title=f"Fine-tuning: {sets.data.name}",
        metric=sets.data.primary_metric,
        is_training=sets.train is not None,
        sets=sets,
    )
    return CallbackList(run, callbacks, workers)


class Evaluation(NamedTuple):
    """Outputs and scores of the evaluation sets.

    `comparison` is None if the loss on the first set has no chance level.
    """

    outputs: Mapping[ExampleSet, Outputs]
    scores: Scores
    comparison: Comparison | None


class FinetuningRun:
    """One run, with one seed: trains, then evaluates and predicts."""

    def __init__(
        self,
        config: FinetuningConfig,
        sets: Sets[RecordSet],
        *,
        computation: Computation,
        workers: Workers,
        start: Checkpoint | None,
        callbacks: Sequence[Callback],
    ) -> None:
        self._config = config
        self._sets = sets
        self._workers = workers
        self._start = start
        self._observers = _make_observers(config, sets, callbacks, workers)
        self._computation = computation
        computation.begin(config.random_seed)
        self._task = computation.task

    def run(
        self,
        weights: Checkpoint | None = None,
        seeds_result: Result | None = None,
    ) -> Result | None:
        """Trains, if there are examples to train on; evaluates and predicts.

        Without training, it uses `weights`, or else the start. The scores of
        `seeds_result`, if it is given, replace the scores of the weights.
        Returns None if the training was stopped.
        """
        with self._observers:
            if self._sets.train:
                weights = self._train()
            else:
                weights = weights or self._start
            if weights is None:
                return None
            return self._evaluate_and_predict(weights, seeds_result)

    def _train(self) -> Checkpoint | None:
        """Trains or resumes; returns the best weights, or None if stopped."""
        config = self._config
        with resume.prepare_training(
            config,
            folder=record_sets.folder_of(config, self._sets),
            train_step=self._computation.train_step(),
            workers=self._workers,
            start=self._start,
            # A pretrained checkpoint lacks the head of the task.
            allow_new_heads=True,
        ) as training:
            is_finished = loop.TrainingLoop(
                config,
                training,
                observers=self._observers,
                batches_from=functools.partial(
                    record_sets.training_batches,
                    config,
                    cast(RecordSet, self._sets.train),
                    self._workers.strategy,
                    self._computation.padding,
                ),
                evaluate=self.evaluate if self._sets.evaluation else None,
                patience=config.early_stopping_patience,
            ).run()
        if not is_finished:
            return None
        path = run_checkpoints.trained_weights(config.output_dir)
        return discovery.open(path) if path else None

    def evaluate(self) -> Scores:
        """Returns the scores of the current weights, and the `loss`."""
        return self._evaluate(self._computation.outputs).scores

    def _evaluate(
        self, computer: OutputComputer, chosen: Scores | None = None
    ) -> Evaluation:
        """Scores the evaluation sets; keys of a named set end in `_<name>`.

        With early exit, the `chosen` thresholds, of all layers, are used, and
        `mean_layers` is the mean number of layers.
        """
        all_outputs: dict[ExampleSet, Outputs] = {}
        entries: list[Score] = []
        comparison = None
        batch_size = self._config.eval_batch_size
        for eval_set in self._sets.evaluation:
            outputs = computer.run(eval_set.columns, batch_size)
            if problem := record_outputs.find_not_finite(outputs):
                raise loop.TrainingDiverged(problem)
            all_outputs[eval_set] = outputs
            data = eval_set.data
            leaves_early = "num_layers" in outputs
            # The first set chooses thresholds.
            decided = leaves_early and chosen or Scores(entries=tuple(entries))
            if decided:
                data = data.with_decision(decided)
            if leaves_early and decided.thresholds:
                _LOGGER.warning(
                    "The thresholds were chosen with all layers. Predictions "
                    "that leave early may miss their goal."
                )
            results = [*data.scores(eval_set.examples, outputs).entries]
            if leaves_early:
                mean = float(np.mean(outputs["num_layers"]))
                results.append(Score("mean_layers", mean))
            ending = f"_{eval_set.name}" if eval_set.name else ""
            for score in map(_finite, results):
                entries.append(score._replace(key=score.key + ending))
        if self._sets.evaluation:
            main = self._sets.evaluation[0]
            comparison = main.data.compare_with_chance(
                main.columns, all_outputs[main]
            )
        if comparison and math.isfinite(comparison.loss):
            entries.append(Score("loss", comparison.loss, Role.LOSS))
        scores = Scores(entries=tuple(entries))
        return Evaluation(all_outputs, scores, comparison)

    def _evaluate_and_predict(
        self, weights: Checkpoint, seeds_result: Result | None
    ) -> Result:
        """Evaluates the weights, predicts, and writes the files."""
        config, sets, workers = self._config, self._sets, self._workers
        if not sets.train:
            self._observers.begin(step=weights.step)
        start_outputs = self._start_outputs(weights)
        resume.set_weights(self._task.model, weights, workers)
        computer = self._computation.final_outputs

        # 1. Evaluation.
        evaluation = self._evaluate(computer, weights.metadata.chosen)
        problem = self._find_problem(computer, evaluation)
        if problem:
            _LOGGER.warning("%s: %s", weights.path, problem)
        scores = dataclasses.replace(
            evaluation.scores, is_degenerate=bool(problem), step=weights.step
        )
        facts, thresholds = None, weights.metadata.chosen
        if sets.evaluation:
            main, thresholds = sets.evaluation[0], evaluation.scores
            if not evaluation.comparison:
                _LOGGER.info("%s", main.data.why_not_compared(main.columns))
            alternative = registry.load(registry.ALTERNATIVES["simple"])
            outputs = alternative.with_outputs(
                evaluation.outputs[main], sets.train, main
            )
            all_outputs = {**evaluation.outputs, main: outputs}
            evaluation = evaluation._replace(outputs=all_outputs)
            more = self._observers.additional_scores(
                main, outputs, scores, **start_outputs
            )
            scores = scores.with_entries(map(_finite, more))
            facts = record_sets.describe(main, scores, config.evaluated)

        # 2. Predictions; a set that is also evaluated is computed only once.
        self._predict(computer, evaluation, thresholds)

        # 3. Results, for files and callbacks.
        result = dataclasses.replace(
            seeds_result or Result(scores=scores),
            output_dir=config.output_dir,
            weights=weights.path,
            problem=problem,
            evaluation=facts,
            outputs=next(iter(evaluation.outputs.values()), {}),
        )
        workers.run_in_chief(
            lambda: self._observers.end(
                run_folder.write_results(config, weights, result)
            )
        )
        return result

    def _predict(
        self,
        computer: OutputComputer,
        evaluation: Evaluation,
        thresholds: Scores,
    ) -> None:
        """Writes the predictions of all sets but the training set."""
        folders: dict[ExampleSet, str] = {
            each: f"eval_{each.name}".rstrip("_")
            for each in self._sets.evaluation
        }
        folders |= {each: each.name for each in self._sets.prediction}
        for each, name in folders.items():
            if each in evaluation.outputs:
                chunks = iter([(each.examples, evaluation.outputs[each])])
            else:
                batch_size = self._config.predict_batch_size
                chunks = computer.run_chunks(each, batch_size)
            folder = os.path.join(self._config.output_dir, name)
            record_outputs.write_predictions(
                each, chunks, folder, thresholds, self._workers
            )

    def _start_outputs(self, weights: Checkpoint) -> files.JsonObject:
        """Returns outputs of the initial weights, if the task compares them."""
        start, evaluated = self._start, self._sets.evaluation
        if not (self._task.compares_start and start and evaluated):
            return {}
        if start.path == weights.path:
            return {}
        resume.set_weights(self._task.model, start, self._workers)
        computer = self._computation.outputs_by(self._task.start_outputs)
        columns, batch_size = evaluated[0].columns, self._config.eval_batch_size
        return {"start_outputs": computer.run(columns, batch_size)}

    def _find_problem(
        self, computer: OutputComputer, evaluation: Evaluation
    ) -> str | None:
        """Describes a trained model at chance level; None if it is better.

        Both the evaluation set, if it can be compared, and records that the
        model was trained on must be at chance level.
        """
        config, train_set = self._config, self._sets.train
        if train_set is None or config.num_train_steps < LEAST_STEPS:
            return None
        if evaluation.comparison and not evaluation.comparison.is_at_chance:
            return None
        sample = record_sets.sample(train_set)
        # The number of replicas divides this batch size.
        num_rows = config.train_batch_size // config.gradient_accumulation_steps
        trained = sample.data.compare_with_chance(
            sample.columns, computer.run(sample.columns, num_rows)
        )
        if trained is None or not trained.is_at_chance:
            return None
        return (
            "The model is degenerate, no better than always predicting the "
            "label frequencies: on records that it was trained on, the loss is "
            f"{trained.weighted_loss:.4g} ({trained.chance_loss:.4g} at chance "
            "level). Try a lower --learning_rate, a longer warm-up, more "
            "steps, or another --random_seed."
        )


def _finite(score: Score) -> Score:
    """Replaces a score that JSON cannot hold by 0, with a warning."""
    if math.isfinite(score.value):
        return score
    _LOGGER.warning("%s is %s; it is reported as 0.", score.key, score.value)
    return score._replace(value=0.0)
