"""Estimates how sure the scores of an evaluation are."""

import logging
from collections.abc import Iterable

import numpy as np

from albert_tf.metrics.scores import Role, Score, Scores
from albert_tf.tasks.task_data import ExampleSet, Outputs
from albert_tf.training.callbacks import Callback

# Samples have at most this many examples.
_LARGEST_SAMPLE = 10_000
_LOGGER = logging.getLogger(__name__)


class Intervals(Callback):
    """Adds the 95% interval of the primary metric to an evaluation."""

    def additional_scores(
        self, evaluated: ExampleSet, outputs: Outputs, scores: Scores
    ) -> Iterable[Score]:
        """Returns the bounds of the interval."""
        return interval(evaluated, outputs, scores)


def interval(
    evaluated: ExampleSet, outputs: Outputs, scores: Scores
) -> list[Score]:
    """Returns the bounds of the 95% interval of the primary metric.

    By bootstrap: quantiles of the metric of N examples, drawn with replacement.
    Of a larger N, only 10,000 are drawn, and deviations are divided by the root
    of N / 10,000. Where nearly all answers are right, samples have
    no error, but other examples may: after N examples without an error, the
    rate of errors may be up to 3.7 / N. Without `score_of_rows`, there is no
    interval.
    """
    data, num_rows = evaluated.data, len(evaluated.examples)
    score_of = data.score_of_rows(evaluated.examples, outputs, scores)
    if score_of is None:
        text = "There is no interval of %s: the task has no score of some rows."
        _LOGGER.info(text, data.primary_metric)
        return []
    metric, size = data.primary_metric, min(num_rows, _LARGEST_SAMPLE)
    draw = np.random.default_rng(0).integers
    drawn = [score_of(draw(num_rows, size=size)) for _ in range(1000)]
    quantiles = np.quantile(drawn, [0.025, 0.975])
    if size < num_rows:
        deviations = quantiles - scores[metric]
        quantiles = scores[metric] + deviations * np.sqrt(size / num_rows)
    worst, best = data.metric_range
    unseen = 3.7 / num_rows * (best - worst)
    low = min(quantiles[0], max(worst, scores[metric] - unseen))
    high = max(quantiles[1], min(best, scores[metric] + unseen))
    return [
        Score(f"{metric}_interval_{name}", float(x), Role.INTERVAL, metric)
        for name, x in (("low", low), ("high", high))
    ]
