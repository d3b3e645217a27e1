"""One fine-tuning run, with one seed, in its directory.

Data flow: records -> training -> best weights -> scores, predictions, report.
"""

import functools
import logging
import math
import os
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import numpy as np

from albert_tf import files
from albert_tf.checkpoints import load, run_checkpoints
from albert_tf.optimization import layerwise_decay
from albert_tf.tasks.task import ExampleSet, MakeTask, Outputs, Sets
from albert_tf.training import (
    chance,
    loop,
    metric_log,
    prediction,
    records,
    report,
    run_folder,
    train,
)
from albert_tf.training.chance import Comparison
from albert_tf.training.records import RecordSet
from albert_tf.training.run_config import FinetuningConfig
from albert_tf.training.workers import Workers

_LOGGER = logging.getLogger(__name__)


class Result(NamedTuple):
    """What a run has given.

    `scores` are the task's, `loss` and `global_step`, of those at `weights`.
    A trained model that is no better than chance has the score
    `chance.DEGENERATE`; `problem` says so in words.
    """

    scores: dict[str, float]
    weights: str
    problem: str | None = None


class Evaluation(NamedTuple):
    """What a model gives for the evaluation sets.

    `scores` are the task's, of all sets, and the `loss` on the first one if it
    is known; `comparison` is that of the first set with chance, if possible.
    """

    outputs: Mapping[ExampleSet, Outputs]
    scores: dict[str, float]
    comparison: Comparison | None


class FinetuningRun:
    """One run, with one seed: trains; evaluates and predicts with weights.

    It is the `loop.Evaluator` of its own training.
    """

    def __init__(
        self,
        config: FinetuningConfig,
        sets: Sets[RecordSet],
        *,
        make_task: MakeTask,
        workers: Workers,
    ) -> None:
        self.primary_metric = sets.data.primary_metric
        self._config = config
        self._sets = sets
        self._workers = workers
        self._padding = records.padding_for(config, workers.strategy)
        with workers.strategy.scope():
            self._task = make_task(
                config.albert_config,
                seed=config.random_seed,
                dtype=config.dtype_policy,
            )
        self._predictor = prediction.Predictor(
            self._task, workers, self._padding
        )

    def train(self) -> str | None:
        """Trains on the training set, or resumes.

        Returns:
            The path of the weights to use, those of the best evaluation; None
            if a signal stopped the training.
        """
        config = self._config
        multipliers = layerwise_decay.learning_rate_multipliers(
            [v.path for v in self._task.model.trainable_variables],
            decay=config.layerwise_lr_decay,
            freeze_embeddings=config.freeze_embeddings,
            adapters_only=config.train_adapters_only,
        )
        with train.resume(
            config,
            folder=records.folder_of(config, self._sets),
            task=self._task,
            workers=self._workers,
            multipliers=multipliers,
            # A pretrained checkpoint lacks the head of the task.
            allow_new_heads=True,
        ) as training:
            is_finished = loop.TrainingLoop(
                config,
                training,
                self._workers,
                batches_from=functools.partial(
                    records.training_batches,
                    config,
                    cast(RecordSet, self._sets.train),
                    self._workers.strategy,
                    self._padding,
                ),
                evaluator=self if self._sets.evaluation else None,
                patience=config.early_stopping_patience,
            ).run()
        if not is_finished:
            return None
        return run_checkpoints.trained_weights(config.output_dir)

    def evaluate(self) -> dict[str, float]:
        """Returns the scores of the current weights, and the `loss`."""
        return self._evaluate(self._predictor).scores

    def _evaluate(self, predictor: prediction.Predictor) -> Evaluation:
        """Scores the evaluation sets; `_<name>` follows those of named ones.

        A score that is not a number, as a correlation of constant values, is
        0. With early exit, `mean_layers` is the mean number of layers.
        """
        all_outputs: dict[ExampleSet, Outputs] = {}
        scores, comparison = {}, None
        batch_size = self._config.eval_batch_size
        for eval_set in self._sets.evaluation:
            outputs = predictor.run(eval_set.columns, batch_size)
            if problem := prediction.find_not_finite(outputs):
                raise loop.TrainingDiverged(problem)
            all_outputs[eval_set] = outputs
            results = eval_set.data.scores(eval_set.examples, outputs)
            if "num_layers" in outputs:
                results["mean_layers"] = float(np.mean(outputs["num_layers"]))
            for key, value in results.items():
                if not math.isfinite(value):
                    _LOGGER.warning(
                        "%s is %s; it is reported as 0.", key, value
                    )
                    value = 0.0
                name = f"{key}_{eval_set.name}" if eval_set.name else key
                scores[name] = value
        for main in self._sets.evaluation[:1]:
            comparison = chance.compare_with_chance(
                main.columns, all_outputs[main], main.class_weights
            )
        if comparison and math.isfinite(comparison.loss):
            scores["loss"] = comparison.loss
        return Evaluation(all_outputs, scores, comparison)

    def evaluate_and_predict(
        self, weights: str, *, all_results: Mapping[str, Any] | None = None
    ) -> Result:
        """Evaluates the weights at a path, predicts, and writes the files.

        `all_results`, JSON values, are written in place of the scores.
        """
        config, sets, workers = self._config, self._sets, self._workers
        load.load_checkpoint(self._task.model, weights)
        workers.check_same_weights(self._task.model)
        step = load.global_step(weights)
        _LOGGER.info("Using the weights of %s, of step %d.", weights, step)
        predictor = prediction.Predictor(
            self._task, workers, self._padding, is_final=True
        )

        # 1. Evaluation.
        evaluation = self._evaluate(predictor)
        scores = dict(evaluation.scores)
        for main in sets.evaluation[:1]:
            for key, baseline in main.data.baselines(main.examples).items():
                scores[chance.baseline_key(key)] = baseline
        problem = self._problem(predictor, evaluation)
        if problem:
            _LOGGER.warning("%s: %s", weights, problem)
            scores[chance.DEGENERATE] = 1.0
        scores["global_step"] = step

        # 2. Predictions. A set that is evaluated and predicted has one file.
        folders: dict[ExampleSet, str] = {
            each: f"eval_{each.name}".rstrip("_") for each in sets.evaluation
        }
        folders |= {each: each.name for each in sets.prediction}
        for each, name in folders.items():
            if each in evaluation.outputs:
                chunks = iter([(each.examples, evaluation.outputs[each])])
            else:
                chunks = predictor.predict(each, config.predict_batch_size)
            folder = os.path.join(config.output_dir, name)
            prediction.write(each, chunks, folder, evaluation.scores, workers)

        # 3. Results and report.
        if sets.evaluation:
            workers.run_in_chief(
                functools.partial(
                    self._write_results, evaluation, all_results or scores
                )
            )
        return Result(scores, weights, problem)

    def _problem(
        self, predictor: prediction.Predictor, evaluation: Evaluation
    ) -> str | None:
        """Says how the trained model is degenerate; None if it is not.

        It is no better than chance on the evaluation set, if that can be
        compared, and on records that it was trained on.
        """
        config, train_set = self._config, self._sets.train
        if train_set is None or config.num_train_steps < chance.LEAST_STEPS:
            return None
        if evaluation.comparison and not evaluation.comparison.is_at_chance:
            return None
        columns = records.sample(train_set.columns)
        # A number of rows that the replicas divide.
        num_rows = config.train_batch_size // config.gradient_accumulation_steps
        trained = chance.compare_with_chance(
            columns, predictor.run(columns, num_rows), train_set.class_weights
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
        self, evaluation: Evaluation, results: Mapping[str, Any]
    ) -> None:
        """Writes results, JSON values, to their file and to the report."""
        config = self._config
        path = os.path.join(config.output_dir, run_checkpoints.RESULTS_FILE)
        kept = files.read_json_object(path, missing_ok=True)
        if report.SEEDS_KEY in kept and report.SEEDS_KEY not in results:
            _LOGGER.warning(
                "%s has the results of all seeds and is kept.", path
            )
            return
        run_folder.write_results(config, results, self._task.model)
        runs = {str(x.random_seed): x for x in config.seed_configs()}
        runs = runs or {"": config}
        main = self._sets.evaluation[0]
        report.write_run(
            config,
            title=f"Fine-tuning: {main.data.name}",
            evaluated=f"{len(main.examples):,} examples",
            results=results,
            logs={
                seed: metric_log.read_lines(run.output_dir)
                for seed, run in runs.items()
            },
            primary_metric=main.data.primary_metric,
            sections=_sections(main, evaluation),
        )


def _sections(main: RecordSet, evaluation: Evaluation) -> list[report.Section]:
    """Returns the sections of the report that the main set gives."""
    sections: list[report.Section] = []
    outputs, labels = evaluation.outputs[main], main.labels
    logits = outputs.get("logits")
    if isinstance(logits, np.ndarray) and labels is not None:
        settings = main.data.settings
        if np.issubdtype(labels.dtype, np.floating):
            scale = settings.get("target_scale", 1.0)
            mean = settings.get("target_mean", 0.0)
            labels, logits = (x * scale + mean for x in (labels, logits))
        sections += report.prediction_sections(
            main.examples, labels, logits, settings.get("labels") or ()
        )
    described = main.data.report_sections(
        main.examples, outputs, evaluation.scores
    )
    return [*sections, *map(report.section_of, described)]
