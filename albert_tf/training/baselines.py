"""Says whether scores are better than without a model, and how sure that is."""

import logging
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from albert_tf import checks
from albert_tf.metrics.scores import Role, Score, Scores
from albert_tf.tasks.task import ExampleSet, Outputs
from albert_tf.training.finetuning_data import RecordSet

_LOGGER = logging.getLogger(__name__)

# Shorter runs are trials, which are not compared with chance.
LEAST_STEPS = 50
_FEW_EXAMPLES = 50


def warn_of(scores: Scores, evaluated: Sequence[ExampleSet]) -> None:
    """Warns of scores of the first set that hardly exceed their baselines."""
    if not evaluated:
        return
    num_examples = len(evaluated[0].examples)
    metric = evaluated[0].data.primary_metric
    if problem := scores.verdict():
        _LOGGER.warning("%s", problem)
    elif ends := scores.interval(metric):
        baseline = scores.baselines.get(metric, -math.inf)
        if num_examples < _FEW_EXAMPLES or ends[0] <= baseline:
            text = "Only %d examples were evaluated: on others, %s may be "
            text += "between %.3g and %.3g."
            _LOGGER.warning(text, num_examples, metric, *ends)


def interval(
    evaluated: ExampleSet, outputs: Outputs, scores: Scores
) -> list[Score]:
    """Returns both ends of the 95% interval of the primary metric.

    That is by bootstrap, the quantiles of the metric of N examples drawn from
    the N, with replacement. Where hardly any is wrong, none that is drawn is,
    though on others some are: of N examples without an error, up to 3.7 / N
    may be. Without `score_of_rows`, there is no interval.
    """
    data, num_rows = evaluated.data, len(evaluated.examples)
    score_of = data.score_of_rows(evaluated.examples, outputs, scores)
    if score_of is None:
        text = "There is no interval of %s: the task has no score of some rows."
        _LOGGER.info(text, data.primary_metric)
        return []
    draw = np.random.default_rng(0).integers
    drawn = [score_of(draw(num_rows, size=num_rows)) for _ in range(1000)]
    found = np.quantile(drawn, [0.025, 0.975])
    metric = data.primary_metric
    worst, best = data.metric_range
    unseen = 3.7 / num_rows * (best - worst)
    low = min(found[0], max(worst, scores[metric] - unseen))
    high = max(found[1], min(best, scores[metric] + unseen))
    return [
        Score(f"{metric}_interval_{name}", float(x), Role.INTERVAL, metric)
        for name, x in (("low", low), ("high", high))
    ]


def describe(scores: Scores, evaluated: RecordSet, data: str) -> dict[str, Any]:
    """Returns what metadata and reports say of an evaluation of `data`.

    They are JSON values; the cautions are sentences.
    """
    cautions = [evaluated.caution] * bool(evaluated.caution)
    absent = [x.of for x in scores if x == Score.of_label("number", x.of, 0)]
    if absent:
        names = checks.listed(map(repr, absent))
        cautions.append(f"None of the examples has the label {names}.")
    return {
        "data": data,
        "examples": len(evaluated.examples),
        "step": scores.step,
        "metric": evaluated.data.primary_metric,
        "has_numbers": evaluated.data.is_regression,
        "cautions": cautions,
        "scores": scores.flat(),
    }
