"""Several runs that differ in their seed: median, spread, and the best.

Data flow: job -> a run in each `seed-*/` -> summary, best weights.
Floor: training.
"""

import dataclasses
import gc
import logging
import os
import shutil
import statistics
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from albert_tf.checkpoints import run_checkpoints
from albert_tf.training import (
    collapse,
    distribution,
    finetune_folder,
    finetune_report,
    finetune_run,
    loop,
    run_folder,
)
from albert_tf.training.records import RecordSets
from albert_tf.training.run_config import FinetuningJob

_LOGGER = logging.getLogger(__name__)

_STEP = "global_step"


class SeedRuns:
    """Runs with consecutive seeds, in folders of their own.

    The best weights of the seed with the best primary_metric score become those of
    the whole, and make its predictions.

    Args:
        job: With training and evaluation.
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

    def run(self) -> dict[str, float] | None:
        """Runs all seeds; a seed that is finished is only evaluated.

        Returns:
            The summary without the scores of each seed; None if a signal
            stopped the training.

        Raises:
            AllAttemptsFailed: No seed gives a result.
        """
        self._claim()
        seeds = seeds_of(self._job)
        scores: dict[int, dict[str, float]] = {}
        failures: dict[int, str] = {}
        for seed in seeds:
            _LOGGER.info("Seed %d of %d to %d.", seed, seeds[0], seeds[-1])
            try:
                found = self._run_seed(seed)
            except (
                finetune_run.AllAttemptsFailed,
                loop.TrainingDiverged,
            ) as problem:
                failures[seed] = str(problem)
                _LOGGER.warning("Seed %d gives no result: %s", seed, problem)
                continue
            if found is None:
                return None
            if found.pop(collapse.CONSTANT_KEY, None):
                failures[seed] = "Its predictions are constant."
                continue
            scores[seed] = found
        if not scores:
            raise finetune_run.AllAttemptsFailed(
                f"None of the {len(seeds)} seeds gives a result. The first: "
                f"{failures[seeds[0]]}"
            )
        return self._finish(scores, failures)

    def _claim(self) -> None:
        job = self._job
        if self._is_chief:
            run_folder.claim(
                job.output_dir, config=job.config, identity=run_identity(job)
            )
            run_folder.write_flags(job.output_dir, job.flags_text)

    def _run_seed(self, seed: int) -> dict[str, float] | None:
        job = _job_of_seed(self._job, seed)
        sets = dataclasses.replace(self._sets, prediction=())
        found = finetune_run.FinetuningRun(job, sets, self._strategy).run()
        gc.collect()  # the model, which refers to itself
        return found

    def _finish(
        self,
        scores: Mapping[int, Mapping[str, float]],
        failures: Mapping[int, str],
    ) -> dict[str, float]:
        job = self._job
        primary_metric = job.data.primary_metric
        best = max(scores, key=lambda seed: scores[seed][primary_metric])
        weights = os.path.join(job.output_dir, run_checkpoints.BEST_FOLDER)
        if self._is_chief:
            _copy_weights(seed_folder(job.output_dir, best), weights)
        distribution.wait_for_all(self._strategy)
        results = summary(scores, best, num_failed=len(failures))
        details: dict[str, Any] = {
            finetune_report.SEEDS_KEY: {
                str(seed): {**own, "restarts": self._num_restarts(seed)}
                for seed, own in scores.items()
            },
            finetune_report.FAILED_KEY: {
                str(seed): text for seed, text in failures.items()
            },
        }
        if failures:
            _LOGGER.warning(
                "%d of %d seeds give no result, and are left out of the "
                "medians: %s.",
                len(failures),
                job.finetuning.num_seeds,
                ", ".join(map(str, failures)),
            )
        finetune_run.FinetuningRun(
            job, dataclasses.replace(self._sets, train=None), self._strategy
        ).report(weights, results | details)
        return results

    def _num_restarts(self, seed: int) -> int:
        folder = seed_folder(self._job.output_dir, seed)
        return collapse.read(folder).number


def check_folder(job: FinetuningJob) -> None:
    """Checks that the folder of several runs is theirs, or nobody's.

    Raises:
        FileNotFoundError, ValueError: See `run_folder.check` and
            `finetune_folder.check_folder`.
    """
    run_folder.check(job.output_dir, run_identity(job))
    for seed in seeds_of(job):
        finetune_folder.check_folder(_job_of_seed(job, seed))


def seeds_of(job: FinetuningJob) -> range:
    """Returns the seeds of a job's runs."""
    first = job.training.random_seed
    return range(first, first + job.finetuning.num_seeds)


def _job_of_seed(job: FinetuningJob, seed: int) -> FinetuningJob:
    return dataclasses.replace(
        job,
        output_dir=seed_folder(job.output_dir, seed),
        training=dataclasses.replace(job.training, random_seed=seed),
        predict_sets=(),
    )


def run_identity(job: FinetuningJob) -> dict[str, Any]:
    """Returns the identity of several runs; see `finetune_folder`."""
    return finetune_folder.model_identity(job) | {
        run_folder.SETTINGS: dict(job.data.settings),
        "seeds_from": job.training.random_seed,
        "init_checkpoint": job.init_checkpoint,
    }


def seed_folder(output_dir: str, seed: int) -> str:
    """Returns the folder of a seed's run."""
    return os.path.join(output_dir, f"seed-{seed}")


def summary(
    scores: Mapping[int, Mapping[str, float]], best: int, *, num_failed: int = 0
) -> dict[str, float]:
    """Returns the median of each score, and how far the seeds differ.

    >>> summary({1: {"f1": 0.5, "global_step": 9},
    ...          2: {"f1": 0.7, "global_step": 6}}, best=2)["f1"]
    0.6

    Args:
        scores: By seed, those of its best weights.
        best: The seed with the best primary_metric score.
        num_failed: Seeds without scores.

    Returns:
        `<key>`, the median; `<key>_std`, the standard deviation of a sample;
        `<key>_best`, that of the best seed; `num_seeds` that these are of,
        `num_failed_seeds`, `best_seed`; and the best seed's `global_step`.
    """
    results: dict[str, float] = {}
    for key in scores[best]:
        values = [own[key] for own in scores.values()]
        if key == _STEP:
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


def _copy_weights(run: str, target: str) -> None:
    source = run_checkpoints.trained_weights(run)
    if source is None:
        raise ValueError(f"There are no trained weights in {run!r}.")
    partial = f"{target}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(source, partial)
    shutil.rmtree(target, ignore_errors=True)
    os.replace(partial, target)
