"""Pretraining from record files to checkpoints: puts the parts together.

Floor: training.

Source: google-research/albert, `run_pretraining.main`.
"""

import dataclasses
import functools
import logging
from typing import Any

import tensorflow as tf

from albert_tf.checkpoints import load, run_checkpoints
from albert_tf.config import AlbertConfig
from albert_tf.data import input_pipeline, record_source
from albert_tf.tasks.pretraining import PretrainingTask
from albert_tf.training import (
    distribution,
    evaluation,
    loop,
    run_config,
    run_folder,
    trainer,
)
from albert_tf.training.run_config import PretrainingRun

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
        trainer.make_deterministic(config)
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
            run_config.per_replica_batch_size(
                "train_batch_size",
                config.train_batch_size,
                num_replicas=replicas,
                num_parts=config.gradient_accumulation_steps,
            )
        if self._eval_source:
            run_config.per_replica_batch_size(
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
        job = self._job
        plan = trainer.RunPlan(
            config=job.config,
            training=job.training,
            optimizer=job.optimizer,
            output_dir=job.output_dir,
            identity=self._identity(),
            init_checkpoint=job.init_checkpoint,
            init_from_group0=job.init_from_group0,
            allow_new_heads=job.allow_new_heads,
            flags_text=job.flags_text,
        )
        return trainer.Trainer(
            plan, task=self._task, strategy=self._strategy
        ).train(self._hooks(source), num_records=source.num_records)

    def _hooks(self, source: record_source.RecordSource) -> loop.Hooks:
        return loop.Hooks(
            batches=functools.partial(self._training_batches, source),
            training_scores=self._task.training_scores,
            evaluate=functools.partial(self._evaluate, self._eval_source)
            if self._eval_source
            else None,
            best_key=run_config.BEST_KEYS[self._job.objectives[0]],
            any_worker=functools.partial(
                distribution.any_worker, self._strategy
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
                max_steps=self._job.max_eval_steps,
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
        path = run_checkpoints.trained_weights(self._job.output_dir)
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
                f"tokens, the config has vocab_size={config.vocab_size}. "
                "Change the config, or build the records again."
            )
