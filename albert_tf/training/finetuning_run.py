"""One fine-tuning run, with one seed, in its directory."""

import dataclasses
import functools
import logging
import math
import os
import types
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import numpy as np

from albert_tf.checkpoints import discovery, run_checkpoints
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.devices.strategies import Workers
from albert_tf.inference import record_outputs
from albert_tf.inference.record_outputs import OutputComputer
from albert_tf.metrics.scores import Role, Score, Scores
from albert_tf.optimization import layerwise_decay
from albert_tf.tasks.label_frequencies import Comparison
from albert_tf.tasks.task import ExampleSet, MakeTask, Outputs, Sets
from albert_tf.training import (
    baselines,
    finetuning_data,
    loop,
    metric_log,
    report,
    resume,
    run_folder,
)
from albert_tf.training.finetuning_data import RecordSet
from albert_tf.training.report import SeedResults
from albert_tf.training.run_config import FinetuningConfig

_LOGGER = logging.getLogger(__name__)


class Result(NamedTuple):
    """What a run has given.

    `problem` says in words that a trained model is no better than chance;
    `outputs` are those for the main set that is evaluated.
    """

    scores: Scores
    weights: str
    problem: str | None = None
    outputs: Outputs = types.MappingProxyType({})


class Evaluation(NamedTuple):
    """What a model gives for the evaluation sets.

    `comparison` is that of the first set with chance, if it is possible.
    """

    outputs: Mapping[ExampleSet, Outputs]
    scores: Scores
    comparison: Comparison | None


class FinetuningRun:
    """One run, with one seed: trains; evaluates and predicts with weights."""

    def __init__(
        self,
        config: FinetuningConfig,
        sets: Sets[RecordSet],
        *,
        make_task: MakeTask,
        workers: Workers,
        start: Checkpoint | None,
    ) -> None:
        self._config = config
        self._sets = sets
        self._workers = workers
        self._start = start
        self._padding = finetuning_data.padding_for(config, workers.strategy)
        with workers.strategy.scope():
            self._task = make_task(
                config.albert_config,
                seed=config.random_seed,
                dtype=config.dtype_policy,
            )
        self._computer = OutputComputer(
            self._task,
            self._padding,
            compute=self._task.outputs,
            workers=workers,
        )

    def run(self) -> Result | None:
        """Trains, if it has examples to train on; evaluates and predicts.

        It returns None if a signal stopped the training.
        """
        weights = self._train() if self._sets.train else self._start
        return self.evaluate_and_predict(weights) if weights else None

    def _train(self) -> Checkpoint | None:
        """Trains, or resumes; returns the best weights, None if stopped."""
        config = self._config
        multipliers = layerwise_decay.learning_rate_multipliers(
            [v.path for v in self._task.model.trainable_variables],
            decay=config.layerwise_lr_decay,
            freeze_embeddings=config.freeze_embeddings,
            adapters_only=config.train_adapters_only,
        )
        with resume.prepare_training(
            config,
            folder=finetuning_data.folder_of(config, self._sets),
            task=self._task,
            workers=self._workers,
            multipliers=multipliers,
            start=self._start,
            # A pretrained checkpoint lacks the head of the task.
            allow_new_heads=True,
        ) as training:
            is_finished = loop.TrainingLoop(
                config,
                training,
                batches_from=functools.partial(
                    finetuning_data.training_batches,
                    config,
                    cast(RecordSet, self._sets.train),
                    self._workers.strategy,
                    self._padding,
                ),
                evaluate=self.evaluate if self._sets.evaluation else None,
                metric=self._sets.data.primary_metric,
                patience=config.early_stopping_patience,
            ).run()
        if not is_finished:
            return None
        path = run_checkpoints.trained_weights(config.output_dir)
        return discovery.open(path) if path else None

    def evaluate(self) -> Scores:
        """Returns the scores of the current weights, and the `loss`."""
        return self._evaluate(self._computer).scores

    def _evaluate(self, computer: OutputComputer) -> Evaluation:
        """Scores the evaluation sets; `_<name>` follows those of named ones.

        With early exit, `mean_layers` is the mean number of layers.
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
            # The first set chooses thresholds.
            if entries:
                data = data.with_decision(Scores(entries=tuple(entries)))
            results = [*data.scores(eval_set.examples, outputs)]
            if "num_layers" in outputs:
                mean = float(np.mean(outputs["num_layers"]))
                results.append(Score("mean_layers", mean))
            ending = f"_{eval_set.name}" if eval_set.name else ""
            for score in results:
                if not math.isfinite(score.value):
                    _LOGGER.warning(
                        "%s is %s; it is reported as 0.", score.key, score.value
                    )
                    score = score._replace(value=0.0)
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

    def evaluate_and_predict(
        self, weights: Checkpoint, *, all_seeds: SeedResults | None = None
    ) -> Result:
        """Evaluates the weights, predicts, and writes the files.

        The results of all seeds, if any, are written in place of the scores.
        """
        config, sets, workers = self._config, self._sets, self._workers
        before = self._start_outputs(weights)
        resume.set_weights(self._task.model, weights, workers)
        computer = OutputComputer(self._task, self._padding, workers=workers)

        # 1. Evaluation.
        evaluation = self._evaluate(computer)
        problem = self._problem(computer, evaluation)
        if problem:
            _LOGGER.warning("%s: %s", weights.path, problem)
        scores = dataclasses.replace(
            evaluation.scores, is_degenerate=bool(problem), step=weights.step
        )
        found, thresholds = None, weights.metadata.chosen
        if sets.evaluation:
            main, thresholds = sets.evaluation[0], evaluation.scores
            if not evaluation.comparison:
                _LOGGER.info("%s", main.data.why_not_compared(main.columns))
            plain = main.data.baselines(main.examples, **before).items()
            rows = [Score.baseline(*row) for row in plain]
            rows += baselines.interval(main, evaluation.outputs[main], scores)
            scores += Scores(entries=tuple(rows))
            found = baselines.describe(scores, main, config.evaluated)

        # 2. Predictions. A set that is evaluated and predicted has one file.
        folders: dict[ExampleSet, str] = {
            each: f"eval_{each.name}".rstrip("_") for each in sets.evaluation
        }
        folders |= {each: each.name for each in sets.prediction}
        for each, name in folders.items():
            if each in evaluation.outputs:
                chunks = iter([(each.examples, evaluation.outputs[each])])
            else:
                chunks = computer.run_chunks(each, config.predict_batch_size)
            folder = os.path.join(config.output_dir, name)
            record_outputs.write_predictions(
                each, chunks, folder, thresholds, workers
            )

        # 3. Results and report.
        results = all_seeds or SeedResults(scores=scores)
        write = self._write_results
        workers.run_in_chief(write, weights, evaluation, results, found)
        outputs = next(iter(evaluation.outputs.values()), {})
        return Result(scores, weights.path, problem, outputs)

    def _start_outputs(self, weights: Checkpoint) -> dict[str, Any]:
        """Returns an argument of `baselines`, if a task compares the start."""
        start, evaluated = self._start, self._sets.evaluation
        if not (self._task.compares_start and start and evaluated):
            return {}
        if start.path == weights.path:
            return {}
        resume.set_weights(self._task.model, start, self._workers)
        computer = OutputComputer(
            self._task,
            self._padding,
            compute=self._task.start_outputs,
            workers=self._workers,
        )
        columns, batch_size = evaluated[0].columns, self._config.eval_batch_size
        return {"start_outputs": computer.run(columns, batch_size)}

    def _problem(
        self, computer: OutputComputer, evaluation: Evaluation
    ) -> str | None:
        """Says that the trained model is no better than chance; or None.

        That is on the evaluation set, if that can be compared, and on records
        that it was trained on.
        """
        config, train_set = self._config, self._sets.train
        if train_set is None or config.num_train_steps < baselines.LEAST_STEPS:
            return None
        if evaluation.comparison and not evaluation.comparison.is_at_chance:
            return None
        sample = finetuning_data.sample(train_set)
        # A number of rows that the replicas divide.
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

    def _write_results(
        self,
        weights: Checkpoint,
        evaluation: Evaluation,
        results: SeedResults,
        found: Mapping[str, Any] | None,
    ) -> None:
        config, sets = self._config, self._sets
        values = results.as_json()
        if not run_folder.write_results(config, weights, values, found):
            return
        sections: list[dict[str, Any]] = []
        for main in sets.evaluation[:1]:
            sections = main.data.report_sections(
                main.examples, evaluation.outputs[main], evaluation.scores
            )
        logs = {
            str(seed.random_seed): metric_log.read_lines(seed.output_dir)
            for seed in config.seed_configs()
        }
        report.write_run(
            config,
            title=f"Fine-tuning: {sets.data.name}",
            evaluation=found,
            results=results,
            logs=logs or {"": metric_log.read_lines(config.output_dir)},
            primary_metric=sets.data.primary_metric,
            sections=sections,
        )
