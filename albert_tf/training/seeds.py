"""Several runs that differ only in their seed: median, spread, best.

Floor: training. Plain Python.
"""

import dataclasses
import os
import shutil
import statistics
from collections.abc import Mapping
from typing import Any

from albert_tf.checkpoints import run_checkpoints
from albert_tf.training import collapse, metric_log, report
from albert_tf.training.run_config import FinetuningConfig

_STEP = "global_step"


def configs(config: FinetuningConfig) -> list[FinetuningConfig]:
    """Returns the settings of each seed's run; none if there is one run.

    Seeds are counted up from `random_seed`; each has its own directory.
    """
    if config.num_seeds == 1:
        return []
    first = config.random_seed
    return [
        dataclasses.replace(
            config,
            random_seed=seed,
            output_dir=folder(config.output_dir, seed),
            num_seeds=1,
            do_predict=False,
        )
        for seed in range(first, first + config.num_seeds)
    ]


def folder(output_dir: str, seed: int) -> str:
    """Returns the output directory of a seed's run."""
    return os.path.join(output_dir, f"seed-{seed}")


def summary(
    scores: Mapping[int, Mapping[str, float]], best: int, *, num_failed: int = 0
) -> dict[str, float]:
    """Returns the median of each score, and how much the seeds differ.

    >>> summary({1: {"f1": 0.5, "global_step": 9},
    ...          2: {"f1": 0.7, "global_step": 6}}, best=2)["f1"]
    0.6

    Args:
        scores: Scores of the best weights, by seed.
        best: The seed with the best primary metric.
        num_failed: Number of seeds without scores.

    Returns:
        `<key>`, the median; `<key>_std`, the sample standard deviation;
        `<key>_best`, the score of the best seed; `num_seeds` that these are
        computed from, `num_failed_seeds`, `best_seed`; and the `global_step`
        of the best seed.
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


def details(
    output_dir: str,
    scores: Mapping[int, Mapping[str, float]],
    failures: Mapping[int, str],
) -> dict[str, Any]:
    """Returns what the results say of each seed, as JSON values."""
    return {
        report.SEEDS_KEY: {
            str(seed): {**own, "restarts": _num_restarts(output_dir, seed)}
            for seed, own in scores.items()
        },
        report.FAILED_SEEDS_KEY: {
            str(seed): text for seed, text in failures.items()
        },
    }


def _num_restarts(output_dir: str, seed: int) -> int:
    return collapse.read_attempts(folder(output_dir, seed)).number


def logs(config: FinetuningConfig) -> dict[str, list[dict[str, Any]]]:
    """Returns the lines of `metrics.jsonl` by seed; under "" of a lone run."""
    if config.num_seeds == 1:
        return {"": metric_log.read_lines(config.output_dir)}
    return {
        str(one.random_seed): metric_log.read_lines(one.output_dir)
        for one in configs(config)
    }


def copy_best_weights(output_dir: str, seed: int) -> None:
    """Copies the best weights of a seed to `best/` of the whole run.

    Raises:
        ValueError: The seed has no trained weights.
    """
    source = run_checkpoints.trained_weights(folder(output_dir, seed))
    if source is None:
        raise ValueError(f"Seed {seed} in {output_dir!r} has no weights.")
    target = os.path.join(output_dir, run_checkpoints.BEST_FOLDER)
    partial = f"{target}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(source, partial)
    shutil.rmtree(target, ignore_errors=True)
    os.replace(partial, target)
