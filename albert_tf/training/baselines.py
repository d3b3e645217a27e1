"""Says whether scores are better than without a model."""

import logging
import math
from collections.abc import Sequence

from albert_tf.metrics.scores import Scores
from albert_tf.tasks.label_frequencies import Comparison
from albert_tf.tasks.task import ExampleSet, Outputs
from albert_tf.training.finetuning_data import RecordSet

_LOGGER = logging.getLogger(__name__)

# Shorter runs are trials, and smaller sets say little; neither is compared.
LEAST_STEPS = 50
LEAST_RECORDS = 16
_FEW_EXAMPLES = 50
# Ranges of first scores that are no shares: correlations, the F1 of SQuAD.
_WIDTHS = {"pearson": 2.0, "matthews_correlation": 2.0, "f1": 100.0}


def compare_with_chance(
    records: RecordSet, outputs: Outputs
) -> Comparison | None:
    """Compares a model with chance; None where that is impossible.

    See `tasks.label_frequencies`.
    """
    if records.columns.num_records < LEAST_RECORDS:
        return None
    comparison = records.data.compare_with_chance(records.columns, outputs)
    return comparison if comparison and comparison.chance_loss else None


def warn_of(scores: Scores, evaluated: Sequence[ExampleSet]) -> None:
    """Warns of scores of the first set that hardly exceed their baselines.

    The 95% interval of a share of N examples is at most 1 / sqrt(N) wide on
    each side, that of a correlation twice as wide.
    """
    if not evaluated:
        return
    if problem := scores.verdict():
        _LOGGER.warning("%s", problem)
        return
    num_examples = len(evaluated[0].examples)
    metric = evaluated[0].data.primary_metric
    margin = _WIDTHS.get(metric, 1.0) / math.sqrt(num_examples)
    baseline = scores.baselines.get(metric, -math.inf)
    if num_examples < _FEW_EXAMPLES or scores[metric] < baseline + margin:
        _LOGGER.warning(
            "Only %d examples were evaluated: on others, %s may be %.2g higher "
            "or lower.",
            num_examples,
            metric,
            margin,
        )
