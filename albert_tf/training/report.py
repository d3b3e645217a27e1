"""A run as one web page: facts, charts, tables; no network, no scripts.

Data flow: log, scores and outputs of a run -> [this file] -> report.html.
NumPy; matplotlib and Jinja2 are imported when a page is written.
"""

import collections
import dataclasses
import io
import os
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import special
from sklearn import metrics

from albert_tf import files

FILE_NAME = "report.html"
# In the results of several seeds: the scores of each seed, and for a seed
# without a result the reason.
SEEDS_KEY = "seeds"
FAILED_SEEDS_KEY = "failed_seeds"
MAX_ERRORS = 20
NUM_LENGTH_BINS = 16
MAX_BAR_NAMES = 16

_TEMPLATE_FILE = "report.html.jinja2"
_EMPTY = "<p>No values were logged.</p>"
_MAX_TEXT_CHARACTERS = 300
_EVAL = "eval_"
# Logged by evaluations, but not on the scale of the scores.
_NOT_SCORES = frozenset(["loss", "mean_squared_error", "null_threshold"])

_SIZE_INCHES = (7.5, 3.2)
# Okabe and Ito's colours, which colour-blind readers can tell apart, with
# dashes for prints in grey.
_COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"]
_COLORS += ["#e69f00", "#56b4e9", "#7f6a00", "#888888"]
_DASHES = ["-", "--", ":", "-."] * 2
# Drawn in these colours, which are then replaced by those of the page, light
# or dark.
_INK, _RULE = "#010203", "#040506"

Points = Sequence[tuple[float, float]]
LogLines = Sequence[Mapping[str, Any]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chart:
    """Curves that share one vertical axis, whose label is the unit.

    Points are `(step, value)`, in order of step; values that are not finite are
    left out. Faint curves are drawn behind the others and have no name.
    """

    title: str
    unit: str
    curves: Mapping[str, Points]
    x_label: str = "step"
    faint_curves: Sequence[Points] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bars:
    """A bar chart of finite values of at least 0, by name."""

    title: str
    unit: str
    bars: Mapping[str, float]
    x_label: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of plain text under a title; facts have an empty header."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


Section = Chart | Bars | Table


def write(
    path: files.Path,
    *,
    title: str,
    facts: Mapping[str, object],
    sections: Sequence[Section],
) -> None:
    """Writes a page that opens without a network, whole or not at all.

    The facts, what was run and what came out, come first; floats are shown with
    six significant digits.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(os.path.dirname(__file__)),
        autoescape=True,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    rows = [(name, _shown(value)) for name, value in facts.items()]
    about = Table(title="The run", header=(), rows=rows)
    page = environment.get_template(_TEMPLATE_FILE).render(
        title=title,
        sections=[about, *sections],
        draw_chart=_draw_chart,
        draw_bars=_draw_bars,
    )
    files.write_text(path, page)


def write_finetuning(
    output_dir: str,
    *,
    task_name: str,
    facts: Mapping[str, object],
    results: Mapping[str, Any],
    logs: Mapping[str, LogLines],
    primary_metric: str,
    sections: Sequence[Section] = (),
) -> None:
    """Writes the report of a fine-tuning run to its folder.

    The results of several seeds are medians, beside `SEEDS_KEY` (scores by
    seed) and `FAILED_SEEDS_KEY` (reasons by seed). `logs` are the lines of
    `metrics.jsonl` by seed; `{"": lines}` for a run without seeds.
    """
    scores = {
        f"{key} (median)" if f"{key}_std" in results else key: value
        for key, value in results.items()
        if not isinstance(value, Mapping)
    }
    if list(logs) == [""]:
        charts = _charts_of_run(logs[""])
    else:
        lines, score = list(logs.values()), f"{_EVAL}{primary_metric}"
        charts = [
            _chart_of_seeds("Training loss", "loss", lines, "loss"),
            _chart_of_seeds("Evaluations", primary_metric, lines, score),
        ]
    write(
        os.path.join(output_dir, FILE_NAME),
        title=f"Fine-tuning: {task_name}",
        facts={**facts, **scores},
        sections=[*charts, *_seed_tables(results), *sections],
    )


def section_of(values: Mapping[str, Any]) -> Section:
    """Returns the section that a task describes; see `TaskData`."""
    kinds = {"curves": Chart, "bars": Bars, "rows": Table}
    return next(kinds[key](**values) for key in kinds if key in values)


def length_histogram(lengths: np.ndarray) -> Bars:
    """Counts records by their number of tokens, int `[N]`, at least 1."""
    width = max(1, -(-int(lengths.max()) // NUM_LENGTH_BINS))
    counts = np.bincount((lengths - 1) // width)
    return Bars(
        title="Lengths of the evaluated records",
        unit="records",
        bars={str((i + 1) * width): float(n) for i, n in enumerate(counts)},
        x_label="tokens, at most",
    )


def prediction_sections(
    examples: Sequence[Any],
    labels: np.ndarray,
    logits: np.ndarray,
    label_names: Sequence[str] = (),
) -> list[Section]:
    """Returns a confusion matrix and the worst errors, or only the latter.

    The examples are dataclasses with a `guid`, whose strings are shown; labels
    are `[N]`, logits `[N, K]`, or `[N]` or `[N, 1]` of a regression, which has
    no confusion matrix. Classes are numbered unless there are K names. Labels
    `[N, K]`, of rows with several, have neither.
    """
    if labels.ndim > 1:
        return []
    if logits.ndim == 1 or logits.shape[-1] == 1:
        numbers = logits.reshape(-1)
        order = np.argsort(-np.abs(numbers - labels), kind="stable")
        shown = {"label": labels, "prediction": numbers}
        columns = {k: [f"{x:.3f}" for x in v] for k, v in shown.items()}
        return [_error_table("The largest errors", examples, order, columns)]
    classes = range(logits.shape[-1])
    names = label_names
    if len(names) != len(classes):
        names = list(map(str, classes))
    predictions = np.argmax(logits, axis=-1)
    counts = metrics.confusion_matrix(labels, predictions, labels=classes)
    confusions = Table(
        title="Labels (rows) and predictions (columns)",
        header=("", *names),
        rows=[
            (name, *map(str, row))
            for name, row in zip(names, counts.tolist(), strict=True)
        ],
    )
    probabilities = special.softmax(logits.astype(np.float64), axis=-1)
    own = probabilities[np.arange(len(labels)), labels]
    (wrong,) = np.nonzero(predictions != labels)
    order = wrong[np.argsort(own[wrong], kind="stable")]
    columns = {
        "label": [names[label] for label in labels],
        "prediction": [names[label] for label in predictions],
        "label's probability": [f"{probability:.4f}" for probability in own],
    }
    title = f"The worst of {len(wrong)} errors"
    return [confusions, _error_table(title, examples, order, columns)]


def points(lines: LogLines, key: str) -> list[tuple[float, float]]:
    """Returns the values of a key in a run's log, by step.

    >>> points([{"step": 1, "loss": 2.5}, {"step": 2}], "loss")
    [(1, 2.5)]
    """
    return [(x["step"], x[key]) for x in lines if x.get(key) is not None]


def _error_table(
    title: str,
    examples: Sequence[Any],
    order: np.ndarray,
    columns: Mapping[str, Sequence[str]],
) -> Table:
    rows = []
    for i in order[:MAX_ERRORS]:
        values = dataclasses.asdict(examples[i])
        guid = str(values.pop("guid"))
        values.pop("label", None)
        text = " | ".join(
            v for v in values.values() if v and isinstance(v, str)
        )
        if len(text) > _MAX_TEXT_CHARACTERS:
            text = f"{text[: _MAX_TEXT_CHARACTERS - 1]}…"
        rows.append((guid, text, *(column[i] for column in columns.values())))
    return Table(title=title, header=("id", "text", *columns), rows=rows)


def _seed_tables(results: Mapping[str, Any]) -> list[Section]:
    seeds = results.get(SEEDS_KEY)
    if not seeds:
        return []
    names = list(next(iter(seeds.values())))
    scores = Table(
        title="Scores by seed",
        header=("seed", *names),
        rows=[
            (seed, *(_shown(own[name]) for name in names))
            for seed, own in seeds.items()
        ],
    )
    failed = Table(
        title="Failed seeds, which no score includes",
        header=("seed", "reason"),
        rows=list(results.get(FAILED_SEEDS_KEY, {}).items()),
    )
    return [scores, failed] if failed.rows else [scores]


def _charts_of_run(lines: LogLines) -> list[Section]:
    keys = {key for line in lines for key in line if key.startswith(_EVAL)}
    names = {key.removeprefix(_EVAL) for key in keys} - _NOT_SCORES
    # Those of single classes would be too many curves.
    scores = {
        name: points(lines, f"{_EVAL}{name}")
        for name in sorted(names)
        if "_of_" not in name
    }
    loss = {"loss": points(lines, "loss")}
    return [
        Chart(title="Training loss", unit="loss", curves=loss),
        Chart(title="Evaluations", unit="score", curves=scores),
    ]


def _chart_of_seeds(
    title: str, unit: str, logs: Sequence[LogLines], key: str
) -> Chart:
    """Returns a faint curve for each seed, and their median."""
    curves = [curve for curve in (points(log, key) for log in logs) if curve]
    values: dict[float, list[float]] = collections.defaultdict(list)
    for step, value in (point for curve in curves for point in curve):
        values[step].append(value)
    median = [(x, statistics.median(y)) for x, y in sorted(values.items())]
    return Chart(
        title=f"{title}: {len(curves)} seeds and their median",
        unit=unit,
        curves={"median": median} if median else {},
        faint_curves=curves,
    )


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _draw_chart(chart: Chart) -> str:
    """Returns the SVG of a line chart, or a note that it is empty."""
    curves = list(map(_finite, chart.curves.values()))
    faint_curves = list(map(_finite, chart.faint_curves))
    if not any(steps.size for steps, _ in (*curves, *faint_curves)):
        return _EMPTY
    figure, axes = _figure(chart.unit, chart.x_label)
    for steps, values in faint_curves:
        axes.plot(steps, values, "-", color=_INK, alpha=0.3, linewidth=1)
    axes.set_prop_cycle(color=_COLORS, linestyle=_DASHES)
    lines = []
    for steps, values in curves:
        marker = "o" if len(steps) == 1 else ""
        lines += axes.plot(steps, values, marker=marker, linewidth=1.8)
    longest = max(map(len, chart.curves), default=0)
    legend = figure.legend(
        lines,
        [" "] * len(lines),
        loc="outside upper left",
        # A column takes about so many points, of 72 an inch.
        ncols=max(1, int(_SIZE_INCHES[0] * 72 / (55 + 5.5 * longest))),
        frameon=False,
        handlelength=3,
        labelcolor=_INK,
    )
    # Set here, because matplotlib reads `$` and `_` in labels as markup.
    for text, name in zip(legend.get_texts(), chart.curves, strict=True):
        text.set(text=name, parse_math=False)
    return _svg(figure, chart.title)


def _draw_bars(chart: Bars) -> str:
    if not chart.bars:
        return _EMPTY
    names = list(chart.bars)
    figure, axes = _figure(chart.unit, chart.x_label)
    axes.bar(range(len(names)), list(chart.bars.values()), color=_COLORS[0])
    shown = range(0, len(names), -(-len(names) // MAX_BAR_NAMES))
    axes.set_xticks(shown, [names[i] for i in shown], parse_math=False)
    return _svg(figure, chart.title)


def _figure(unit: str, x_label: str) -> tuple[Any, Any]:
    """Returns an empty matplotlib figure and its axes."""
    # Not pyplot, which keeps figures in a global state.
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
    axes = figure.add_subplot()
    axes.spines[:].set_visible(False)
    axes.grid(axis="y", color=_RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelcolor=_INK)
    axes.set_ylabel(unit, color=_INK, parse_math=False)
    axes.set_xlabel(x_label, color=_INK, parse_math=False)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    return figure, axes


def _svg(figure: Any, title: str) -> str:
    """Returns a figure as an SVG element that is the same each time."""
    import matplotlib

    # The ids of the drawing's parts are digests with this salt.
    settings: dict[Any, str] = {"svg.hashsalt": title, "svg.fonttype": "none"}
    # Empty, or they would hold the time and the version of matplotlib.
    metadata = dict.fromkeys(["Creator", "Date", "Format", "Type"])
    target = io.StringIO()
    with matplotlib.rc_context(settings):
        figure.savefig(
            target, format="svg", transparent=True, metadata=metadata
        )
    svg = target.getvalue()
    svg = svg[svg.index("<svg") :].strip()
    svg = svg.replace(_INK, "currentColor").replace(_RULE, "var(--rule)")
    # What the page has in its place or once for all drawings: fonts, a style
    # sheet, ids (`axes_1`) that nothing refers to.
    unused = r' id="[\w.]+_\d+"| font-family: [^;]*;|<style.*?</style>'
    return re.sub(unused, "", svg)


def _finite(curve: Points) -> np.ndarray:
    """Returns the steps and the values of the finite points, `[2, N]`."""
    pairs = np.array(curve, np.float64).reshape(-1, 2)
    return pairs[np.isfinite(pairs[:, 1])].T
