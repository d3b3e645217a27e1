"""One fine-tuning run, with one seed, in its directory.

Data flow: records -> training -> best weights -> scores, predictions, report.
"""

import functools
import logging
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from albert_tf.checkpoints import load, run_checkpoints
from albert_tf.optimization import schedules
from albert_tf.tasks.task import (
    Examples,
    FinetuningTask,
    MakeTask,
    Outputs,
    Sets,
)
from albert_tf.training import (
    chance,
    loop,
    prediction,
    records,
    results,
    run_folder,
    train,
)
from albert_tf.training.chance import Comparison
from albert_tf.training.records import RecordSet
from albert_tf.training.run_config import FinetuningConfig
from albert_tf.training.run_folder import RunFolder
from albert_tf.training.workers import Workers

_LOGGER = logging.getLogger(__name__)


class Result(NamedTuple):
    """Scores of a run, and why its model is degenerate, if it is."""

    scores: dict[str, float]
    problem: str | None = None


def folder_of(config: FinetuningConfig, sets: Sets[RecordSet]) -> RunFolder:
    """Returns the output directory of a run that trains with one seed."""
    train = sets.train.columns.digest if sets.train else None
    evaluation = sets.evaluation[0].digest if sets.evaluation else None
    return run_folder.finetuning_folder(config, sets.data, train, evaluation)


class FinetuningRun:
    """Trains with one seed; evaluates and predicts with the weights to use."""

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

    @functools.cached_property
    def _task(self) -> FinetuningTask:
        with self._workers.strategy.scope():
            return self._make_task(
                self._config.albert_config,
                seed=self._config.random_seed,
                dtype=self._config.dtype_policy,
            )

    def _predictor(self, *, is_final: bool = False) -> prediction.Predictor:
        return prediction.Predictor(
            self._task, self._workers, self._padding, is_final=is_final
        )

    def train(self, train_set: RecordSet) -> str | None:
        """Trains, or resumes training.

        Returns:
            The path of the weights to use, those of the best evaluation; None
            if a signal stopped the training.
        """
        config, sets = self._config, self._sets
        evaluator = None
        if sets.evaluation:
            evaluator = results.FinetuningEvaluator(
                config, sets.evaluation, self._predictor()
            )
        multipliers = schedules.learning_rate_multipliers(
            [v.path for v in self._task.model.trainable_variables],
            decay=config.layerwise_lr_decay,
            freeze_embeddings=config.freeze_embeddings,
        )
        with train.resume(
            config,
            folder=folder_of(config, sets),
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
                    train_set,
                    self._workers.strategy,
                    self._padding,
                ),
                evaluator=evaluator,
                patience=config.early_stopping_patience,
            ).run()
        if not is_finished:
            return None
        return run_checkpoints.trained_weights(config.output_dir)

    def evaluate_and_predict(
        self, weights: str, *, all_results: Mapping[str, Any] | None = None
    ) -> Result:
        """Evaluates the weights at a path, predicts, and writes the files.

        `all_results`, JSON values, are written in place of the scores.

        Returns:
            Scores, `loss` and `global_step`. A model that has been trained
            and is no better than chance has the score `chance.DEGENERATE`.
        """
        config, sets, workers = self._config, self._sets, self._workers
        load.load_checkpoint(self._task.model, weights)
        workers.check_same_weights(self._task.model)
        _LOGGER.info("Using the weights of %s.", weights)
        predictor = self._predictor(is_final=True)

        # 1. Evaluation.
        evaluation = results.evaluate(
            predictor, sets.evaluation, config.eval_batch_size
        )
        scores = evaluation.scores_and_loss
        problem = self._problem(predictor, evaluation.comparison)
        if problem:
            _LOGGER.warning("%s: %s", weights, problem)
            scores[chance.DEGENERATE] = 1.0
        scores["global_step"] = load.global_step(weights)

        # 2. Predictions. A set that is evaluated and predicted has one file.
        known = dict(
            zip(map(id, sets.evaluation), evaluation.outputs, strict=True)
        )
        predicted = set(map(id, sets.prediction))
        only_evaluated = [s for s in sets.evaluation if id(s) not in predicted]
        for use, one in [
            *(("", one) for one in sets.prediction),
            *(("eval", one) for one in only_evaluated),
        ]:
            chunks: Iterable[tuple[Examples, Outputs]]
            if id(one) in known:
                chunks = [(one.examples, known[id(one)])]
            else:
                chunks = predictor.predict(
                    one, batch_size=config.predict_batch_size
                )
            name = "_".join(filter(None, (use, one.name)))
            folder = os.path.join(config.output_dir, name)
            results.write_predictions(
                one, chunks, folder, evaluation.scores, workers
            )

        # 3. Results and report.
        if sets.evaluation:
            workers.run_in_chief(
                functools.partial(
                    results.write_results,
                    *(config, sets, evaluation, all_results or scores),
                ),
            )
        return Result(scores, problem)

    def _problem(
        self, predictor: prediction.Predictor, held_out: Comparison | None
    ) -> str | None:
        """Says how the trained model is degenerate; None if it is not.

        It is no better than chance on the evaluation set, if that is known,
        and on records that it was trained on.
        """
        config, train_set = self._config, self._sets.train
        is_long = config.num_train_steps >= chance.LEAST_STEPS
        if train_set is None or not is_long:
            return None
        if held_out and not held_out.is_at_chance:
            return None
        columns = records.sample(train_set.columns)
        # A number of rows that the replicas divide.
        num_rows = config.train_batch_size // config.gradient_accumulation_steps
        trained = chance.compare_with_chance(
            columns, predictor.run(columns, batch_size=num_rows)
        )
        if trained and not trained.is_at_chance and held_out:
            _LOGGER.warning(
                "The model has learned from its training records only: on the "
                "evaluation set, %s.",
                held_out,
            )
        if trained is None or not trained.is_at_chance:
            return None
        return (
            "The model is degenerate, no better than always predicting the "
            f"label frequencies: on records that it was trained on, {trained}. "
            "Try a lower --learning_rate, a longer warm-up, more steps, or "
            "another --random_seed."
        )
