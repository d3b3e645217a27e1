"""The results of experiments as one HTML page, beside the paper's numbers."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.training import report
from experiments.experiment import Experiment

Results = Sequence[Mapping[str, Any]]
_HEADER = (
    "model",
    "parameters",
    "masked-LM loss",
    "accuracy",
    "order",
    "next sentence",
    "minutes",
    "seeds",
)


def by_name(results: Results) -> dict[str, list[Mapping[str, Any]]]:
    """Returns the results of all seeds by name of the variant."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for one in results:
        found.setdefault(one["name"], []).append(one)
    return found


def sections(experiment: Experiment, results: Results) -> list[report.Section]:
    """Returns the tables and the curves of an experiment."""
    groups = by_name(results)
    rows = [_row(name, runs) for name, runs in groups.items()]
    return [
        report.Table(
            title=f"{experiment.title}: here, on held-out text",
            header=_HEADER,
            rows=rows,
        ),
        report.Chart(
            title=f"{experiment.title}: curves of the first seed",
            unit="held-out masked-LM loss",
            curves={name: runs[0]["curve"] for name, runs in groups.items()},
        ),
        report.Table(
            title=f"{experiment.title}: the paper ({experiment.source})",
            header=experiment.paper_header,
            rows=[*experiment.paper_rows],
        ),
        report.Table(
            title=f"{experiment.title}: the claim and the commands",
            header=("what", "text"),
            rows=[
                ("the paper says", experiment.claim),
                *(
                    (f"{one['name']}, seed {one['seed']}", one["command"])
                    for one in results
                ),
            ],
        ),
    ]


def _row(name: str, runs: Results) -> tuple[str, ...]:
    def shown(objective: str, score: str, form: str) -> str:
        values = [
            run["scores"][objective][score]
            for run in runs
            if score in run["scores"].get(objective, {})
        ]
        if not values:
            return ""
        middle = format(statistics.median(values), form)
        if len(values) == 1:
            return middle
        low, high = format(min(values), form), format(max(values), form)
        return f"{middle} ({low} to {high})"

    return (
        name,
        f"{runs[0]['parameters']:,}",
        shown("sop", "masked_lm_loss", ".3f"),
        shown("sop", "masked_lm_accuracy", ".1%"),
        shown("sop", "sentence_order_accuracy", ".1%"),
        shown("nsp", "sentence_order_accuracy", ".1%"),
        f"{statistics.median(run['seconds'] for run in runs) / 60:.1f}",
        str(len(runs)),
    )
