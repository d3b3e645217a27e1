"""One fine-tuning run: attempts, the best weights, scores and predictions.

Floor: training.
"""

import dataclasses
import functools
import logging
import math
import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from albert_tf.checkpoints import load
from albert_tf.data import bucketed_batches, example_order
from albert_tf.optimization import layer_rates
from albert_tf.tasks.finetuning import FinetuningTask
from albert_tf.tasks.task_data import Outputs
from albert_tf.training import (
    attempts,
    collapse,
    distribution,
    finetune_report,
    loop,
    metric_log,
    prediction,
    run_folder,
    trainer,
)
from albert_tf.training.finetune_options import FinetuningJob
from albert_tf.training.record_sets import RecordSet, RecordSets

_LOGGER = logging.getLogger(__name__)

BUCKET_WIDTH = 16
# XLA compiles each shape anew.
_COMPILED_BUCKET_WIDTH = 64
_LABELS = "label_ids"


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

    def run(self) -> dict[str, float] | None:
        """Trains if the job says so, evaluates, predicts.

        Returns:
            Scores and `global_step`; None if a signal stopped the training.

        Raises:
            AllAttemptsFailed: Restarts did not help.
            ValueError: The folder is another run's, or something else does
                not fit.
        """
        if not self._sets.train:
            self._prepare(attempts.Attempts())
            return self._use(self._weights_to_use())
        tried = self._attempts()
        while True:
            self._check_attempts(tried)
            self._prepare(tried)
            try:
                if not self._train(self._sets.train, tried):
                    return None
                return self._use(self._weights_to_use())
            except (collapse.RunCollapsed, loop.TrainingDiverged) as problem:
                if self._job.finetuning.on_collapse == "ignore":
                    raise
                tried = self._fail(tried, str(problem))

    def _attempts(self) -> attempts.Attempts:
        if self._is_chief:
            run_folder.check(self._job.output_dir, self._identity())
            attempts.read(self._job.output_dir)
        distribution.wait_for_all(self._strategy)
        return attempts.read(self._job.output_dir)

    def _check_attempts(self, tried: attempts.Attempts) -> None:
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
        self, tried: attempts.Attempts, problem: str
    ) -> attempts.Attempts:
        _LOGGER.warning("Attempt %d failed: %s", tried.number + 1, problem)
        problem = problem.split(". ")[0].rstrip(".")
        failed = dataclasses.replace(tried, problems=(*tried.problems, problem))
        if self._is_chief:
            attempts.fail(self._job.output_dir, tried, problem)
        distribution.wait_for_all(self._strategy)
        if failed.number <= self._job.finetuning.max_restarts:
            _LOGGER.warning(
                "Starting again with random_seed=%d, num_warmup_steps=%d.",
                failed.seed(self._job.training.random_seed),
                failed.optimizer(self._job.optimizer).num_warmup_steps,
            )
        return failed

    def _prepare(self, tried: attempts.Attempts) -> None:
        """Makes the model of an attempt."""
        training = self._job.training
        with self._strategy.scope():
            self._task: FinetuningTask = self._job.make_task(
                self._job.config,
                seed=tried.seed(training.random_seed),
                dtype=training.dtype_policy,
            )
        self._predictor = prediction.Predictor(
            self._task, self._strategy, self._padding
        )
        self._outputs_by_set: dict[str, Outputs] = {}

    def _identity(self) -> dict[str, Any]:
        job = self._job
        train = self._sets.train
        return model_identity(self._job) | {
            "settings": dict(job.data.settings),
            "train_batch_size": job.training.train_batch_size,
            "precision": job.training.precision,
            "random_seed": job.training.random_seed,
            "optimizer": dataclasses.asdict(job.optimizer),
            "layerwise_lr_decay": job.finetuning.layerwise_lr_decay,
            "freeze_embeddings": job.finetuning.freeze_embeddings,
            "init_checkpoint": job.init_checkpoint,
            "records": train and train.key,
        }

    def _train(self, records: RecordSet, tried: attempts.Attempts) -> bool:
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
            rate_factors=layer_rates.rate_factors(
                [v.path for v in self._task.model.trainable_variables],
                decay=job.finetuning.layerwise_lr_decay,
                freeze_embeddings=job.finetuning.freeze_embeddings,
            ),
            flags_text=job.flags_text,
        )
        is_finished = trainer.Trainer(
            plan, task=self._task, strategy=self._strategy
        ).train(
            self._hooks(records, plan),
            num_records=records.columns.num_records,
        )
        if is_finished:
            _LOGGER.info("The training is finished.")
            # The chief may still be writing.
            distribution.wait_for_all(self._strategy)
        return is_finished

    def _hooks(self, records: RecordSet, plan: trainer.RunPlan) -> loop.Hooks:
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
            best_key=self._job.data.headline,
            evaluates_start=False,
            patience=self._job.finetuning.early_stopping_patience,
            on_checkpoint=functools.partial(self._check_log, plan)
            if restarts
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
        self._outputs_by_set.clear()
        scores = self._scores()
        main = self._sets.evaluation[0]
        if _can_be_judged(main):
            is_constant = collapse.are_constant(self._outputs(main))
            scores[collapse.CONSTANT_KEY] = float(is_constant)
        return scores

    def _check_log(self, plan: trainer.RunPlan, step: int) -> None:
        problem = None
        if self._is_chief:
            problem = collapse.problem(
                metric_log.read_lines(plan.output_dir),
                num_train_steps=plan.optimizer.num_train_steps,
                num_warmup_steps=plan.optimizer.start_warmup_step
                + plan.optimizer.num_warmup_steps,
            )
        if distribution.any_worker(self._strategy, problem is not None):
            problem = problem or "the chief says that it learns nothing"
            raise collapse.RunCollapsed(f"At step {step}, {problem}.")

    def _scores(self) -> dict[str, float]:
        scores: dict[str, float] = {}
        for one in self._sets.evaluation:
            own = one.data.scores(one.examples, self._outputs(one))
            suffix = f"_{one.name}" if one.name else ""
            scores |= {
                f"{key}{suffix}": _defined(key, value)
                for key, value in own.items()
            }
        return scores

    def _outputs(self, records: RecordSet, batch_size: int = 0) -> Outputs:
        """Returns the outputs of a set by the weights as they are.

        Of a set that is evaluated and predicted they are computed once.
        """
        if records.key not in self._outputs_by_set:
            self._outputs_by_set[records.key] = self._predictor.run(
                records.columns,
                batch_size=batch_size or self._job.training.eval_batch_size,
            )
        return self._outputs_by_set[records.key]

    def _weights_to_use(self) -> str:
        job = self._job
        path = run_folder.weights_to_use(
            job.output_dir,
            job.init_checkpoint,
            is_training=job.train_set is not None,
        )
        if path != job.init_checkpoint:
            run_folder.check_use(job.output_dir, model_identity(job))
        return path

    def _use(self, path: str) -> dict[str, float]:
        """Evaluates and predicts with the weights at a path."""
        load.load_checkpoint(self._task.model, path)
        _LOGGER.info("Using the weights of %s.", path)
        self._outputs_by_set.clear()
        results = self._scores() | {"global_step": load.global_step(path)}
        if self._sets.evaluation:
            self._check_predictions()
        for one in self._sets.prediction:
            # By all workers, before one of them writes.
            self._outputs(one, self._job.finetuning.predict_batch_size)
        if self._is_chief:
            self._write(results)
        return results

    def _check_predictions(self) -> None:
        main = self._sets.evaluation[0]
        is_constant = _can_be_judged(main) and collapse.are_constant(
            self._outputs(main)
        )
        if not is_constant:
            return
        problem = (
            f"All {main.columns.num_records} records of the evaluation set "
            "got the same prediction."
        )
        steps = self._job.training.num_train_steps
        if (
            self._sets.train
            and self._job.finetuning.on_collapse == "restart"
            and steps >= collapse.LEAST_STEPS
        ):
            raise collapse.RunCollapsed(problem)
        _LOGGER.warning("%s The model has learnt nothing of use.", problem)

    def _write(self, results: Mapping[str, float]) -> None:
        folder = self._job.output_dir
        for one in self._sets.evaluation:
            name = "_".join(filter(None, ("eval", one.name)))
            self._write_predictions(one, os.path.join(folder, name))
        for one in self._sets.prediction:
            paths = self._write_predictions(
                one, os.path.join(folder, one.name) if one.name else folder
            )
            _LOGGER.info("Predictions: %s.", ", ".join(paths))
        if self._sets.evaluation:
            main = self._sets.evaluation[0]
            run_folder.write_results(folder, results)
            finetune_report.write(
                self._job,
                results=results,
                records=main,
                outputs=self._outputs(main),
            )

    def _write_predictions(self, records: RecordSet, folder: str) -> list[str]:
        os.makedirs(folder, exist_ok=True)
        return records.data.write_predictions(
            records.examples, self._outputs(records), folder
        )


def model_identity(job: FinetuningJob) -> dict[str, Any]:
    """Returns the part of a run's identity that its weights depend on."""
    return {"config": job.config.to_dict(), "task": job.data.name}


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


def _can_be_judged(records: RecordSet) -> bool:
    """Whether one prediction for all of a set would be a bad sign."""
    columns = records.columns
    if columns.num_records < collapse.LEAST_RECORDS:
        return False
    if _LABELS in columns.values:
        labels = columns.field(_LABELS)
        return bool((labels != labels[0]).any())
    return True


def _defined(key: str, value: float) -> float:
    if math.isfinite(value):
        return value
    _LOGGER.warning("%s is %s, which is taken for 0.", key, value)
    return 0.0
