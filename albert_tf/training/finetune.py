"""Fine-tuning, from examples to scores, predictions and a report.

Data flow: examples -> records -> training, one run per seed -> best weights
-> scores and files. `finetuning_run` does the run of one seed.

Source: google-research/albert, the `main` of `run_classifier.py`,
`run_race.py` and `run_squad_v*.py`.
"""

import contextlib
import dataclasses
import functools
import gc
import logging
import math
import os
import shutil
import statistics
from collections.abc import Iterator, Mapping
from typing import cast

from albert_tf import checks, files
from albert_tf.checkpoints import load, meaning, run_checkpoints
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.tasks.task import ExampleSet, MakeTask, Sets
from albert_tf.training import (
    chance,
    devices,
    finetuning_run,
    loop,
    ranking,
    records,
    report,
    run_folder,
    train,
)
from albert_tf.training import (
    workers as workers_lib,
)
from albert_tf.training.finetuning_run import FinetuningRun
from albert_tf.training.records import RecordSet
from albert_tf.training.run_config import FinetuningConfig
from albert_tf.training.workers import Workers

_LOGGER = logging.getLogger(__name__)
_STEP = "global_step"


def run(
    config: FinetuningConfig, sets: Sets[ExampleSet], make_task: MakeTask
) -> dict[str, float] | None:
    """Trains, or resumes training, then evaluates and predicts.

    Besides what every run leaves in `output_dir`, there are `eval/` (and
    `eval_<name>/`) with the predictions of the evaluation sets, the files of
    the task for the sets to predict, and `report.html`.

    Returns:
        Scores of the best weights, their `loss` and `global_step`. With
        several seeds, the medians, with `<key>_std` and `<key>_best` beside
        them. None if a signal stopped the training.
    """
    # 1. Checks, before records are made.
    _check_settings(config, sets)
    train.make_deterministic(config)
    with workers_lib.start(config) as workers:
        devices.check_batch_sizes(
            config,
            workers.strategy.num_replicas_in_sync,
            train_batch_size=sets.train,
            eval_batch_size=sets.evaluation,
            predict_batch_size=sets.prediction,
        )
        weights = workers.run_in_all(
            functools.partial(_check_folders, config, sets)
        )

        # 2. Records, which all seeds share.
        made = records.make_sets(config, sets)
        workers.check_same(
            records.fingerprints(made), "All workers need the same files."
        )

        # 3. Training, evaluation, predictions, report.
        if config.num_seeds > 1:
            return _run_seeds(config, made, make_task, workers)
        one = FinetuningRun(config, made, make_task, workers)
        if made.train:
            weights = one.train(made.train)
        if weights is None:
            return None
        return one.evaluate_and_predict(weights).scores


def _run_seeds(
    config: FinetuningConfig,
    sets: Sets[RecordSet],
    make_task: MakeTask,
    workers: Workers,
) -> dict[str, float] | None:
    """Runs every seed in a directory of its own; uses the best weights.

    A seed that is finished is only evaluated.
    """
    with contextlib.ExitStack() as stack:
        claim = _claimed_folders(config, sets)
        workers.run_in_chief(functools.partial(stack.enter_context, claim))

        # 1. Training and evaluation of each seed.
        scores: dict[int, dict[str, float]] = {}
        failures: dict[int, str] = {}
        own_sets = dataclasses.replace(sets, prediction=())
        for own in config.seed_configs():
            seed = own.random_seed
            _LOGGER.info("Seed %d, of %d seeds.", seed, config.num_seeds)
            one = FinetuningRun(own, own_sets, make_task, workers)
            try:
                weights = one.train(cast(RecordSet, sets.train))
            except loop.TrainingDiverged as problem:
                failures[seed] = str(problem)
                _LOGGER.warning("%s", problem)
                continue
            if weights is None:
                return None
            scores[seed], degeneracy = one.evaluate_and_predict(weights)
            if degeneracy:
                failures[seed] = degeneracy
            gc.collect()  # the model of this seed, which refers to itself

        # 2. The best seed, and the results of all.
        best, results = _summarize(config, sets, scores, failures)
        details = {
            report.SEEDS_KEY: {
                str(seed): {chance.DEGENERATE: 0.0, **own}
                for seed, own in scores.items()
            },
            report.FAILED_SEEDS_KEY: {str(k): v for k, v in failures.items()},
        }

        # 3. Evaluation, predictions, report.
        weights = os.path.join(config.output_dir, run_checkpoints.BEST_FOLDER)
        workers.run_in_chief(
            functools.partial(
                _copy_best_weights, config.output_dir_of_seed(best), weights
            ),
        )
        FinetuningRun(
            config, dataclasses.replace(sets, train=None), make_task, workers
        ).evaluate_and_predict(weights, all_results=results | details)
        return results


@contextlib.contextmanager
def _claimed_folders(
    config: FinetuningConfig, sets: Sets[RecordSet]
) -> Iterator[None]:
    """Claims and locks the directory of all seeds, after all are checked."""
    folder = run_folder.finetuning_folder(config, sets.data)
    with folder.locked():
        for own in config.seed_configs():
            finetuning_run.folder_of(own, sets).check()
        folder.claim(config)
        yield


def _summarize(
    config: FinetuningConfig,
    sets: Sets[RecordSet],
    scores: Mapping[int, dict[str, float]],
    failures: Mapping[int, str],
) -> tuple[int, dict[str, float]]:
    """Returns the best seed, and the results of those that have not failed.

    If no other seed has finished, the degenerate ones give the results, which
    then say so.
    """
    if not scores:
        raise ValueError(
            f"None of the {config.num_seeds} seeds gives a result. The first: "
            f"{failures[config.random_seed]}"
        )
    sound = {seed: own for seed, own in scores.items() if seed not in failures}
    if failures and sound:
        _LOGGER.warning(
            "%d of %d seeds have failed and are left out of the medians: %s.",
            len(failures),
            config.num_seeds,
            ", ".join(map(str, failures)),
        )
    used = sound or scores
    metric = sets.data.primary_metric
    # Some are known only to the log.
    if any(config.best_metric in own for own in used.values()):
        metric = config.best_metric or metric
    best = best_seed(used, metric)
    results = summary(used, best, num_failed=len(failures))
    return best, results | ({} if sound else {chance.DEGENERATE: 1.0})


def best_seed(scores: Mapping[int, Mapping[str, float]], metric: str) -> int:
    """Returns the seed with the best score, as `loop.TrainingLoop` has it.

    >>> best_seed({1: {"f1": 0.7, "loss": 2.0}, 2: {"f1": 0.7, "loss": 1.0},
    ...            3: {"f1": 0.6, "loss": 0.5}}, "f1")
    2

    Of equal scores, that with the lower loss is the best, then the first. A
    seed without the score is the worst.
    """

    def goodness(seed: int) -> tuple[float, float]:
        own = scores[seed]
        return ranking.rank(
            metric, own.get(metric, math.nan)
        ), -ranking.loss_of(own)

    return max(scores, key=goodness)


def summary(
    scores: Mapping[int, Mapping[str, float]], best: int, *, num_failed: int = 0
) -> dict[str, float]:
    """Returns the median of each score, and how much the seeds differ.

    >>> summary({1: {"f1": 0.5, "global_step": 9},
    ...          2: {"f1": 0.7, "global_step": 6}}, best=2)["f1"]
    0.6

    A score that one of the seeds lacks is left out.

    Returns:
        `<key>`, the median; `<key>_std`, the sample standard deviation;
        `<key>_best`, the score of the best seed, and its `global_step`.
    """
    results: dict[str, float] = {}
    for key in scores[best]:
        if key in (_STEP, chance.DEGENERATE):
            continue
        values = [own[key] for own in scores.values() if key in own]
        if len(values) < len(scores):
            continue
        results[key] = statistics.median(values)
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        results[f"{key}_std"] = spread
        results[f"{key}_best"] = scores[best][key]
    return results | {
        "num_seeds": len(scores),
        "num_failed_seeds": num_failed,
        "best_seed": best,
        _STEP: scores[best][_STEP],
    }


def _copy_best_weights(run_dir: str, target: str) -> None:
    source = run_checkpoints.trained_weights(run_dir)
    with files.atomic_folder(target, replace=True) as folder:
        shutil.copytree(source or "", folder, dirs_exist_ok=True)


def _check_settings(config: FinetuningConfig, sets: Sets[ExampleSet]) -> None:
    """Checks that the settings fit the examples."""
    vocab_size = sets.data.tokenizer.vocab_size
    if vocab_size != config.albert_config.vocab_size:
        raise ValueError(
            f"The vocabulary has {vocab_size} tokens, but the config has "
            f"vocab_size={config.albert_config.vocab_size}. Pass the "
            "vocabulary and the --albert_config_file of the same checkpoint."
        )
    for name in ("best_metric", "early_stopping_patience"):
        if getattr(config, name) and sets.train and not sets.evaluation:
            raise ValueError(
                f"`{name}` needs evaluations. Pass --do_eval. Received: "
                f"{name}={getattr(config, name)!r}."
            )
    if config.num_seeds > 1 and not (sets.train and sets.evaluation):
        raise ValueError(
            "`num_seeds` above 1 needs training and evaluation, which selects "
            "the best seed. Pass --do_train and --do_eval. Received: "
            f"num_seeds={config.num_seeds}."
        )


def _check_folders(
    config: FinetuningConfig, sets: Sets[ExampleSet]
) -> str | None:
    """Checks output directories and weights, as far as records are unknown.

    Returns:
        The path of the weights to use; None if they must first be trained.
    """
    if not sets.train:
        run_folder.check_model(config, sets.data.name)
        weights = run_folder.weights_to_use(
            config.output_dir, config.init_checkpoint, is_training=False
        )
        _check_meaning(weights, sets)
        return weights
    for own in [config, *config.seed_configs()]:
        kept = run_folder.read_fingerprint(own.output_dir)
        run_folder.finetuning_folder(
            own, sets.data, kept.get(run_folder.RECORDS)
        ).check()
        trained = run_checkpoints.trained_weights(own.output_dir)
        if own.init_checkpoint and not trained:
            load.global_step(own.init_checkpoint)
    return None


def _check_meaning(path: str, sets: Sets[ExampleSet]) -> None:
    """Checks that weights have the labels and the tokenizer of the task.

    Other settings that they were trained with may differ; that is logged.
    """
    load.global_step(path)
    run = run_folder.fingerprint_of_weights(path).get(run_folder.SETTINGS, {})
    ours = sets.data.settings
    labels = ours.get("labels")
    meaning.check_task(
        path,
        Metadata(
            labels=None if labels is None else tuple(labels),
            do_lower_case=sets.data.tokenizer.do_lower_case,
            tokenizer_hash=ours.get(run_folder.TOKENIZER),
        ),
    )
    names = run.keys() & ours.keys() - {"labels", run_folder.TOKENIZER}
    different = checks.differences(
        *({name: one[name] for name in sorted(names)} for one in (run, ours))
    )
    if different:
        _LOGGER.warning(
            "The weights of %s were trained with %s.",
            path,
            checks.listed(different),
        )
