"""Pretraining from record files to checkpoints: puts the parts together.

Floor: training.

Source: google-research/albert, `run_pretraining.main`.
"""

import contextlib
import dataclasses
import functools
import logging
import os
from typing import Any

import keras
import tensorflow as tf

from albert_tf.checkpoints import load, train_state
from albert_tf.config import AlbertConfig
from albert_tf.data import input_pipeline, record_source
from albert_tf.optimization import factory
from albert_tf.tasks.pretraining import PretrainingTask
from albert_tf.training import (
    distribution,
    evaluation,
    loop,
    metric_log,
    options,
    run_folder,
    step,
)
from albert_tf.training.options import PretrainingRun

_LOGGER = logging.getLogger(__name__)


def run(job: PretrainingRun) -> dict[str, float] | None:
    """Trains, or goes on training, and evaluates the best weights.

    Returns:
        The scores of the best checkpoint on the evaluation files; None if
        there are none, or if a signal stopped the training.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: Files, flags or the folder do not fit one another.
        TrainingDiverged: See `loop.TrainingLoop`.
    """
    return _Pretraining(job).run()


class _Pretraining:
    """The parts of one run, made in the order they need one another."""

    def __init__(self, job: PretrainingRun) -> None:
        self._job = job
        config = job.training
        self._train_source = self._open(job.input_files)
        self._eval_source = self._open(job.eval_files)
        _check_sources(job.config, self._train_source, self._eval_source)
        if config.deterministic:
            keras.utils.set_random_seed(config.random_seed)
            tf.config.experimental.enable_op_determinism()
        self._strategy = distribution.create_strategy(
            config.strategy, tpu=config.tpu
        )
        self._is_chief = distribution.is_chief(self._strategy)
        self._check_batch_sizes()
        if self._train_source and self._is_chief:
            run_folder.check(job.output_dir, self._identity())
        with self._strategy.scope():
            self._task = PretrainingTask(
                job.config,
                objectives=job.objectives,
                seed=config.random_seed,
                dtype=config.dtype_policy,
            )
        self._evaluator = evaluation.Evaluator(self._task, self._strategy)

    def run(self) -> dict[str, float] | None:
        """Trains if there are records to train on; then evaluates."""
        train, evaluation_source = self._train_source, self._eval_source
        if train:
            if not self._train(train):
                return None
            _LOGGER.info(
                "The run is finished: %d steps are done.",
                self._job.training.num_train_steps,
            )
        if not evaluation_source:
            return None
        # The chief may still be writing it.
        distribution.wait_for_all(self._strategy)
        path = self._checkpoint_to_evaluate()
        load.load_checkpoint(self._task.model, path)
        scores = self._evaluate(evaluation_source) | {
            "global_step": load.global_step(path)
        }
        if self._is_chief:
            run_folder.write_results(self._job.output_dir, scores)
        return scores

    def _open(self, patterns: str) -> record_source.RecordSource | None:
        if not patterns:
            return None
        return record_source.open_records(
            patterns,
            max_seq_length=self._job.max_seq_length,
            max_predictions=self._job.max_predictions_per_seq,
        )

    def _check_batch_sizes(self) -> None:
        replicas = self._strategy.num_replicas_in_sync
        config = self._job.training
        if self._train_source:
            options.per_replica_batch_size(
                "train_batch_size",
                config.train_batch_size,
                num_replicas=replicas,
                num_parts=config.gradient_accumulation_steps,
            )
        if self._eval_source:
            options.per_replica_batch_size(
                "eval_batch_size", config.eval_batch_size, num_replicas=replicas
            )

    def _identity(self) -> dict[str, Any]:
        job, config = self._job, self._job.training
        return {
            "config": job.config.to_dict(),
            "train_batch_size": config.train_batch_size,
            "precision": config.precision,
            "random_seed": config.random_seed,
            "optimizer": dataclasses.asdict(job.optimizer),
            "objectives": list(job.objectives),
            "max_seq_length": job.max_seq_length,
            "init_checkpoint": job.init_checkpoint,
            "init_from_group0": job.init_from_group0,
            "records": self._train_source and self._train_source.fingerprint,
        }

    def _train(self, source: record_source.RecordSource) -> bool:
        """Trains; returns whether the run is finished."""
        job, config = self._job, self._job.training
        with self._strategy.scope():
            optimizer = factory.create_optimizer(job.optimizer)
            optimizer.build(self._task.model.trainable_variables)
        checkpointer = train_state.Checkpointer(
            job.output_dir,
            model=self._task.model,
            optimizer=optimizer,
            keep_max=config.keep_checkpoint_max,
        )
        state = self._starting_state(checkpointer)
        if self._is_chief:
            # Only now, so that a checkpoint that cannot be loaded leaves no
            # folder behind that belongs to the run that failed.
            self._claim_folder()
        if state and state.step >= config.num_train_steps:
            return True
        _LOGGER.info(
            "Training on %d records; replicas: %d %s.",
            source.num_records,
            self._strategy.num_replicas_in_sync,
            distribution.device_type(self._strategy),
        )
        log = metric_log.MetricLog(
            job.output_dir,
            last_step=state.step if state else None,
            is_writer=self._is_chief,
        )
        with contextlib.closing(log):
            return loop.TrainingLoop(
                config,
                train_step=self._train_step(optimizer),
                checkpointer=checkpointer,
                log=log,
                hooks=self._hooks(source),
                steps_per_loop=config.steps_per_loop
                or distribution.AUTO_STEPS_PER_LOOP[
                    distribution.device_type(self._strategy)
                ],
                is_chief=self._is_chief,
            ).run(state)

    def _claim_folder(self) -> None:
        job = self._job
        run_folder.claim(
            job.output_dir, config=job.config, identity=self._identity()
        )
        run_folder.write_flags(job.output_dir, job.flags_text)

    def _hooks(self, source: record_source.RecordSource) -> loop.Hooks:
        return loop.Hooks(
            batches=functools.partial(self._training_batches, source),
            training_scores=self._task.training_scores,
            evaluate=functools.partial(self._evaluate, self._eval_source)
            if self._eval_source
            else None,
            best_key=options.BEST_KEYS[self._job.objectives[0]],
            any_worker=functools.partial(
                distribution.any_worker, self._strategy
            ),
        )

    def _starting_state(
        self, checkpointer: train_state.Checkpointer
    ) -> loop.RunState | None:
        """Restores the newest checkpoint, or starts; None if it starts."""
        latest = checkpointer.latest()
        distribution.check_agreement(
            self._strategy, "checkpoint", train_state.step_of(latest)
        )
        if latest:
            state = loop.RunState.from_dict(checkpointer.restore(latest))
            _LOGGER.info("Going on from %s.", latest)
            return state
        if self._job.init_checkpoint:
            load.load_checkpoint(
                self._task.model,
                self._job.init_checkpoint,
                from_group_0=self._job.init_from_group0,
            )
        return None

    def _train_step(self, optimizer: keras.optimizers.Optimizer) -> Any:
        config = self._job.training
        return step.TrainStep(
            self._task,
            optimizer,
            self._job.optimizer,
            self._strategy,
            step.StepOptions(
                num_micro_batches=config.gradient_accumulation_steps,
                scale_loss=config.precision == "float16",
                jit_compile=config.jit_compile,
                seed=config.random_seed,
            ),
        )

    def _training_batches(
        self, source: record_source.RecordSource, position: int
    ) -> loop.Batches:
        def make(shards: int, index: int, replicas: int) -> tf.data.Dataset:
            return input_pipeline.training_dataset(
                source,
                global_batch_size=self._job.training.train_batch_size,
                seed=self._job.training.random_seed,
                start_step=position,
                num_input_shards=shards,
                shard_index=index,
                replicas_per_shard=replicas,
            )

        return distribution.distribute(self._strategy, make)

    def _evaluate(self, source: record_source.RecordSource) -> dict[str, float]:
        def make(shards: int, index: int, replicas: int) -> tf.data.Dataset:
            return input_pipeline.evaluation_dataset(
                source,
                batch_size=self._job.training.eval_batch_size,
                max_steps=self._job.training.max_eval_steps,
                num_input_shards=shards,
                shard_index=index,
                replicas_per_shard=replicas,
            )

        return self._evaluator.run(
            distribution.distribute(self._strategy, make)
        )

    def _checkpoint_to_evaluate(self) -> str:
        if not self._train_source and self._job.init_checkpoint:
            return self._job.init_checkpoint
        best = os.path.join(self._job.output_dir, train_state.BEST_FOLDER)
        # The newest is for a run that was trained without evaluation.
        newest = train_state.latest_checkpoint(self._job.output_dir)
        path = best if os.path.isdir(best) else newest
        if path is None:
            raise ValueError(
                "There is no checkpoint to evaluate in "
                f"{self._job.output_dir!r}. Pass --init_checkpoint, or train "
                "first."
            )
        return path


def _check_sources(
    config: AlbertConfig,
    train: record_source.RecordSource | None,
    evaluation_source: record_source.RecordSource | None,
) -> None:
    """Checks that vocabularies agree: of both sets of records, and the model.

    Raises:
        ValueError: They do not.
    """
    sources = [source for source in (train, evaluation_source) if source]
    hashes = {source.layout.tokenizer_hash for source in sources} - {None}
    if len(hashes) > 1:
        raise ValueError(
            "The records to train on and those to evaluate on were made with "
            "different tokenizers. Build both with the same vocabulary."
        )
    for source in sources:
        vocab_size = source.layout.vocab_size or config.vocab_size
        if vocab_size != config.vocab_size:
            raise ValueError(
                f"The records were made with a vocabulary of {vocab_size} "
                f"pieces, the config has vocab_size={config.vocab_size}. "
                "Change the config, or build the records again."
            )
