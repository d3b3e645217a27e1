"""One fine-tuning run: attempts, the best weights, scores and predictions.

Floor: training.
"""

import dataclasses
import functools
import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints import load
from albert_tf.data import bucketed_batches, example_order
from albert_tf.optimization import schedules
from albert_tf.tasks.task import FinetuningTask
from albert_tf.training import (
    collapse,
    distribution,
    evaluation,
    finetune_folder,
    loop,
    metric_log,
    run_folder,
    trainer,
)
from albert_tf.training.records import RecordSet, RecordSets
from albert_tf.training.run_config import FinetuningJob

_LOGGER = logging.getLogger(__name__)

BUCKET_WIDTH = 16
# XLA compiles each shape anew.
_COMPILED_BUCKET_WIDTH = 64


class AllAttemptsFailed(ValueError):
    """No attempt of a run learnt anything; the message says how each ended."""


class FinetuningRun:
    """A run in its folder.

    Args:
        job: What to do; of its seeds, this is one.
        sets: The job's records.
        strategy: The replicas.
    """

    def __init__(
        self,
        job: FinetuningJob,
        sets: RecordSets,
        strategy: tf.distribute.Strategy,
    ) -> None:
        self._job = job
        self._sets = sets
        self._strategy = strategy
        self._is_chief = distribution.is_chief(strategy)
        self._padding = padding_for(job, strategy)
        self._chance = _chance(sets)

    def run(self) -> dict[str, float] | None:
        """Trains if the job says so, evaluates, predicts.

        Returns:
            Scores and `global_step`, and `collapse.CONSTANT_KEY`, 1, if the
            predictions are constant and the run is not to be restarted for
            it; None if a signal stopped the training.

        Raises:
            AllAttemptsFailed: Restarts did not help.
            loop.TrainingDiverged: See there; what is learnt stays.
            ValueError: The folder is another run's, or something else does
                not fit.
        """
        if not self._sets.train:
            self._prepare(collapse.Attempts())
            return self._use(finetune_folder.weights_to_use(self._job))
        tried = self._attempts()
        while True:
            self._check_attempts(tried)
            self._prepare(tried)
            try:
                if not self._train(self._sets.train, tried):
                    return None
                return self._use(finetune_folder.weights_to_use(self._job))
            except collapse.RunCollapsed as problem:
                if self._job.finetuning.on_collapse == "ignore":
                    raise
                tried = self._fail(tried, str(problem))

    def report(self, path: str, results: Mapping[str, Any]) -> None:
        """Predicts with weights that others have made, and writes results.

        Args:
            path: Of a checkpoint of the task.
            results: For `eval_results.json` and the report.
        """
        self._prepare(collapse.Attempts())
        self._use(path, results)

    def _attempts(self) -> collapse.Attempts:
        if self._is_chief:
            run_folder.check(self._job.output_dir, self._identity())
            collapse.read(self._job.output_dir)
        distribution.wait_for_all(self._strategy)
        return collapse.read(self._job.output_dir)

    def _check_attempts(self, tried: collapse.Attempts) -> None:
        if tried.number <= self._job.finetuning.max_restarts:
            return
        problems = "; ".join(
            f"{number}: {problem}"
            for number, problem in enumerate(tried.problems, start=1)
        )
        raise AllAttemptsFailed(
            f"All {tried.number} attempts of the run in "
            f"{self._job.output_dir!r} failed, so there is no result. "
            f"Attempt {problems}. Lower --learning_rate, train longer, start "
            "from a better --init_checkpoint, or pass --on_collapse=ignore, in "
            "another --output_dir."
        )

    def _fail(
        self, tried: collapse.Attempts, problem: str
    ) -> collapse.Attempts:
        _LOGGER.warning("Attempt %d failed: %s", tried.number + 1, problem)
        problem = problem.split(". ")[0].rstrip(".")
        failed = dataclasses.replace(tried, problems=(*tried.problems, problem))
        if self._is_chief:
            collapse.fail(self._job.output_dir, tried, problem)
        distribution.wait_for_all(self._strategy)
        if failed.number <= self._job.finetuning.max_restarts:
            _LOGGER.warning(
                "Starting again with random_seed=%d, num_warmup_steps=%d.",
                failed.seed(self._job.training.random_seed),
                failed.optimizer(self._job.optimizer).num_warmup_steps,
            )
        return failed

    def _prepare(self, tried: collapse.Attempts) -> None:
        """Makes the model of an attempt."""
        training = self._job.training
        with self._strategy.scope():
            self._task: FinetuningTask = self._job.make_task(
                self._job.config,
                seed=tried.seed(training.random_seed),
                dtype=training.dtype_policy,
            )
        self._evaluated = evaluation.EvaluatedSets(
            self._job,
            self._sets,
            evaluation.Predictor(self._task, self._strategy, self._padding),
        )

    def _identity(self) -> dict[str, Any]:
        train = self._sets.train
        records = train.key if train else None
        return finetune_folder.run_identity(self._job, records)

    def _train(self, records: RecordSet, tried: collapse.Attempts) -> bool:
        job = self._job
        plan = trainer.RunPlan(
            config=job.config,
            training=dataclasses.replace(
                job.training,
                random_seed=tried.seed(job.training.random_seed),
            ),
            optimizer=tried.optimizer(job.optimizer),
            output_dir=job.output_dir,
            identity=self._identity(),
            init_checkpoint=job.init_checkpoint,
            allow_new_heads=True,
            learning_rate_multipliers=schedules.learning_rate_multipliers(
                [v.path for v in self._task.model.trainable_variables],
                decay=job.finetuning.layerwise_lr_decay,
                freeze_embeddings=job.finetuning.freeze_embeddings,
            ),
            flags_text=job.flags_text,
        )
        can_restart = tried.number < job.finetuning.max_restarts
        is_finished = trainer.Trainer(
            plan, task=self._task, strategy=self._strategy
        ).train(
            self._hooks(records, plan, can_restart),
            num_records=records.columns.num_records,
        )
        if is_finished:
            _LOGGER.info("The training is finished.")
            # The chief may still be writing.
            distribution.wait_for_all(self._strategy)
        return is_finished

    def _hooks(
        self, records: RecordSet, plan: trainer.RunPlan, can_restart: bool
    ) -> loop.Hooks:
        order = bucketed_batches.BucketedOrder(
            records.columns.lengths,
            global_batch_size=plan.training.train_batch_size,
            seed=plan.training.random_seed,
        )
        restarts = self._job.finetuning.on_collapse == "restart"
        return loop.Hooks(
            batches=functools.partial(self._batches, records, order),
            training_scores=self._task.training_scores,
            evaluate=self._evaluate if self._sets.evaluation else None,
            best_key=self._job.data.primary_metric,
            bar_key="" if self._is_trial() else collapse.CONSTANT_KEY,
            evaluates_start=False,
            patience=self._job.finetuning.early_stopping_patience,
            # What ends early makes room for another attempt; the last one
            # may still learn.
            on_checkpoint=functools.partial(self._check_log, plan, can_restart)
            if restarts and self._chance
            else None,
            checks_jumps=False,
            any_worker=functools.partial(
                distribution.any_worker, self._strategy
            ),
        )

    def _batches(
        self,
        records: RecordSet,
        order: bucketed_batches.BucketedOrder,
        position: int,
    ) -> loop.Batches:
        def make(shards: int, index: int, replicas: int) -> tf.data.Dataset:
            return bucketed_batches.training_dataset(
                records.columns,
                order,
                share=example_order.Share(
                    global_batch_size=self._job.training.train_batch_size,
                    num_input_shards=shards,
                    shard_index=index,
                    replicas_per_shard=replicas,
                ),
                padding=self._padding,
                start_step=position,
            )

        return distribution.distribute(self._strategy, make)

    def _evaluate(self) -> dict[str, float]:
        """Scores of the weights as they are, for the log."""
        self._evaluated.forget()
        scores = self._evaluated.scores()
        if self._evaluated.can_be_judged:
            is_constant = self._evaluated.verdict() is not None
            scores[collapse.CONSTANT_KEY] = float(is_constant)
        return scores

    def _check_log(
        self, plan: trainer.RunPlan, can_restart: bool, step: int
    ) -> None:
        is_last = step >= plan.training.num_train_steps
        if not (can_restart or is_last):
            return
        problem = None
        if self._is_chief:
            problem = collapse.problem(
                metric_log.read_lines(plan.output_dir),
                num_train_steps=plan.optimizer.num_train_steps,
                num_warmup_steps=plan.optimizer.start_warmup_step
                + plan.optimizer.num_warmup_steps,
                chance=self._chance,
            )
        if distribution.any_worker(self._strategy, problem is not None):
            problem = problem or "the chief says that it learns nothing"
            raise collapse.RunCollapsed(f"At step {step}, {problem}.")

    def _use(
        self, path: str, reported: Mapping[str, Any] | None = None
    ) -> dict[str, float]:
        """Evaluates and predicts with the weights at a path."""
        load.load_checkpoint(self._task.model, path)
        _LOGGER.info("Using the weights of %s.", path)
        self._evaluated.forget()
        results = self._evaluated.scores()
        verdict = self._evaluated.verdict()
        if verdict and self._is_judged():
            raise collapse.RunCollapsed(verdict)
        if verdict:
            _LOGGER.warning("%s The model has learnt nothing of use.", verdict)
            results[collapse.CONSTANT_KEY] = 1.0
        results["global_step"] = load.global_step(path)
        self._evaluated.predict()
        if self._is_chief:
            self._evaluated.write(reported or results)
        return results

    def _is_judged(self) -> bool:
        """Whether the run has no result if its predictions are constant."""
        return (
            self._sets.train is not None
            and self._job.finetuning.on_collapse == "restart"
            and not self._is_trial()
        )

    def _is_trial(self) -> bool:
        return self._job.training.num_train_steps < collapse.LEAST_STEPS


def _chance(sets: RecordSets) -> float:
    """Returns the loss of a model that knows no text; 0 if there is none.

    Of labels that are all the same there is nothing to learn. Where a record
    has no label, the answer is one of its places.
    """
    if not sets.train:
        return 0.0
    labels = evaluation.labels_of(sets.train)
    if labels is None:
        return float(np.mean(np.log(sets.train.columns.lengths)))
    return collapse.chance_loss(labels)


def padding_for(
    job: FinetuningJob, strategy: tf.distribute.Strategy
) -> bucketed_batches.Padding:
    """Returns how batches are padded: on a TPU, all to the same length."""
    longest = job.finetuning.max_seq_length
    width = BUCKET_WIDTH
    if job.training.jit_compile:
        width = _COMPILED_BUCKET_WIDTH
    if distribution.device_type(strategy) == "TPU":
        width = longest
    return bucketed_batches.Padding(max_seq_length=longest, bucket_width=width)
