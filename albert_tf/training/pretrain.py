"""Pretraining from record files to checkpoints: puts the parts together.

Floor: training.

Source: google-research/albert, `run_pretraining.main`.
"""

import dataclasses
import logging
import os
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from albert_tf.checkpoints import load, train_state
from albert_tf.config import AlbertConfig
from albert_tf.data import input_pipeline, record_source
from albert_tf.optimization import factory
from albert_tf.optimization.optimizer_config import OptimizerConfig
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

_LOGGER = logging.getLogger(__name__)

# The score that the best checkpoint is chosen by, as in the reference.
BEST_KEYS = {"mlm": "masked_lm_accuracy", "sop": "sentence_order_accuracy"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingRun:
    """What to pretrain, on what, and where to put it.

    Args:
        config: Shape of the model.
        training: How to train and evaluate.
        optimizer: Update rule and rate; its `num_train_steps` is the run's.
        output_dir: Folder of the run.
        input_files: Globs of the records to train on; empty not to train.
        eval_files: Globs of the records to evaluate on; empty for none.
        max_seq_length: S, which the records must have.
        max_predictions_per_seq: Masked positions the records must have room
            for (twice as many if they were made with permutation).
        objectives: `mlm`, `sop` or both.
        init_checkpoint: Weights to start from; None for random ones. Slots
            and step start anew.
        init_from_group0: Whether every group of layers takes the weights of
            the checkpoint's first group.
        flags_text: Written to `flags.txt`.

    Raises:
        ValueError: Two values contradict each other.
    """

    config: AlbertConfig
    training: options.TrainingConfig
    optimizer: OptimizerConfig
    output_dir: str
    input_files: str = ""
    eval_files: str = ""
    max_seq_length: int = 512
    max_predictions_per_seq: int = 20
    objectives: Sequence[str] = ("mlm", "sop")
    init_checkpoint: str | None = None
    init_from_group0: bool = False
    flags_text: str = ""

    def __post_init__(self) -> None:
        longest = self.config.max_position_embeddings
        if self.max_seq_length > longest:
            raise ValueError(
                f"`max_seq_length` must not exceed the {longest} position "
                "embeddings of the config. Received: "
                f"max_seq_length={self.max_seq_length}."
            )
        if not self.input_files and not self.eval_files:
            raise ValueError(
                "There is nothing to do: pass --input_file to train, "
                "--eval_file to evaluate."
            )


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
            run_folder.claim(
                job.output_dir, config=job.config, identity=self._identity()
            )
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
        if self._is_chief and self._job.flags_text:
            run_folder.write_flags(self._job.output_dir, self._job.flags_text)
        if self._train_source and not self._train():
            return None
        if not self._eval_source:
            return None
        path = self._checkpoint_to_evaluate()
        load.load_checkpoint(self._task.model, path)
        scores = self._evaluate() | {"global_step": load.global_step(path)}
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
        options.per_replica_batch_size(
            "train_batch_size",
            config.train_batch_size,
            num_replicas=replicas,
            num_parts=config.gradient_accumulation_steps,
        )
        options.per_replica_batch_size(
            "eval_batch_size", config.eval_batch_size, num_replicas=replicas
        )

    def _identity(self) -> dict[str, Any]:
        job, config = self._job, self._job.training
        return {
            "train_batch_size": config.train_batch_size,
            "precision": config.precision,
            "random_seed": config.random_seed,
            "optimizer": dataclasses.asdict(job.optimizer),
            "objectives": list(job.objectives),
            "max_seq_length": job.max_seq_length,
            "init_checkpoint": job.init_checkpoint,
            "records": self._train_source and self._train_source.fingerprint,
        }

    def _train(self) -> bool:
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
        if state and state.step >= config.num_train_steps:
            _LOGGER.info("The run is finished: %d steps are done.", state.step)
            return True
        training_loop = loop.TrainingLoop(
            config,
            train_step=self._train_step(optimizer),
            checkpointer=checkpointer,
            log=metric_log.MetricLog(
                job.output_dir,
                last_step=state.step if state else None,
                is_writer=self._is_chief,
            ),
            hooks=loop.Hooks(
                batches=self._training_batches,
                evaluate=self._evaluate if self._eval_source else None,
                best_key=BEST_KEYS[job.objectives[0]],
                training_scores=self._task.training_scores,
            ),
            steps_per_loop=config.steps_per_loop
            or distribution.AUTO_STEPS_PER_LOOP[
                distribution.device_type(self._strategy)
            ],
            is_chief=self._is_chief,
        )
        return training_loop.run(state or loop.RunState())

    def _starting_state(
        self, checkpointer: train_state.Checkpointer
    ) -> loop.RunState | None:
        """Restores the newest checkpoint, or starts; None if it starts."""
        latest = checkpointer.latest()
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

    def _training_batches(self, position: int) -> loop.Batches:
        def make(shards: int, index: int, replicas: int) -> tf.data.Dataset:
            return input_pipeline.training_dataset(
                self._train_source,
                global_batch_size=self._job.training.train_batch_size,
                seed=self._job.training.random_seed,
                start_step=position,
                num_input_shards=shards,
                shard_index=index,
                replicas_per_shard=replicas,
            )

        return distribution.distribute(self._strategy, make)

    def _evaluate(self) -> dict[str, float]:
        def make(shards: int, index: int, replicas: int) -> tf.data.Dataset:
            return input_pipeline.evaluation_dataset(
                self._eval_source,
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
        best = os.path.join(self._job.output_dir, train_state.BEST_FOLDER)
        if not self._train_source and self._job.init_checkpoint:
            return self._job.init_checkpoint
        if not os.path.isdir(best):
            raise ValueError(
                f"There is no checkpoint to evaluate in {best!r}. Pass "
                "--init_checkpoint, or train first."
            )
        return best


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
