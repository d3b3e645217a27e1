"""Pretraining, from record files to checkpoints and scores.

Floor: training.

Source: google-research/albert, `run_pretraining.main`.
"""

import functools
import logging
from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints import load, run_checkpoints
from albert_tf.config import AlbertConfig
from albert_tf.data import input_pipeline, record_source
from albert_tf.data.record_source import RecordSource
from albert_tf.tasks.pretraining import PretrainingTask
from albert_tf.tasks.task import Batch, Task
from albert_tf.training import distribution, run_config, run_folder, train
from albert_tf.training.run_config import PretrainingConfig

_LOGGER = logging.getLogger(__name__)


def run(config: PretrainingConfig) -> dict[str, float] | None:
    """Trains, or resumes training, and evaluates the best weights.

    Returns:
        Scores of the best checkpoint on the evaluation records; None without
        evaluation, or if a signal stopped the training.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: Files, settings or the output directory do not fit one
            another.
        TrainingDiverged: See `loop.TrainingLoop`.
    """
    # 1. Data.
    train_records = _open_records(config, config.do_train, config.input_file)
    eval_records = _open_records(config, config.do_eval, config.eval_file)
    _check_vocabularies(config.albert_config, train_records, eval_records)

    # 2. Devices.
    train.make_deterministic(config)
    strategy = distribution.create_strategy(config)
    is_chief = distribution.is_chief(strategy)
    run_config.check_batch_sizes(
        config,
        strategy.num_replicas_in_sync,
        train_batch_size=config.do_train,
        eval_batch_size=config.do_eval,
    )

    # 3. Output directory: refused before the model is built.
    folder = _output_folder(config, train_records)
    if train_records and is_chief:
        folder.check()

    # 4. Model and losses.
    with strategy.scope():
        task = PretrainingTask(
            config.albert_config,
            objectives=config.objectives,
            seed=config.random_seed,
            dtype=config.dtype_policy,
        )
    evaluator = None
    if eval_records:
        evaluator = _evaluator(config, eval_records, task, strategy)

    # 5. Training.
    if train_records:
        is_finished = train.train(
            config,
            folder=folder,
            task=task,
            strategy=strategy,
            batches_from=functools.partial(
                _training_batches, config, train_records, strategy
            ),
            evaluator=evaluator,
        )
        if not is_finished:
            return None
        _LOGGER.info(
            "Training is finished after %d steps.", config.num_train_steps
        )

    # 6. Evaluation of the best weights, once the chief has written them.
    if not evaluator:
        return None
    distribution.wait_for_all(strategy)
    path = _weights_to_evaluate(config)
    load.load_checkpoint(task.model, path)
    scores = evaluator.evaluate() | {"global_step": load.global_step(path)}
    if is_chief:
        run_folder.write_results(config.output_dir, scores)
    return scores


def _output_folder(
    config: PretrainingConfig, records: RecordSource | None
) -> run_folder.RunFolder:
    return run_folder.RunFolder(
        path=config.output_dir,
        fingerprint=run_folder.fingerprint(
            config,
            objectives=list(config.objectives),
            max_seq_length=config.max_seq_length,
            records=records and records.fingerprint,
        ),
    )


def _training_batches(
    config: PretrainingConfig,
    records: RecordSource,
    strategy: tf.distribute.Strategy,
    position: int,
) -> tf.data.Dataset:
    """Returns the batches after the first `position` global ones."""
    return distribution.distribute(
        strategy,
        functools.partial(
            input_pipeline.training_dataset,
            records,
            global_batch_size=config.train_batch_size,
            seed=config.random_seed,
            start_step=position,
        ),
    )


class Evaluator:
    """Adds up a task's metric totals over batches; a `loop.Evaluator`.

    `batches` yields the same batches, one per replica, each time it is
    iterated over.
    """

    def __init__(
        self,
        task: Task,
        strategy: tf.distribute.Strategy,
        *,
        batches: Iterable[Batch],
        primary_metric: str,
    ) -> None:
        self._task = task
        self._strategy = strategy
        self._batches = batches
        self.primary_metric = primary_metric
        self._batch_totals = tf.function(self._totals_over_replicas)

    def evaluate(self) -> dict[str, float]:
        """Returns the scores over all batches.

        Raises:
            ValueError: There is no batch.
        """
        names = self._task.total_names
        totals = np.zeros(len(names))
        count = 0
        for batch in self._batches:
            totals += self._batch_totals(batch).numpy().astype(np.float64)
            count += 1
        if not count:
            raise ValueError("There are no records to evaluate.")
        return self._task.evaluation_scores(
            dict(zip(names, totals.tolist(), strict=True))
        )

    def _totals_over_replicas(self, batch: Batch) -> tf.Tensor:
        totals = self._strategy.run(self._replica_totals, args=(batch,))
        return self._strategy.reduce(
            tf.distribute.ReduceOp.SUM, totals, axis=None
        )

    def _replica_totals(self, batch: Batch) -> tf.Tensor:
        # Only the totals are used, so the denominators do not matter.
        loss_denominators = {
            name: tf.ones([]) for name in self._task.loss_denominators(batch)
        }
        _, totals = self._task.loss(batch, loss_denominators, seed=None)
        return tf.stack([totals[name] for name in self._task.total_names])


def _evaluator(
    config: PretrainingConfig,
    records: RecordSource,
    task: PretrainingTask,
    strategy: tf.distribute.Strategy,
) -> Evaluator:
    batches = distribution.distribute(
        strategy,
        functools.partial(
            input_pipeline.evaluation_dataset,
            records,
            batch_size=config.eval_batch_size,
            max_steps=config.max_eval_steps,
        ),
    )
    return Evaluator(
        task,
        strategy,
        batches=batches,
        primary_metric=run_config.PRIMARY_METRICS[config.objectives[0]],
    )


def _open_records(
    config: PretrainingConfig, is_used: bool, patterns: str
) -> RecordSource | None:
    if not is_used:
        return None
    return record_source.open_records(
        patterns,
        max_seq_length=config.max_seq_length,
        max_predictions=config.max_predictions_per_seq,
    )


def _check_vocabularies(
    config: AlbertConfig, *sources: RecordSource | None
) -> None:
    """Checks that all records and the model have the same vocabulary."""
    layouts = [source.layout for source in sources if source]
    hashes = {layout.tokenizer_hash for layout in layouts} - {None}
    if len(hashes) > 1:
        raise ValueError(
            "The records to train on and those to evaluate on were made with "
            "different tokenizers. Build both with the same vocabulary."
        )
    for layout in layouts:
        vocab_size = layout.vocab_size or config.vocab_size
        if vocab_size != config.vocab_size:
            raise ValueError(
                f"The records were made with a vocabulary of {vocab_size} "
                f"tokens, but the config has vocab_size={config.vocab_size}. "
                "Change the config, or build the records again."
            )


def _weights_to_evaluate(config: PretrainingConfig) -> str:
    if not config.do_train and config.init_checkpoint:
        return config.init_checkpoint
    path = run_checkpoints.trained_weights(config.output_dir)
    if path is None:
        raise ValueError(
            f"There is no checkpoint to evaluate in {config.output_dir!r}. "
            "Pass --init_checkpoint, or train first."
        )
    return path
