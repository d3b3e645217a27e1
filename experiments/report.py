"""The results of experiments as one HTML page, beside the paper's numbers."""

import pathlib
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf import files
from albert_tf.observers import report
from experiments import downstream, layer_similarity, sizes
from experiments.experiment import LARGER_CLASS, Claim, Experiment, Score
from experiments.scales import Scale

Results = Sequence[Mapping[str, Any]]
# What knows word frequencies alone has less accuracy on masked words.
_PLATEAU = 0.1
# What guesses has half of two kinds of pairs right, and a little more by luck.
_CHANCE = 0.55
_HEADER = (
    "model",
    "parameters",
    "masked-LM loss",
    "accuracy",
    "order",
    "next sentence",
    "the larger class",
    "minutes of training",
    "seeds",
)


def write(
    folder: pathlib.Path,
    experiments: Mapping[str, Experiment],
    *,
    scale: Scale,
    facts: Mapping[str, str],
) -> None:
    """Writes report.html of all experiments whose results are in a folder."""
    found: list[report.Section] = []
    if (folder / sizes.FILE).exists():
        found += sizes_sections(files.read_json_object(folder / sizes.FILE))
    for name, experiment in experiments.items():
        path = folder / f"{name}.json"
        if path.exists():
            claims = experiment.claims(scale)
            found += sections(experiment, claims, files.read_json(path))
    if (folder / layer_similarity.FILE).exists():
        found += figure_sections(
            files.read_json(folder / layer_similarity.FILE)
        )
    report.write(
        folder / "report.html",
        title="The paper's experiments",
        facts=facts,
        sections=found,
    )


def by_label(results: Results) -> dict[str, list[Mapping[str, Any]]]:
    """Returns the results of all seeds by label of the model."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for one in results:
        found.setdefault(one["label"], []).append(one)
    return found


def verdict(claim: Claim, results: Results) -> str:
    """Returns whether a claim is seen: whether all seeds agree.

    >>> claim = Claim("b is better", Score("b"), Score("a"))
    >>> scores = {"sop": {"masked_lm_accuracy": 0.3}}
    >>> verdict(claim, [{"label": name, "scores": scores} for name in "ab"])
    'cannot be told from one seed: 30.0% and 30.0%'
    """
    above = _values(results, claim.above)
    below = _values(results, claim.below)
    labels = {claim.above.label, claim.below.label}
    learnt = [v for label in labels for v in _values(results, Score(label))]
    shown = f"{_range(above)} and {_range(below)}"
    if min(learnt, default=_PLATEAU) < _PLATEAU:
        return f"cannot be told from models that have learnt nothing: {shown}"
    pairs = _values(results, claim.basis) if claim.basis else []
    if min(pairs, default=1.0) < _CHANCE:
        return (
            f"cannot be told: {_range(pairs)} of the pairs it was trained on "
            f"are told apart, which is chance: {shown}"
        )
    if min(len(above), len(below)) < 2:
        return f"cannot be told from one seed: {shown}"
    if min(above) > max(below):
        return f"seen: {shown}"
    if max(above) < min(below):
        return f"not seen, but the contrary: {shown}"
    return f"cannot be told, within the spread of the seeds: {shown}"


def _values(results: Results, score: Score) -> list[float]:
    return [
        one["scores"][score.pairs][score.name]
        for one in results
        if one["label"] == score.label
        and score.name in one["scores"].get(score.pairs, {})
    ]


def _range(values: Sequence[float], form: str = ".1%") -> str:
    if not values:
        return ""
    middle = format(statistics.median(values), form)
    if len(values) == 1:
        return middle
    return f"{middle} ({min(values):{form}} to {max(values):{form}})"


def sections(
    experiment: Experiment, claims: Sequence[Claim], results: Results
) -> list[report.Section]:
    """Returns the tables and the curves of an experiment."""
    groups = by_label(results)
    return [
        {
            "title": f"{experiment.title}: here, on held-out text",
            "header": _HEADER,
            "rows": [
                _row(label, results, experiment.pairs[0]) for label in groups
            ],
        },
        *task_tables(experiment, groups),
        {
            "title": f"{experiment.title}: claims",
            "header": ("claim", "here"),
            "rows": [(one.text, verdict(one, results)) for one in claims],
        },
        *paper_tables(experiment),
        {
            "title": f"{experiment.title}: curves of the first seed",
            "unit": "held-out masked-LM loss",
            "curves": {
                label: runs[0]["curve"] for label, runs in groups.items()
            },
        },
        {
            "title": f"{experiment.title}: commands",
            "header": ("model", "seed", "commit", "command"),
            "rows": [
                (one["label"], str(one["seed"]), one["commit"], line)
                for one in results
                for line in (
                    *one["commands"].splitlines(),
                    *(task["command"] for task in one["tasks"].values()),
                )
            ],
        },
    ]


def paper_tables(experiment: Experiment) -> list[report.Section]:
    """Returns what the paper has; nothing if that is nothing."""
    if not experiment.paper_rows:
        return []
    return [
        {
            "title": f"{experiment.title}: the paper ({experiment.source})",
            "header": experiment.paper_header,
            "rows": [*experiment.paper_rows],
        }
    ]


def task_tables(
    experiment: Experiment, groups: Mapping[str, Results]
) -> list[report.Section]:
    """Returns the scores after fine-tuning; nothing if there are none."""
    names = [*next(iter(groups.values()))[0]["tasks"]]
    if not names:
        return []
    return [
        {
            "title": f"{experiment.title}: after fine-tuning, medians of "
            f"{downstream.NUM_SEEDS} seeds each",
            "header": (
                "model",
                *(f"{name}: {downstream.score_name(name)}" for name in names),
            ),
            "rows": [
                (
                    label,
                    *(
                        _range([run["tasks"][name]["score"] for run in runs])
                        for name in names
                    ),
                )
                for label, runs in groups.items()
            ],
        }
    ]


def _row(label: str, results: Results, pairs: str) -> tuple[str, ...]:
    runs = [one for one in results if one["label"] == label]

    def shown(name: str, form: str = ".1%", pairs: str = pairs) -> str:
        return _range(_values(results, Score(label, name, pairs)), form)

    return (
        label,
        f"{runs[0]['parameters']:,}",
        shown("masked_lm_loss", ".3f"),
        shown("masked_lm_accuracy"),
        shown("sentence_order_accuracy"),
        shown("sentence_order_accuracy", pairs="nsp"),
        shown(LARGER_CLASS, pairs="nsp"),
        f"{statistics.median(run['seconds'] for run in runs) / 60:.1f}",
        str(len(runs)),
    )


def sizes_sections(found: dict[str, Any]) -> list[report.Section]:
    """Returns the table of sizes beside the paper's."""
    reference = found[sizes.REFERENCE]
    return [
        {
            "title": f"Sizes: speeds relative to BERT-large, steps of "
            f"{sizes.BATCH} x {sizes.LENGTH} tokens",
            "header": (
                "model",
                "parameters",
                "paper",
                "speed of a step here",
                "by operations",
                "paper",
                "command",
            ),
            "rows": [
                (
                    name,
                    f"{one['parameters']:,}",
                    sizes.PAPER[name][0],
                    f"{reference['step_seconds'] / one['step_seconds']:.2f}",
                    f"{reference['flops'] / one['flops']:.2f}",
                    f"{sizes.PAPER[name][1]:.1f}",
                    one["command"],
                )
                for name, one in found.items()
            ],
        }
    ]


def figure_sections(found: Sequence[dict[str, Any]]) -> list[report.Section]:
    """Returns the figure of the first seed, and how smooth all seeds are."""
    title = layer_similarity.EXPERIMENT.title
    charts = [
        {
            "title": f"{title}: {shown} by layer, first seed",
            "unit": shown,
            "curves": {
                label: [*enumerate(curves[name], 1)]
                for label, curves in found[0].items()
            },
        }
        for name, shown in layer_similarity.MEASURES.items()
    ]
    rows = [
        (label, shown, str(len(found)), _roughness(found, label, name))
        for name, shown in layer_similarity.MEASURES.items()
        for label in layer_similarity.LABELS
    ]
    table = {
        "title": f"{title}: change from layer to layer, relative to the mean",
        "header": ("shared", "measure", "seeds", "change"),
        "rows": rows,
    }
    return [*charts, table]


def _roughness(found: Sequence[dict[str, Any]], label: str, name: str) -> str:
    values = [layer_similarity.roughness(one[label][name]) for one in found]
    return ", ".join(f"{value:.2f}" for value in values)
