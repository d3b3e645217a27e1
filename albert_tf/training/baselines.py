"""Says whether scores are better than without a model, and how sure that is."""

import logging
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from albert_tf import checks
from albert_tf.metrics.scores import Score, Scores
from albert_tf.tasks import label_frequencies
from albert_tf.tasks.label_frequencies import Comparison
from albert_tf.tasks.task import ExampleSet, Outputs
from albert_tf.training.finetuning_data import RecordSet

_LOGGER = logging.getLogger(__name__)

# Shorter runs are trials, and smaller sets say little; neither is compared.
LEAST_STEPS = 50
LEAST_RECORDS = 16
_FEW_EXAMPLES = 50
# Ranges of first scores that are no shares: correlations, or as a data half
# says.
_CORRELATIONS = ("pearson", "spearman", "matthews_correlation")
_WIDTHS = dict.fromkeys(_CORRELATIONS, 2.0)


def compare_with_chance(
    records: RecordSet, outputs: Outputs
) -> Comparison | None:
    """Compares a model with chance; None where that is impossible.

    The labels are the `start_positions` of records; or their `label_ids`, or
    `tag_ids` where they are not negative, which the `logits` are compared with.
    See `tasks.label_frequencies`.
    """
    columns, comparison = records.columns, None
    names = {spec.name for spec in columns.specs}
    if columns.num_records < LEAST_RECORDS:
        return None
    if "start_positions" in names:
        starts = columns.field("start_positions")
        comparison = label_frequencies.compare_starts(
            starts, columns.lengths, outputs
        )
    elif "label_ids" in names:
        comparison = label_frequencies.compare_labels(
            columns.field("label_ids"),
            np.asarray(outputs["logits"]),
            records.data.settings.get("class_weights", ()),
        )
    elif "tag_ids" in names:
        tag_ids = columns.values["tag_ids"]
        comparison = label_frequencies.compare_labels(
            tag_ids[tag_ids >= 0],
            np.concatenate(outputs["logits"])[tag_ids >= 0],
        )
    return comparison if comparison and comparison.chance_loss else None


def warn_of(scores: Scores, evaluated: Sequence[ExampleSet]) -> None:
    """Warns of scores of the first set that hardly exceed their baselines."""
    if not evaluated:
        return
    main = evaluated[0]
    metric, margin = main.data.primary_metric, _margin(main)
    baseline = scores.baselines.get(metric, -math.inf)
    if problem := scores.verdict():
        _LOGGER.warning("%s", problem)
    elif (
        len(main.examples) < _FEW_EXAMPLES or scores[metric] < baseline + margin
    ):
        _LOGGER.warning(
            "Only %d examples were evaluated: on others, %s may be %.2g higher "
            "or lower.",
            len(main.examples),
            metric,
            margin,
        )


def _margin(evaluated: ExampleSet) -> float:
    """Returns by how much the primary metric may be off, on each side.

    The 95% interval of a share of N examples is at most 1 / sqrt(N) wide on
    each side, that of a correlation twice as wide.
    """
    data = evaluated.data
    width = _WIDTHS.get(data.primary_metric, getattr(data, "score_range", 1.0))
    return width / math.sqrt(len(evaluated.examples))


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
        "margin": _margin(evaluated),
        "cautions": cautions,
        "scores": scores.flat(),
    }
