"""A run as one web page: facts, charts, tables; no network, no scripts."""

import dataclasses
import io
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf import files
from albert_tf.checkpoints import run_checkpoints
from albert_tf.metrics.scores import Role, Scores
from albert_tf.training import run_folder
from albert_tf.training.run_config import RunConfig

FILE_NAME = "report.html"

_EVAL = "eval_"
_LOSS = "loss"
# Small, so that its text is large enough on a phone.
_SIZE_INCHES = (6.0, 3.0)

LogLines = Sequence[Mapping[str, Any]]
# See `tasks.task.TaskData.report_sections`.
Section = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SeedResults:
    """The results of a run: with several seeds, the medians.

    `failures` says why a seed is not in the medians.
    """

    scores: Scores = Scores()
    by_seed: Mapping[int, Scores] = dataclasses.field(default_factory=dict)
    failures: Mapping[int, str] = dataclasses.field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Returns the content of `eval_results.json`."""
        values: dict[str, Any] = self.scores.flat()
        if self.by_seed:
            values[run_folder.SEEDS] = {
                str(seed): {"degenerate": 0.0, **scores.flat()}
                for seed, scores in self.by_seed.items()
            }
            values["failed_seeds"] = {
                str(seed): reason for seed, reason in self.failures.items()
            }
        return values


def write(
    path: files.Path,
    *,
    title: str,
    facts: Mapping[str, object],
    sections: Sequence[Section],
    results: SeedResults = SeedResults(),  # noqa: B008
    metric: str = "",
    evaluation: Mapping[str, Any] | None = None,
) -> None:
    """Writes a page: first how good a `metric` is in an `evaluation`.

    The latter is that of the metadata. The facts, what was run, come last,
    folded.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(os.path.dirname(__file__)),
        autoescape=True,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    page = environment.get_template("report.html.jinja2").render(
        title=title,
        facts=facts,
        sections=sections,
        results=results,
        metric=metric,
        evaluation=evaluation or {},
        advice=results.scores.verdict(),
        draw=_draw,
        text=_text,
    )
    files.write_text(path, page)


def write_run(
    config: RunConfig,
    *,
    title: str,
    evaluation: Mapping[str, Any] | None,
    results: SeedResults,
    logs: Mapping[str, LogLines],
    primary_metric: str,
    sections: Sequence[Section] = (),
) -> None:
    """Writes the report of a run, with the scores of an `evaluation`, if any.

    `logs` are the lines of `metrics.jsonl` by seed, or those of "" alone.
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
            if key in {f"{_EVAL}{name}" for name in (*names, metric)}
        }
        losses = {k: points(lines, k) for k in keys if k.endswith(_LOSS)}
        unit = "score"
    else:
        losses, evaluations = (
            {f"seed {seed}": points(lines, key) for seed, lines in logs.items()}
            for key in (_LOSS, f"{_EVAL}{metric}")
        )
        unit = metric
    charts = [
        {"title": "Loss", "unit": _LOSS, "curves": losses},
        {"title": "Evaluations", "unit": unit, "curves": evaluations},
    ]
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
        evaluation=evaluation,
        sections=[*charts, *sections],
    )


def points(lines: LogLines, key: str) -> list[tuple[float, float]]:
    """Returns the values of a key in a run's log, by step.

    >>> points([{"step": 1, "loss": 2.5}, {"step": 2}], "loss")
    [(1, 2.5)]
    """
    return [(x["step"], x[key]) for x in lines if x.get(key) is not None]


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _draw(chart: Section) -> str:
    """Returns a chart as an SVG element, or nothing if it has no points.

    Points are `(step, value)`; values that are not finite are left out.
    """
    curves = {}
    for name, curve in chart["curves"].items():
        pairs = np.array(curve, np.float64).reshape(-1, 2)
        curves[name] = pairs[np.isfinite(pairs[:, 1])].T
    if not any(steps.size for steps, _ in curves.values()):
        return ""
    import matplotlib

    # Not pyplot, which keeps figures in a global state.
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
    x_label = chart.get("x_label", "step")
    axes = figure.add_subplot(xlabel=x_label, ylabel=chart["unit"])
    axes.grid(axis="y", alpha=0.5)
    for name, (steps, values) in curves.items():
        marker = "o" if len(steps) == 1 else ""
        axes.plot(steps, values, marker=marker, label=name)
    figure.legend(loc="outside upper left", ncols=2, frameon=False)
    svg = io.StringIO()
    # Text stays text. The ids of the drawing's parts are digests with this
    # salt, so that those of two charts differ.
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": chart["title"]}
    # Empty, or they would hold the time and the version of matplotlib.
    metadata = dict.fromkeys(["Creator", "Date", "Format", "Type"])
    with matplotlib.rc_context(settings):
        figure.savefig(svg, format="svg", metadata=metadata)
    text = svg.getvalue()
    return text[text.index("<svg") :]
