"""Fine-tuning, from examples to scores, predictions and a report.

Data flow: examples -> records -> training, one run per seed -> best weights
-> scores and files. `attempts` does the run of one seed.

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
from typing import Any

from albert_tf import files
from albert_tf.checkpoints import load, meaning, run_checkpoints
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.tasks.task import ExampleSet, MakeTask, Sets
from albert_tf.training import (
    attempts,
    collapse,
    devices,
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

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: Files, settings or the output directory do not fit one
            another, or every attempt was degenerate.
    """
    # 1. Checks: before records are made, which takes time and writes files.
    _check_settings(config, sets)
    train.make_deterministic(config)
    with workers_lib.start(config) as workers:
        return _run(config, sets, make_task, workers)


def _run(
    config: FinetuningConfig,
    sets: Sets[ExampleSet],
    make_task: MakeTask,
    workers: Workers,
) -> dict[str, float] | None:
    devices.check_batch_sizes(
        config,
        workers.strategy.num_replicas_in_sync,
        train_batch_size=sets.train,
        eval_batch_size=sets.evaluation,
        predict_batch_size=sets.prediction,
    )

    def check_folders() -> None:
        for one in [config, *config.seed_configs()]:
            _check_folder(one, sets)

    workers.run_in_all(check_folders)

    # 2. Records.
    opened = records.open_sets(config, sets, workers)
    workers.check_same(
        records.fingerprints(opened),
        "All workers need the same files.",
    )

    # 3. Training, evaluation, prediction.
    if config.num_seeds > 1:
        with contextlib.ExitStack() as stack:
            workers.run_in_chief(
                functools.partial(
                    stack.enter_context, _claimed_folders(config, opened)
                ),
            )
            return _run_seeds(config, opened, make_task, workers)
    return attempts.SingleRun(config, opened, make_task, workers).run()


def _run_seeds(
    config: FinetuningConfig,
    sets: Sets[RecordSet],
    make_task: MakeTask,
    workers: Workers,
) -> dict[str, float] | None:
    """Runs every seed in a directory of its own; uses the best weights.

    A seed that is finished is only evaluated.
    """
    # 1. Each seed.
    scores: dict[int, dict[str, float]] = {}
    failures: dict[int, str] = {}
    without_prediction = dataclasses.replace(sets, prediction=(), streams=())
    for one in config.seed_configs():
        seed = one.random_seed
        _LOGGER.info("Seed %d, of %d seeds.", seed, config.num_seeds)
        single = attempts.SingleRun(one, without_prediction, make_task, workers)
        try:
            found = single.run()
            if found is None:
                return None
            scores[seed] = found
        except (attempts.AllAttemptsFailed, loop.TrainingDiverged) as problem:
            failures[seed] = str(problem)
            _LOGGER.warning("Seed %d gives no result: %s", seed, problem)
        gc.collect()  # the model of this seed, which refers to itself
    if not scores:
        raise attempts.AllAttemptsFailed(
            f"None of the {config.num_seeds} seeds gives a result. The first: "
            f"{failures[config.random_seed]}"
        )

    if failures:
        _LOGGER.warning(
            "%d of %d seeds give no result and are left out of the medians: "
            "%s.",
            len(failures),
            config.num_seeds,
            ", ".join(map(str, failures)),
        )

    # 2. The best weights, and the results of all seeds.
    metric = sets.data.primary_metric
    # Some are known only to the log.
    if any(config.best_metric in own for own in scores.values()):
        metric = config.best_metric or metric
    best = best_seed(scores, metric)
    path = os.path.join(config.output_dir, run_checkpoints.BEST_FOLDER)
    workers.run_in_chief(
        functools.partial(
            _copy_best_weights, config.output_dir_of_seed(best), path
        ),
    )
    results = summary(scores, best, num_failed=len(failures))
    attempts.SingleRun(
        config, dataclasses.replace(sets, train=None), make_task, workers
    ).use(path, own_results=results | _details(config, scores, failures))
    return results


@contextlib.contextmanager
def _claimed_folders(
    config: FinetuningConfig, sets: Sets[RecordSet]
) -> Iterator[None]:
    """Claims and locks the directory of all seeds, after all are checked."""
    folder = run_folder.finetuning_folder(config, sets.data)
    with folder.locked():
        for one in config.seed_configs():
            attempts.folder_of(one, sets).check()
        folder.claim(config)
        yield


def _details(
    config: FinetuningConfig,
    scores: Mapping[int, Mapping[str, float]],
    failures: Mapping[int, str],
) -> dict[str, Any]:
    """Returns what the results say of each seed, as JSON values."""
    seeds = {}
    for seed, own in scores.items():
        past = attempts.read_attempts(config.output_dir_of_seed(seed))
        flag = own.get(collapse.DEGENERATE, 0.0)
        seeds[str(seed)] = {
            **own,
            collapse.DEGENERATE: flag,
            "restarts": past.number,
        }
    failed = {str(seed): problem for seed, problem in failures.items()}
    return {report.SEEDS_KEY: seeds, report.FAILED_SEEDS_KEY: failed}


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

    The `scores` are those of the best weights of each seed. A score that one
    of them lacks is left out.

    Returns:
        `<key>`, the median; `<key>_std`, the sample standard deviation;
        `<key>_best`, the score of the best seed; `num_seeds` that these are
        computed from, `num_failed_seeds`, `best_seed`; and the `global_step`
        of the best seed.
    """
    results: dict[str, float] = {}
    for key in scores[best]:
        if key in (_STEP, collapse.DEGENERATE):
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
    source = run_folder.weights_to_use(run_dir, None, is_training=True)
    with files.atomic_folder(target, replace=True) as folder:
        shutil.copytree(source, folder, dirs_exist_ok=True)


def _check_settings(config: FinetuningConfig, sets: Sets[ExampleSet]) -> None:
    """Checks that the settings fit the examples."""
    vocab_size = sets.data.tokenizer.vocab_size
    if vocab_size != config.albert_config.vocab_size:
        raise ValueError(
            f"The vocabulary has {vocab_size} tokens, but the config has "
            f"vocab_size={config.albert_config.vocab_size}. Pass the "
            "vocabulary and the --albert_config_file of the same checkpoint."
        )
    for kind in (sets.evaluation, sets.prediction):
        names = [one.name for one in kind]
        if len(set(names)) < len(names):
            raise ValueError(
                "The evaluation sets, and the prediction sets, must have "
                f"different names. Received: {', '.join(map(repr, names))}."
            )
    if sets.evaluation and sets.evaluation[0].name:
        raise ValueError(
            "The first evaluation set must have the name '', because its "
            "scores have no suffix. Received: "
            f"name={sets.evaluation[0].name!r}."
        )
    patience = config.early_stopping_patience
    if patience and sets.train and not sets.evaluation:
        raise ValueError(
            "`early_stopping_patience` counts evaluations, but there is no "
            "evaluation set. Pass --do_eval. Received: "
            f"early_stopping_patience={patience}."
        )
    if config.best_metric and sets.train and not sets.evaluation:
        raise ValueError(
            "`best_metric` selects among evaluations, but there is no "
            "evaluation set. Pass --do_eval. Received: "
            f"best_metric={config.best_metric!r}."
        )
    if config.num_seeds > 1 and not (sets.train and sets.evaluation):
        raise ValueError(
            "`num_seeds` above 1 needs training and evaluation, which selects "
            "the best seed. Pass --do_train and --do_eval. Received: "
            f"num_seeds={config.num_seeds}."
        )


def _check_folder(config: FinetuningConfig, sets: Sets[ExampleSet]) -> None:
    """Checks output directory and weights, as far as the records are unknown.

    Raises:
        FileNotFoundError: There is no checkpoint to start from.
        ValueError: The directory belongs to another run, or there are no
            weights to use, or they are of another model.
    """
    if not sets.train:
        run_folder.check_model(config, sets.data.name)
        path = run_folder.weights_to_use(
            config.output_dir, config.init_checkpoint, is_training=False
        )
        _check_meaning(path, sets)
        return
    kept = run_folder.read_fingerprint(config.output_dir)
    run_folder.finetuning_folder(
        config, sets.data, kept.get(run_folder.RECORDS)
    ).check()
    trained = run_checkpoints.trained_weights(config.output_dir)
    if config.init_checkpoint and not trained:
        load.global_step(config.init_checkpoint)


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
    different = [
        f"{name}={run[name]!r} (now {ours[name]!r})"
        for name in sorted(run.keys() & ours.keys())
        if name not in ("labels", run_folder.TOKENIZER)
        and run[name] != ours[name]
    ]
    if different:
        _LOGGER.warning(
            "The weights of %s were trained with %s.",
            path,
            ", ".join(different),
        )
