"""A run as one web page: facts, charts, tables; no network, no scripts.

Data flow: log, scores and outputs of a run -> [this file] -> report.html.
NumPy; matplotlib and Jinja2 are imported when a page is written.
"""

import dataclasses
import io
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf import files
from albert_tf.checkpoints import run_checkpoints
from albert_tf.metrics.scores import Role, Scores
from albert_tf.training.run_config import RunConfig

FILE_NAME = "report.html"
# In the results of several seeds: the scores of each seed, and for a seed
# without a result the reason.
SEEDS_KEY = "seeds"
FAILED_SEEDS_KEY = "failed_seeds"

_TEMPLATE_FILE = "report.html.jinja2"
_EVAL = "eval_"
_LOSS = "loss"
# Small, so that its text is large enough on a phone.
_SIZE_INCHES = (6.0, 3.0)
_LEGEND_COLUMNS = 2

Points = Sequence[tuple[float, float]]
LogLines = Sequence[Mapping[str, Any]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chart:
    """Curves that share one vertical axis, whose label is the unit.

    Points are `(step, value)`, in order of step; values that are not finite are
    left out.
    """

    title: str
    unit: str
    curves: Mapping[str, Points]
    x_label: str = "step"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReportTable:
    """Rows of plain text under a title."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


Section = Chart | ReportTable


@dataclasses.dataclass(frozen=True, kw_only=True)
class SeedResults:
    """The results of a run.

    Args:
        scores: Those of the run; with several seeds, the medians.
        by_seed: Those of each seed that has finished.
        failures: Why a seed is not in the medians.
    """

    scores: Scores = Scores()
    by_seed: Mapping[int, Scores] = dataclasses.field(default_factory=dict)
    failures: Mapping[int, str] = dataclasses.field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Returns the content of `eval_results.json`."""
        values: dict[str, Any] = self.scores.flat()
        if self.by_seed:
            values[SEEDS_KEY] = {
                str(seed): {"degenerate": 0.0, **scores.flat()}
                for seed, scores in self.by_seed.items()
            }
            values[FAILED_SEEDS_KEY] = {
                str(seed): reason for seed, reason in self.failures.items()
            }
        return values


_NO_RESULTS = SeedResults()


def write(
    path: files.Path,
    *,
    title: str,
    facts: Mapping[str, object],
    sections: Sequence[Section],
    results: SeedResults = _NO_RESULTS,
    metric: str = "",
    evaluated: str = "",
) -> None:
    """Writes a page that opens without a network, whole or not at all.

    It begins with the results, if there are any: how good a `metric` is on what
    was `evaluated`. The facts, what was run, come last, folded. Floats are
    shown with six significant digits.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(os.path.dirname(__file__)),
        autoescape=True,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    page = environment.get_template(_TEMPLATE_FILE).render(
        title=title,
        facts=facts,
        sections=sections,
        results=results,
        metric=metric,
        evaluated=evaluated,
        advice=results.scores.verdict(),
        draw=_draw,
        text=_text,
    )
    files.write_text(path, page)


def write_run(
    config: RunConfig,
    *,
    title: str,
    evaluated: str,
    results: SeedResults,
    logs: Mapping[str, LogLines],
    primary_metric: str,
    sections: Sequence[Section] = (),
) -> None:
    """Writes the report of a run, with scores on what was `evaluated`.

    `logs` are the lines of `metrics.jsonl` by seed; `{"": lines}` for a run
    without seeds.
    """
    metric = config.best_metric or primary_metric
    if list(logs) == [""]:
        [lines] = logs.values()
        keys = sorted({key for line in lines for key in line})
        # Errors and losses are not on the scale of the scores.
        names = {s.key for s in results.scores if s.role is Role.SCORE}
        evaluations = {
            key.removeprefix(_EVAL): points(lines, key)
            for key in keys
            if key.startswith(_EVAL)
            and key.removeprefix(_EVAL) in {*names, metric}
        }
        losses = {k: points(lines, k) for k in keys if k.endswith(_LOSS)}
        unit = "score"
    else:
        losses, evaluations = (
            {f"seed {seed}": points(lines, key) for seed, lines in logs.items()}
            for key in (_LOSS, f"{_EVAL}{metric}")
        )
        unit = metric
    facts = {"flags": config.flags_text}
    written = run_checkpoints.flags_of(config.output_dir)
    if written and written != config.flags_text:
        facts["flags of the training"] = written
    run = run_checkpoints.read_fingerprint(config.output_dir)
    write(
        os.path.join(config.output_dir, FILE_NAME),
        title=title,
        facts=facts | run,
        results=results,
        metric=primary_metric,
        evaluated=evaluated,
        sections=[
            Chart(title="Loss", unit=_LOSS, curves=losses),
            Chart(title="Evaluations", unit=unit, curves=evaluations),
            *sections,
        ],
    )


def section_of(values: Mapping[str, Any]) -> Section:
    """Returns the section that a task describes; see `TaskData`."""
    return Chart(**values) if "curves" in values else ReportTable(**values)


def points(lines: LogLines, key: str) -> list[tuple[float, float]]:
    """Returns the values of a key in a run's log, by step.

    >>> points([{"step": 1, "loss": 2.5}, {"step": 2}], "loss")
    [(1, 2.5)]
    """
    return [(x["step"], x[key]) for x in lines if x.get(key) is not None]


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _draw(chart: Chart) -> str:
    """Returns a chart as an SVG element, or a note that it is empty."""
    curves = {name: _finite(curve) for name, curve in chart.curves.items()}
    if not any(steps.size for steps, _ in curves.values()):
        return "<p>No values were logged.</p>"
    import matplotlib

    # Not pyplot, which keeps figures in a global state.
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
    axes = figure.add_subplot(xlabel=chart.x_label, ylabel=chart.unit)
    axes.grid(axis="y", alpha=0.5)
    for name, (steps, values) in curves.items():
        marker = "o" if len(steps) == 1 else ""
        axes.plot(steps, values, marker=marker, label=name)
    figure.legend(
        loc="outside upper left", ncols=_LEGEND_COLUMNS, frameon=False
    )
    svg = io.StringIO()
    # Text stays text. The ids of the drawing's parts are digests with this
    # salt, so that those of two charts differ.
    settings: dict[Any, str] = {
        "svg.fonttype": "none",
        "svg.hashsalt": chart.title,
    }
    # Empty, or they would hold the time and the version of matplotlib.
    metadata = dict.fromkeys(["Creator", "Date", "Format", "Type"])
    with matplotlib.rc_context(settings):
        figure.savefig(svg, format="svg", metadata=metadata)
    text = svg.getvalue()
    return text[text.index("<svg") :]


def _finite(curve: Points) -> np.ndarray:
    """Returns the steps and the values of the finite points, `[2, N]`."""
    pairs = np.array(curve, np.float64).reshape(-1, 2)
    return pairs[np.isfinite(pairs[:, 1])].T
