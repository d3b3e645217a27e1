"""Writes a web page about a run: facts, charts, tables; without scripts."""

import io
import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf import files
from albert_tf.checkpoints import run_checkpoints
from albert_tf.metrics.scores import Role, Scores
from albert_tf.observers import (
    metric_log,
    simple_alternative,
    token_frequencies,
)
from albert_tf.tasks import error_tables
from albert_tf.training import run_folder
from albert_tf.training.callbacks import (
    EVALUATION_PREFIX,
    Callback,
    Result,
)
from albert_tf.training.run_config import FinetuningConfig, RunConfig

_LOGGER = logging.getLogger(__name__)

FILE_NAME = "report.html"

_LOSS = "loss"
_DIGEST = re.compile("[0-9a-f]{16,}")
# Small, so that its text is large enough on a phone.
_SIZE_INCHES = (6.0, 3.0)

LogLines = Sequence[files.JsonObject]
# See `tasks.task_data.TaskData.report_sections`.
Section = files.JsonObject


class Report(Callback):
    """Writes `report.html` when a run has ended."""

    def on_end(
        self, result: Result | None, error: BaseException | None
    ) -> None:
        """Writes the report, unless a result of the directory is kept."""
        if result is None or not result.is_current:
            return
        run, config = self.run, self.run.config
        # Accuracies are easier to read than the losses that select weights.
        metric = run.metric.replace("loss", "accuracy")
        sections: list[Section] = []
        if run.sets and run.sets.evaluation:
            main = run.sets.evaluation[0]
            sections = [
                *error_tables.sections(
                    main.data, main.examples, result.outputs, result.scores
                )
            ]
        path = os.path.join(config.output_dir, FILE_NAME)
        write(
            path,
            title=run.title,
            facts=_facts(config),
            sections=[*_charts(config, metric, result.scores), *sections],
            result=result,
            metric=metric,
        )
        _LOGGER.info("report: %s", path)


def write(
    path: files.Path,
    *,
    title: str,
    facts: Mapping[str, object],
    sections: Sequence[Section],
    result: Result = Result(),  # noqa: B008
    metric: str = "",
) -> None:
    """Writes a page: the score of a `metric` first, folded `facts` last."""
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
        results=result,
        metric=metric,
        evaluation=result.evaluation or {},
        advice=result.scores.verdict(),
        alternative=simple_alternative.verdict(result.scores, metric)
        or token_frequencies.verdict(result.scores),
        draw=_draw,
        text=_text,
    )
    files.write_text(path, page)


def _charts(
    config: RunConfig, primary_metric: str, scores: Scores
) -> list[Section]:
    """Returns charts of the losses and of the evaluations in the log."""
    metric = config.best_metric or primary_metric
    folders: dict[str, str] = {}
    if isinstance(config, FinetuningConfig):
        folders = {
            f"seed {one.random_seed}": one.output_dir
            for one in config.seed_configs()
        } | {
            f"fold {number}": one.output_dir
            for number, one in enumerate(config.fold_configs())
        }
    if not folders:
        lines = metric_log.read_lines(config.output_dir)
        return _charts_of(lines, [*_names(scores), metric])
    losses, evaluations = (
        {
            name: points(metric_log.read_lines(folder), key)
            for name, folder in folders.items()
        }
        for key in (_LOSS, f"{EVALUATION_PREFIX}{metric}")
    )
    return [
        {"title": "Loss", "unit": _LOSS, "curves": losses},
        {"title": "Evaluations", "unit": metric, "curves": evaluations},
    ]


def _charts_of(lines: LogLines, names: Iterable[str]) -> list[Section]:
    """Returns charts of the losses, and of the scores with these names.

    Lines of several runs say which `run` they are of.
    """
    wanted = {f"{EVALUATION_PREFIX}{name}" for name in names}
    losses, evaluations = {}, {}
    for run in sorted({line.get("run", "") for line in lines}):
        own = [line for line in lines if line.get("run", "") == run]
        for key in sorted({key for line in own for key in line}):
            name = f"{run} {key.removeprefix(EVALUATION_PREFIX)}".strip()
            if key in wanted:
                evaluations[name] = points(own, key)
            if key.endswith(_LOSS):
                losses[f"{run} {key}".strip()] = points(own, key)
    return [
        {"title": "Loss", "unit": _LOSS, "curves": losses},
        {"title": "Evaluations", "unit": "score", "curves": evaluations},
    ]


class Curves:
    """Charts of the losses and evaluations of a log; notebooks show them.

    `str` returns them as elements of HTML.
    """

    def __init__(self, lines: LogLines, scores: Scores) -> None:
        self._sections = _charts_of(lines, _names(scores))

    def __str__(self) -> str:
        return "".join(map(_draw, self._sections))

    _repr_html_ = __str__


def _names(scores: Scores) -> list[str]:
    # Errors and losses are not on the scale of the scores.
    return [s.key for s in scores.entries if s.role is Role.SCORE]


def _facts(config: RunConfig) -> files.JsonObject:
    facts = {"flags": config.flags_text}
    written = run_checkpoints.flags_of(config.output_dir)
    if written and written != config.flags_text:
        facts["flags of the training"] = written
    fingerprint = run_folder.read_fingerprint(config.output_dir)
    shown: files.JsonObject = _without_digests(fingerprint)
    return facts | shown


def _without_digests(values: Any) -> Any:
    """Returns JSON without the digests in it, which tell a reader nothing."""
    if isinstance(values, Mapping):
        kept = {n: x for n, x in values.items() if not _is_digest(x)}
        return {name: _without_digests(x) for name, x in kept.items()}
    if isinstance(values, list):
        return [_without_digests(x) for x in values if not _is_digest(x)]
    return values


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and bool(_DIGEST.fullmatch(value))


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
    # salt, so that the ids of two charts differ.
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": chart["title"]}
    # Empty, or they would hold the time and the version of matplotlib.
    metadata = dict.fromkeys(["Creator", "Date", "Format", "Type"])
    with matplotlib.rc_context(settings):
        figure.savefig(svg, format="svg", metadata=metadata)
    text = svg.getvalue()
    return text[text.index("<svg") :]
