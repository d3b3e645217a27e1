"""Pretraining, from record files to checkpoints and scores.

Source: google-research/albert, `run_pretraining.main`.
"""

import dataclasses
import functools
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from albert_tf import checks, files, registry, settings
from albert_tf.checkpoints import discovery, vocabularies
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.data import example_order, input_pipeline, record_source, shards
from albert_tf.data.record_source import RecordSource
from albert_tf.data.shards import Shard
from albert_tf.devices import strategies
from albert_tf.devices.strategies import Workers
from albert_tf.metrics.scores import Scores
from albert_tf.tasks.pretraining.objectives import PretrainingTask
from albert_tf.tasks.task import Batch
from albert_tf.text.tokenizer import Vocabulary
from albert_tf.text.vocabulary_file import AS_WRITTEN, TokenizerSettings
from albert_tf.training import loop, pretrain_config, resume, run_folder
from albert_tf.training.callbacks import Callback, CallbackList, Result, Run
from albert_tf.training.pretrain_config import PretrainingConfig
from albert_tf.training.run_config import Phase
from albert_tf.training.run_folder import RunFolder
from albert_tf.training.step import TrainStep

_LOGGER = logging.getLogger(__name__)

# By sequence length; none without training.
TrainRecords = Mapping[int, RecordSource]


def run(
    config: PretrainingConfig, callbacks: Sequence[Callback] = ()
) -> Result | None:
    """Trains, or resumes training, and evaluates the best weights.

    Args:
        config: Settings of the run.
        callbacks: Observers, besides the standard ones.

    Returns:
        The result of the best weights, without scores if none are evaluated.
        None if the training was stopped.
    """
    resume.make_deterministic(config)
    # 1. Devices: first, so that what fails in one worker ends all.
    with (
        strategies.start_workers(config) as workers,
        example_order.failed_reads_raised(),
    ):
        strategy = workers.strategy

        # 2. Data.
        train_records, eval_records = _open_records(config)
        config = _with_vocabulary(config, train_records)

        # 3. Output directory and weights: checked before the model is built.
        folder = _output_folder(config, train_records, eval_records, strategy)
        start = _check_start(config, folder, workers)

        # 4. Model and losses; training.
        with strategy.scope():
            task = PretrainingTask(
                config.albert_config,
                objectives=config.objectives,
                seed=config.random_seed,
                dtype=config.dtype_policy,
            )
        evaluate = _evaluation(config, eval_records, task, strategy)
        with _observers(config, callbacks, workers) as observers:
            if config.do_train:
                with resume.prepare_training(
                    config,
                    folder=folder,
                    train_step=TrainStep(config, task, strategy),
                    workers=workers,
                    start=start,
                    continue_from=config.continue_from,
                    allow_new_heads=config.allow_new_heads,
                    from_group_0=config.init_from_group0,
                ) as training:
                    is_finished = loop.TrainingLoop(
                        config,
                        training,
                        observers=observers,
                        batches_from=functools.partial(
                            _training_batches, config, train_records, strategy
                        ),
                        evaluate=evaluate,
                        is_pretraining=True,
                    ).run()
                if not is_finished:
                    return None

            # 5. Evaluation of the best weights, which the chief has written.
            weights, scores = _weights_to_evaluate(config, folder), Scores()
            if not config.do_train:
                observers.begin(step=weights.step)
            if evaluate:
                resume.set_weights(task.model, weights, workers)
                scores = dataclasses.replace(evaluate(), step=weights.step)
            result = _result(config, scores, weights, eval_records)
            workers.run_in_chief(_finish, config, weights, result, observers)
            return result


def _observers(
    config: PretrainingConfig, callbacks: Sequence[Callback], workers: Workers
) -> CallbackList:
    run = Run(
        config=config,
        title="Pretraining",
        metric=config.primary_metric,
        is_training=config.do_train,
    )
    return CallbackList(run, callbacks, workers)


def _result(
    config: PretrainingConfig,
    scores: Scores,
    weights: Checkpoint,
    records: RecordSource | None,
) -> Result:
    evaluation: files.JsonObject | None = None
    if records:
        tokens = registry.load(registry.FREQUENCIES["tokens"])
        scores = scores.with_entries(tokens.measure(config, records))
        evaluation = {
            "data": config.evaluated,
            "examples": _num_evaluated(config, records),
            "step": scores.step,
            "scores": scores.flat(),
        }
    return Result(
        scores=scores,
        output_dir=config.output_dir,
        weights=weights.path,
        evaluation=evaluation,
    )


def _finish(
    config: PretrainingConfig,
    weights: Checkpoint,
    result: Result,
    observers: CallbackList,
) -> None:
    observers.end(run_folder.write_results(config, weights, result))


def _check_start(
    config: PretrainingConfig, folder: RunFolder, workers: Workers
) -> Checkpoint | None:
    """Checks batch sizes, folder, weights; returns those to train, if any."""
    config.check_batch_sizes(
        workers.strategy.num_replicas_in_sync,
        train_batch_size=config.do_train,
        eval_batch_size=config.do_eval,
    )
    workers.check_same(folder.fingerprint, "All workers need the same files.")
    if not config.do_train:
        workers.run_in_chief(_weights_to_evaluate, config, folder)
        return None
    workers.run_in_chief(folder.check)
    if not config.init_checkpoint:
        return None
    start = discovery.open(
        config.init_checkpoint,
        albert_config=config.albert_config,
        may_change_layers=config.init_from_group0,
    )
    start = vocabularies.with_new_tokens(start, config.new_token_names)
    if config.vocabulary:
        vocabularies.check_tokens(start, config.vocabulary)
    start.check_task(folder.metadata)
    return start


def _output_folder(
    config: PretrainingConfig,
    train_records: TrainRecords,
    eval_records: RecordSource | None,
    strategy: tf.distribute.Strategy,
) -> RunFolder:
    described = _described(train_records, eval_records)
    tokenizer = TokenizerSettings().identity(None)
    for shard in described:
        if shard.has_sidecar:
            vocabulary = settings.read(Vocabulary, shard.config)
            added = shard.added_tokens
            if added is None:  # Older records: all as written.
                added = dict.fromkeys(vocabulary.new_token_names, AS_WRITTEN)
            tokenizer = dataclasses.replace(
                vocabulary.settings, added_tokens=added
            ).identity(shard.tokenizer_hash)
    num_readers = None
    if config.read_order == "files":
        # Among which the files are divided.
        num_readers = strategies.num_input_pipelines(strategy)
    sources = {str(length): s for length, s in train_records.items()}
    continued = config.continue_from
    # Percents mean other steps when a run becomes longer.
    schedules = {
        name: pretrain_config.in_steps(
            getattr(config, name), config.num_train_steps
        )
        for name in pretrain_config.SCHEDULES
    }
    return RunFolder(
        path=config.output_dir,
        head=config.head,
        fingerprint=run_folder.fingerprint(
            config,
            objectives=list(config.objectives),
            max_seq_length=config.max_seq_length,
            records={x: source.fingerprint for x, source in sources.items()},
            masks={x: s.shard.mask_settings for x, s in sources.items()},
            **schedules,
            read_order=config.read_order,
            num_readers=num_readers,
            init_from_group0=config.init_from_group0,
            continue_from=continued and os.path.realpath(continued),
            eval_records=eval_records and _evaluated(config, eval_records),
            best_metric=config.best_metric or config.primary_metric,
            settings=tokenizer,
        ),
    )


def _described(
    train_records: TrainRecords, eval_records: RecordSource | None
) -> list[Shard]:
    sources = [*train_records.values(), *filter(None, [eval_records])]
    return [source.shard for source in sources]


def _with_vocabulary(
    config: PretrainingConfig, records: TrainRecords
) -> PretrainingConfig:
    """Returns a config with the vocabulary of records, if it can be found."""
    for shard in (source.shard for source in records.values()):
        vocabulary = settings.read(Vocabulary, {**shard.origin, **shard.config})
        path = vocabulary.spm_model_file or vocabulary.vocab_file or ""
        if not os.path.isfile(path):
            continue
        tokenizer = vocabulary.load_tokenizer()
        if tokenizer.fingerprint == shard.tokenizer_hash:
            checkpoint = Checkpoint(
                vocabulary=path,
                content=tokenizer.vocabulary,
                metadata=Metadata(**tokenizer.settings.stated()),
            )
            return dataclasses.replace(config, vocabulary=checkpoint)
    return config


def _evaluated(config: PretrainingConfig, records: RecordSource) -> str:
    """Returns what identifies the records that are evaluated, and how."""
    num_evaluated = _num_evaluated(config, records)
    evaluated = records.fingerprint
    if num_evaluated < records.num_records:
        evaluated = f"the first {num_evaluated} of {evaluated}"
    if masks := records.shard.mask_settings:
        evaluated += f" with the masks {masks}"
    return evaluated


def _num_evaluated(config: PretrainingConfig, records: RecordSource) -> int:
    if config.num_eval_steps is None:
        return records.num_records
    most = config.num_eval_steps * config.eval_batch_size
    return min(most, records.num_records)


def _training_batches(
    config: PretrainingConfig,
    records: TrainRecords,
    strategy: tf.distribute.Strategy,
    phase: Phase,
    position: int,
) -> tf.data.Dataset:
    """Returns the batches of a phase after `position` examples."""
    return strategies.distribute(
        strategy,
        input_pipeline.training_dataset,
        records[phase.max_seq_length].with_mask_rate(phase.masked_lm_prob),
        global_batch_size=phase.batch_size,
        seed=config.random_seed,
        start_example=position,
        num_packed=config.pack * config.gradient_accumulation_steps,
        by_files=config.read_order == "files",
    )


def evaluator(
    task: PretrainingTask,
    strategy: tf.distribute.Strategy,
    batches: Iterable[Batch],
) -> Callable[[], Scores]:
    """Returns a function that gives the scores of a model over all batches.

    `batches` yields the same batches, one per replica, every time.
    """
    names = task.total_names
    of_replica = functools.partial(_replica_totals, task)
    kernels = registry.load(registry.COMPUTATION["kernels"])

    @tf.function(autograph=False)
    def batch_totals(batch: Batch) -> tf.Tensor:
        with kernels.casting_once(task.model):
            totals = strategy.run(of_replica, args=(batch,))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, totals, axis=None)

    def evaluate() -> Scores:
        totals = np.zeros(len(names))
        for batch in batches:
            totals += batch_totals(batch).numpy().astype(np.float64)
        by_name = dict(zip(names, totals.tolist(), strict=True))
        return task.evaluation_scores(by_name)

    return evaluate


def _replica_totals(task: PretrainingTask, batch: Batch) -> tf.Tensor:
    # Only the totals are used, so the denominators do not matter.
    ones = dict.fromkeys(task.loss_denominators(batch), tf.ones([]))
    _, totals = task.loss(batch, ones, seed=None)
    return tf.stack([totals[name] for name in task.total_names])


def _evaluation(
    config: PretrainingConfig,
    records: RecordSource | None,
    task: PretrainingTask,
    strategy: tf.distribute.Strategy,
) -> Callable[[], Scores] | None:
    if records is None:
        return None
    num_evaluated = _num_evaluated(config, records)
    if num_evaluated < records.num_records:
        _LOGGER.info(
            "Evaluations use the first %d of %d records.",
            num_evaluated,
            records.num_records,
        )
    batches = strategies.distribute(
        strategy,
        input_pipeline.evaluation_dataset,
        records,
        batch_size=config.eval_batch_size,
        max_steps=config.num_eval_steps,
        by_files=config.read_order == "files",
    )
    return evaluator(task, strategy, batches)


def _open_records(
    config: PretrainingConfig,
) -> tuple[TrainRecords, RecordSource | None]:
    """Opens and checks the records to train on, and those to evaluate on."""
    if config.do_train or not config.eval_file:
        checks.check_given(config, "input_file")
    masks = {name: getattr(config, name) for name in shards.MASK_SETTINGS}
    open_records = functools.partial(
        record_source.open_by_length,
        mask_settings={n: v for n, v in masks.items() if v is not None},
        vocab_size=config.albert_config.vocab_size,
        verify=config.verify_records,
    )
    train_records: TrainRecords = {}
    eval_records = None
    if config.do_train:
        lengths = dict.fromkeys(x.max_seq_length for x in config.phases)
        train_records = open_records(config.input_file, list(lengths))
        for phase in config.phases:
            source = train_records[phase.max_seq_length]
            source.with_mask_rate(phase.masked_lm_prob)  # raises if it cannot
    if config.do_eval:
        [eval_records] = open_records(
            config.evaluated_file, [config.max_seq_length]
        ).values()
    _check_records(config, train_records, eval_records)
    return train_records, eval_records


def _check_records(
    config: PretrainingConfig,
    train_records: TrainRecords,
    eval_records: RecordSource | None,
) -> None:
    """Checks that the records fit the model, its objectives, one another."""
    evaluated = eval_records.shards if eval_records else []
    for source in train_records.values():
        record_source.report_common_text(source.shards, evaluated)
    described = _described(train_records, eval_records)
    if len({shard.tokenizer_hash for shard in described} - {None}) > 1:
        raise ValueError(
            "The records were made with different tokenizers. Build all, also "
            "those to evaluate on, with the same vocabulary."
        )
    vocab_size = config.albert_config.vocab_size
    for shard in described:
        if shard.vocab_size not in (None, vocab_size):
            raise ValueError(
                "The records were made with a vocabulary of "
                f"{shard.vocab_size} tokens, but the config has "
                f"{vocab_size=}. Change the config, or build them again."
            )
    kinds = {shard.settings.pair_objective for shard in described}
    pairs = {kind for kind in kinds if kind}
    if "sop" in config.objectives and ("none" in pairs or len(pairs) > 1):
        raise ValueError(
            "Sentence order is learnt from records with pairs of one kind, "
            f"but these have --pair_objective={', '.join(sorted(pairs))}. Pass "
            "--objectives=mlm, or build records with --pair_objective=sop."
        )


def _weights_to_evaluate(
    config: PretrainingConfig, folder: RunFolder
) -> Checkpoint:
    """Returns the weights to evaluate, after training or without it."""
    if config.do_train:
        return discovery.open(run_folder.weights_to_use(config.output_dir))
    run_folder.check_model(config, None)
    path = run_folder.weights_to_use(config.output_dir, config.init_checkpoint)
    weights = discovery.open(path, albert_config=config.albert_config)
    weights.check_task(folder.metadata)
    return weights
