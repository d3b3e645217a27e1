"""Fine-tuning, from examples to scores, predictions and a report.

Source: google-research/albert, the `main` of `run_classifier.py`,
`run_race.py` and `run_squad_v*.py`.
"""

import contextlib
import dataclasses
import functools
import gc
import itertools
import logging
import os
import shutil
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from albert_tf import files
from albert_tf.checkpoints import discovery, heads, run_checkpoints
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.devices import strategies
from albert_tf.devices.strategies import Workers
from albert_tf.inference import record_outputs
from albert_tf.metrics import scores as scores_lib
from albert_tf.metrics.scores import Score, Scores
from albert_tf.tasks.task import ExampleSet, MakeTask, Sets, TaskData
from albert_tf.training import (
    baselines,
    finetuning_data,
    loop,
    resume,
    run_folder,
)
from albert_tf.training.finetuning_data import RecordSet
from albert_tf.training.finetuning_run import FinetuningRun, Result
from albert_tf.training.report import SeedResults
from albert_tf.training.run_config import FinetuningConfig

_LOGGER = logging.getLogger(__name__)
Key = TypeVar("Key", int, str)
Run = TypeVar("Run")


def run(
    config: FinetuningConfig,
    sets: Sets[ExampleSet],
    make_task: MakeTask,
    start: Checkpoint | None = None,
) -> Result | None:
    """Trains, or resumes training, then evaluates and predicts.

    `start` is what the training starts from, if not from random weights; or
    the weights to use without training.

    Returns:
        What the best weights give; with several seeds, the medians. None if a
        signal stopped the training.
    """
    # 1. Checks, before records are made.
    _check_settings(config, sets)
    resume.make_deterministic(config)
    with contextlib.ExitStack() as stack:
        workers = stack.enter_context(strategies.start_workers(config))
        config.check_batch_sizes(
            workers.strategy.num_replicas_in_sync,
            train_batch_size=sets.train,
            eval_batch_size=sets.evaluation,
            predict_batch_size=sets.prediction,
        )
        if start and not sets.train:
            _check_weights(config, sets.data, start)

        make_run = functools.partial(
            FinetuningRun, make_task=make_task, workers=workers, start=start
        )
        if config.num_folds > 1 and sets.train:
            workers.run_in_chief(_claim, config, sets, stack)
            return _run_folds(config, sets.train, make_run, workers)

        # 2. Records, which all seeds share.
        record_sets = finetuning_data.make_sets(config, sets)
        workers.check_same(
            finetuning_data.fingerprints(record_sets),
            "All workers need the same files.",
        )

        # 3. Training, evaluation, predictions, report.
        if config.num_seeds > 1:
            workers.run_in_chief(_claim, config, record_sets, stack)
            return _run_seeds(config, record_sets, make_run, workers)
        return make_run(config, record_sets).run()


def _check_settings(config: FinetuningConfig, sets: Sets[ExampleSet]) -> None:
    """Checks that the settings fit the examples."""
    unused = {"best_metric": None, "early_stopping_patience": 0, "num_seeds": 1}
    is_selected = sets.train and (sets.evaluation or config.num_folds > 1)
    for name, default in unused.items():
        if getattr(config, name) != default and not is_selected:
            raise ValueError(
                f"`{name}` needs training and evaluations. Pass --do_train and "
                f"--do_eval. Received: {name}={getattr(config, name)!r}."
            )


def _check_weights(
    config: FinetuningConfig, data: TaskData, weights: Checkpoint
) -> None:
    """Checks that weights have the model, labels and tokenizer of the task."""
    run_folder.check_model(config, data.name)
    if config.head in heads.HEADS:
        weights.head(config.head)  # raises if it has another
    labels = data.settings.get("labels")
    weights.check_task(
        Metadata(
            labels=None if labels is None else tuple(labels),
            do_lower_case=data.tokenizer.settings.do_lower_case,
            tokenizer_hash=data.settings.get(run_folder.TOKENIZER),
        ),
    )


def _run_folds(
    config: FinetuningConfig,
    rows: ExampleSet,
    make_run: Callable[..., FinetuningRun],
    workers: Workers,
) -> Result | None:
    """Evaluates each fold by a run that is trained on the others.

    The scores are those of all rows together, and mean and deviation of folds.
    """
    folds = finetuning_data.fold_numbers(rows, config.num_folds)
    results: list[Result] = []
    for fold in range(config.num_folds):
        _LOGGER.info("Fold %d, of %d folds.", fold, config.num_folds)
        folder = os.path.join(config.output_dir, f"fold-{fold}")
        fold_config = dataclasses.replace(config, output_dir=folder)
        train, held_out = (
            dataclasses.replace(
                rows, examples=[*itertools.compress(rows.examples, chosen)]
            )
            for chosen in (folds != fold, folds == fold)
        )
        fold_sets = Sets(train=train, evaluation=(held_out,))
        fold_records = finetuning_data.make_sets(fold_config, fold_sets)
        result = make_run(fold_config, fold_records).run()
        if result is None:
            return None
        results.append(result)
        gc.collect()  # the model of this fold, which refers to itself

    # From the order of the folds to that of the examples.
    order = np.argsort(np.argsort(folds, kind="stable"))
    outputs = {
        name: np.concatenate([one.outputs[name] for one in results])[order]
        for name in results[0].outputs
    }
    scores = rows.data.scores(rows.examples, outputs)
    folder = os.path.join(config.output_dir, "eval")
    chunks = iter([(rows.examples, outputs)])
    record_outputs.write_predictions(rows, chunks, folder, scores, workers)
    entries = [*scores]
    for key in scores.shown():
        values = [one.scores[key] for one in results if key in one.scores]
        entries.append(Score(f"{key}_mean", float(np.mean(values))))
        entries.append(Score(f"{key}_std", float(np.std(values, ddof=1))))
    for row in rows.data.baselines(rows.examples).items():
        entries.append(Score.baseline(*row))
    entries += baselines.interval(rows, outputs, scores)
    scores = Scores(entries=tuple(entries))
    path = os.path.join(config.output_dir, run_checkpoints.RESULTS_FILE)
    workers.run_in_chief(files.write_json, path, scores.flat())
    baselines.warn_of(scores, [rows])
    return Result(scores, config.output_dir)


def _run_seeds(
    config: FinetuningConfig,
    sets: Sets[RecordSet],
    make_run: Callable[..., FinetuningRun],
    workers: Workers,
) -> Result | None:
    """Runs every seed in a directory of its own; uses the best weights."""
    # 1. Training and evaluation of each seed.
    configs = {one.random_seed: one for one in config.seed_configs()}
    seed_sets = dataclasses.replace(sets, prediction=())

    def run_seed(config: FinetuningConfig) -> Result | None:
        result = make_run(config, seed_sets).run()
        # All outputs of all seeds would take much memory.
        return result and result._replace(outputs={})

    found = run_each("seed", configs, run_seed)
    if found is None:
        return None
    results, failures = found
    failures |= {s: one.problem for s, one in results.items() if one.problem}

    # 2. The best seed, and the results of all.
    scores = {seed: one.scores for seed, one in results.items()}
    best, medians = _summarize(config, sets, scores, failures)
    all_seeds = SeedResults(scores=medians, by_seed=scores, failures=failures)

    # 3. Evaluation, predictions, report.
    path = os.path.join(config.output_dir, run_checkpoints.BEST_FOLDER)
    workers.run_in_chief(_copy_weights, configs[best].output_dir, path)
    final_run = make_run(config, dataclasses.replace(sets, train=None))
    result = final_run.evaluate_and_predict(
        discovery.open(path), all_seeds=all_seeds
    )
    return result._replace(scores=medians)


def run_each(
    what: str, runs: Mapping[Key, Run], run_one: Callable[[Run], Any]
) -> tuple[dict[Key, Any], dict[Key, str]] | None:
    """Runs one after another; returns results, and why others diverged.

    `what` is what the keys of `runs` are. It returns None if a signal stopped
    the training.
    """
    results: dict[Key, Any] = {}
    failures: dict[Key, str] = {}
    for number, (key, one) in enumerate(runs.items(), start=1):
        text = "%s %s, %d of %d."
        _LOGGER.info(text, what.capitalize(), key, number, len(runs))
        try:
            result = run_one(one)
        except loop.TrainingDiverged as problem:
            failures[key] = str(problem)
            _LOGGER.warning("%s", problem)
            continue
        if result is None:
            return None
        results[key] = result
        gc.collect()  # the model of this run, which refers to itself
    if not results:
        raise loop.TrainingDiverged(
            f"None of the {len(runs)} {what}s gives a result. The first: "
            f"{next(iter(failures.values()))}"
        )
    return results, failures


def _claim(
    config: FinetuningConfig, sets: Sets[Any], stack: contextlib.ExitStack
) -> None:
    """Locks and claims the directory of all runs, after all are checked."""
    folder = run_folder.finetuning_folder(config, sets.data)
    stack.enter_context(folder.locked())
    for seed_config in config.seed_configs():
        finetuning_data.folder_of(seed_config, sets).check()
    folder.claim(config)


def _summarize(
    config: FinetuningConfig,
    sets: Sets[RecordSet],
    scores: Mapping[int, Scores],
    failures: Mapping[int, str],
) -> tuple[int, Scores]:
    """Returns the best seed and the medians, of failed ones if all have."""
    sound = {seed: scores[seed] for seed in scores if seed not in failures}
    if failures and sound:
        _LOGGER.warning(
            "%d of %d seeds have failed and are left out of the medians: %s.",
            len(failures),
            config.num_seeds,
            ", ".join(map(str, failures)),
        )
    used = sound or scores
    best = best_seed(used, config.best_metric or sets.data.primary_metric)
    results = scores_lib.medians(used, best, num_failed=len(failures))
    return best, dataclasses.replace(results, is_degenerate=not sound)


def best_seed(scores: Mapping[Key, Scores], metric: str) -> Key:
    """Returns the seed, or run, with the best score, then the lowest loss."""
    return max(scores, key=lambda s: (scores[s].rank(metric), -scores[s].loss))


def _copy_weights(run_dir: str, target: str) -> None:
    source = run_checkpoints.trained_weights(run_dir) or ""
    with files.atomic_folder(target, replace=True) as folder:
        shutil.copytree(source, folder, dirs_exist_ok=True)
