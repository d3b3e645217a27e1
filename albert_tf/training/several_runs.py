"""Several runs, then a summary: seeds, folds, combinations of settings."""

import contextlib
import dataclasses
import gc
import itertools
import logging
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from albert_tf import folders
from albert_tf.checkpoints import discovery, run_checkpoints
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.devices.strategies import Workers
from albert_tf.inference import record_outputs
from albert_tf.metrics import scores as scores_lib
from albert_tf.metrics.scores import Score, Scores
from albert_tf.tasks.task_data import ExampleSet, Outputs, Sets
from albert_tf.training import loop, record_sets, run_folder
from albert_tf.training.callbacks import CallbackList, Result
from albert_tf.training.record_sets import RecordSet
from albert_tf.training.run_config import FinetuningConfig

if TYPE_CHECKING:
    from albert_tf.training.finetune import FinetuningRun

_LOGGER = logging.getLogger(__name__)
Key = TypeVar("Key", int, str)
Settings = TypeVar("Settings")
Outcome = TypeVar("Outcome")


def run_each(
    kind: str,
    settings_by_key: Mapping[Key, Settings],
    run_one: Callable[[Settings], Outcome | None],
    *,
    may_diverge: bool = True,
) -> tuple[dict[Key, Outcome], dict[Key, str]] | None:
    """Runs one after another; returns results, and reasons of divergences.

    `kind` names the keys: "seed", "fold" or "run". Returns None if a training
    was stopped.
    """
    results: dict[Key, Outcome] = {}
    failures: dict[Key, str] = {}
    num_runs = len(settings_by_key)
    for number, (key, settings) in enumerate(settings_by_key.items(), start=1):
        text = "%s %s, %d of %d."
        _LOGGER.info(text, kind.capitalize(), key, number, num_runs)
        try:
            result = run_one(settings)
        except loop.TrainingDiverged as problem:
            if not may_diverge:
                raise
            failures[key] = str(problem)
            _LOGGER.warning("%s", problem)
            continue
        if result is None:
            return None
        results[key] = result
        gc.collect()  # the model of this run, which refers to itself
    if not results:
        raise loop.TrainingDiverged(
            f"None of the {num_runs} {kind}s gives a result. The first: "
            f"{next(iter(failures.values()))}"
        )
    return results, failures


def best_key(scores: Mapping[Key, Scores], metric: str) -> Key:
    """Returns the run with the best score; of equal scores, the lower loss."""
    return max(scores, key=lambda k: (scores[k].rank(metric), -scores[k].loss))


def claim(
    config: FinetuningConfig, sets: Sets[Any], stack: contextlib.ExitStack
) -> None:
    """Locks and claims the directory of seeds or folds, if none is refused."""
    folder = run_folder.finetuning_folder(config, sets.data)
    stack.enter_context(folder.locked())
    for seed_config in config.seed_configs():
        record_sets.folder_of(seed_config, sets).check()
    folder.claim(config)


def run_folds(
    config: FinetuningConfig,
    rows: ExampleSet,
    make_run: "Callable[..., FinetuningRun]",
    workers: Workers,
    observers: CallbackList,
) -> Result | None:
    """Trains a run for each fold on the other folds; evaluates it on the fold.

    Scores are computed on all rows together, with mean and deviation of folds.
    """
    fold_of_row = record_sets.fold_numbers(rows, config.num_folds)
    cautions: list[str] = []

    def run_fold(fold: int) -> Result | None:
        train, held_out = (
            [*itertools.compress(rows.examples, chosen)]
            for chosen in (fold_of_row != fold, fold_of_row == fold)
        )
        data = rows.data.of_training(train)
        sets = Sets(
            train=ExampleSet(examples=train, data=data),
            evaluation=(ExampleSet(examples=held_out, data=data),),
        )
        fold_config = config.fold_configs()[fold]
        records = record_sets.make_sets(fold_config, sets)
        result = make_run(fold_config, records).run()
        found = (records.evaluation[0].caution, result and result.problem)
        cautions.extend(f"Fold {fold}: {each}" for each in found if each)
        return result

    folds = {fold: fold for fold in range(config.num_folds)}
    outcome = run_each("fold", folds, run_fold, may_diverge=False)
    if outcome is None:
        return None
    data = rows.data.of_folds(tuple(fold_of_row.tolist()))
    evaluated = dataclasses.replace(rows, data=data)
    with observers:
        observers.begin(is_training=False, sets=Sets(evaluation=(evaluated,)))
        results: list[Result] = [*outcome[0].values()]
        outputs = _in_order(rows, fold_of_row, [r.outputs for r in results])
        return _summarize_folds(
            config, evaluated, outputs, results, workers, observers, cautions
        )


def _in_order(
    rows: ExampleSet, fold_of_row: np.ndarray, by_fold: Sequence[Outputs]
) -> Outputs:
    """Returns the outputs of all folds, in the order of the rows."""
    examples, folds = rows.examples, fold_of_row
    if sum(len(next(iter(o.values()))) for o in by_fold) > len(examples):
        # A long text has several records.
        records = (
            rows.data.records([example], is_training=False)
            for example in examples
        )
        folds = np.repeat(folds, [len([*each]) for each in records])
    order = np.argsort(np.argsort(folds, kind="stable"))
    outputs: dict[str, np.ndarray | list[np.ndarray]] = {}
    shared = {*by_fold[0]}.intersection(*by_fold)
    for name in shared:
        flat = [*itertools.chain(*(fold[name] for fold in by_fold))]
        ordered = [flat[i] for i in order]
        is_list = isinstance(by_fold[0][name], list)
        outputs[name] = ordered if is_list else np.stack(ordered)
    return outputs


def _of_folds(keys: Sequence[str], folds: Sequence[Scores]) -> list[Score]:
    """Returns mean and deviation of the scores that all folds have.

    A fold whose rows are all of one class has no area under a curve.
    """
    entries = []
    for key in keys:
        if all(key in scores for scores in folds):
            values = [scores[key] for scores in folds]
            deviation = float(np.std(values, ddof=1))
            entries.append(Score(f"{key}_mean", float(np.mean(values))))
            entries.append(Score(f"{key}_std", deviation))
    return entries


def _summarize_folds(
    config: FinetuningConfig,
    evaluated: ExampleSet,
    outputs: Outputs,
    results: Sequence[Result],
    workers: Workers,
    observers: CallbackList,
    cautions: Sequence[str],
) -> Result:
    """Scores the answers of all folds together, and writes them."""
    data = evaluated.data
    scores = data.scores(evaluated.examples, outputs)
    folder = os.path.join(config.output_dir, "eval")
    chunks = iter([(evaluated.examples, outputs)])
    record_outputs.write_predictions(evaluated, chunks, folder, scores, workers)
    entries = [*scores.entries]
    entries += _of_folds([*scores.shown()], [r.scores for r in results])
    entries += observers.additional_scores(evaluated, outputs, scores)
    scores = Scores(entries=tuple(entries))
    facts = record_sets.describe(
        evaluated, scores, config.evaluated, num_folds=config.num_folds
    )
    facts["cautions"] += cautions
    result = Result(
        scores=scores,
        output_dir=config.output_dir,
        weights=config.output_dir,
        evaluation=facts,
        outputs=outputs,
    )
    workers.run_in_chief(
        lambda: observers.end(
            run_folder.write_results(config, Checkpoint(), result)
        )
    )
    return result


def run_seeds(
    config: FinetuningConfig,
    sets: Sets[RecordSet],
    make_run: "Callable[..., FinetuningRun]",
    workers: Workers,
) -> Result | None:
    """Runs each seed in its own directory; predicts with the best weights."""
    # 1. Training and evaluation of each seed.
    configs = {each.random_seed: each for each in config.seed_configs()}
    seed_sets = dataclasses.replace(sets, prediction=())

    def run_seed(config: FinetuningConfig) -> Result | None:
        result = make_run(config, seed_sets).run()
        # All outputs of all seeds would take much memory.
        return result and dataclasses.replace(result, outputs={})

    outcome = run_each("seed", configs, run_seed)
    if outcome is None:
        return None
    results, failures = outcome
    problems = {seed: result.problem for seed, result in results.items()}
    failures |= {seed: text for seed, text in problems.items() if text}

    # 2. The best seed, and the results of all.
    scores = {seed: result.scores for seed, result in results.items()}
    best, medians = _summarize(config, sets, scores, failures)

    # 3. Evaluation, predictions, report.
    path = os.path.join(config.output_dir, run_checkpoints.BEST_FOLDER)
    workers.run_in_chief(_copy_weights, configs[best].output_dir, path)
    last_run = make_run(config, dataclasses.replace(sets, train=None))
    return last_run.run(
        discovery.open(path),
        seeds_result=Result(scores=medians, by_seed=scores, failures=failures),
    )


def _summarize(
    config: FinetuningConfig,
    sets: Sets[RecordSet],
    scores: Mapping[int, Scores],
    failures: Mapping[int, str],
) -> tuple[int, Scores]:
    """Returns the best seed and the medians; failed seeds count if all fail."""
    usable = {seed: scores[seed] for seed in scores if seed not in failures}
    if failures and usable:
        _LOGGER.warning(
            "%d of %d seeds have failed and are left out of the medians: %s.",
            len(failures),
            config.num_seeds,
            ", ".join(map(str, failures)),
        )
    used = usable or scores
    best = best_key(used, config.best_metric or sets.data.primary_metric)
    results = scores_lib.medians(used, best, num_failed=len(failures))
    return best, dataclasses.replace(results, is_degenerate=not usable)


def _copy_weights(run_dir: str, target: str) -> None:
    weights = run_checkpoints.trained_weights(run_dir) or ""
    with folders.atomic_folder(target, replace=True) as folder:
        shutil.copytree(weights, folder, dirs_exist_ok=True)
