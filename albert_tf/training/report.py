"""A run as one web page: facts, charts, tables; no network, no scripts.

Data flow: log, scores and outputs of a run -> [this file] -> report.html.
Floor: training. NumPy; matplotlib and Jinja2 are imported when a page is
written.
"""

import collections
import dataclasses
import io
import math
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
_NOT_SCORES = frozenset(
    ["constant_predictions", "mean_squared_error", "null_threshold"]
)

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
    """Curves that share one vertical axis.

    Args:
        title: What the curves show.
        unit: Label of the vertical axis.
        curves: Points `(step, value)` by name, in order of step. Values that
            are not finite are left out.
        x_label: Label of the horizontal axis.
        faint_curves: Points of unnamed curves drawn behind the others.
    """

    title: str
    unit: str
    curves: Mapping[str, Points]
    x_label: str = "step"
    faint_curves: Sequence[Points] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bars:
    """A bar chart.

    Args:
        title: What the bars show.
        unit: Label of the vertical axis.
        bars: Finite values of at least 0 by name, in this order.
        x_label: Label of the horizontal axis.
    """

    title: str
    unit: str
    bars: Mapping[str, float]
    x_label: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of text under a title.

    Args:
        title: What the rows show.
        header: Names of the columns; empty for a table of facts.
        rows: Cells as plain text, as many as the header has (if any).
    """

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

    Args:
        path: The file, usually `<output_dir>/report.html`.
        title: Heading of the page.
        facts: What was run and what came out, by name; shown first. Floats
            are shown with six significant digits.
        sections: Shown below the facts, in this order.
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

    Args:
        output_dir: Folder of the run.
        task_name: Name of the task.
        facts: About the data and the training, shown first.
        results: Scores of the run. Those of several seeds are medians, beside
            `SEEDS_KEY` (scores by seed) and `FAILED_SEEDS_KEY` (reasons by
            seed).
        logs: Lines of `metrics.jsonl` by seed; `{"": lines}` for a run
            without seeds.
        primary_metric: Key of the score that chooses the best weights.
        sections: Shown below the curves and the scores of the seeds.
    """
    scores = {
        f"{key} (median)" if f"{key}_std" in results else key: value
        for key, value in results.items()
        if not isinstance(value, Mapping)
    }
    write(
        os.path.join(output_dir, FILE_NAME),
        title=f"Fine-tuning: {task_name}",
        facts={**facts, **scores},
        sections=[
            *_finetuning_charts(logs, primary_metric),
            *_seed_tables(results),
            *sections,
        ],
    )


def section_of(values: Mapping[str, Any]) -> Section:
    """Returns the section that a task describes; see `TaskData`."""
    kinds = {"curves": Chart, "bars": Bars, "rows": Table}
    return next(kinds[key](**values) for key in kinds if key in values)


def length_histogram(lengths: np.ndarray) -> Bars:
    """Returns a bar chart of the number of tokens per record.

    Args:
        lengths: Int `[N]`, at least 1.
    """
    width = max(1, -(-int(lengths.max()) // NUM_LENGTH_BINS))
    counts = np.bincount((lengths - 1) // width)
    return Bars(
        title="Lengths of the evaluated records",
        unit="records",
        bars={
            str((number + 1) * width): float(count)
            for number, count in enumerate(counts)
        },
        x_label="tokens, at most",
    )


def prediction_sections(
    examples: Sequence[Any],
    labels: np.ndarray,
    logits: np.ndarray,
    label_names: Sequence[str] = (),
) -> list[Section]:
    """Returns a confusion matrix and the worst errors, or only the latter.

    Args:
        examples: Dataclasses with a `guid`; their strings are shown.
        labels: `[N]`.
        logits: `[N, K]`; `[N]` or `[N, 1]` for a regression, which has no
            confusion matrix.
        label_names: Names of the K classes; numbers if there are not K.
    """
    if logits.ndim == 1 or logits.shape[-1] == 1:
        numbers = logits.reshape(-1)
        order = np.argsort(-np.abs(numbers - labels), kind="stable")
        shown = {"label": labels, "prediction": numbers}
        columns = {k: [f"{x:.3f}" for x in v] for k, v in shown.items()}
        return [_error_table("The largest errors", examples, order, columns)]
    names = label_names
    if len(names) != logits.shape[-1]:
        names = list(map(str, range(logits.shape[-1])))
    predictions = np.argmax(logits, axis=-1)
    classes = range(len(names))
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


def _error_table(
    title: str,
    examples: Sequence[Any],
    order: np.ndarray,
    columns: Mapping[str, Sequence[str]],
) -> Table:
    return Table(
        title=title,
        header=("id", "text", *columns),
        rows=[
            (*_described(examples[i]), *(c[i] for c in columns.values()))
            for i in order[:MAX_ERRORS]
        ],
    )


def _described(example: Any) -> tuple[str, str]:
    """Returns the id of an example and its text, cut short."""
    values = [
        getattr(example, field.name)
        for field in dataclasses.fields(example)
        if field.name not in ("guid", "label")
    ]
    text = " | ".join(v for v in values if v and isinstance(v, str))
    if len(text) > _MAX_TEXT_CHARACTERS:
        text = f"{text[: _MAX_TEXT_CHARACTERS - 1]}…"
    return str(example.guid), text


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


def _finetuning_charts(
    logs: Mapping[str, LogLines], primary_metric: str
) -> list[Section]:
    """Returns loss and scores over the steps.

    With seeds, only the primary metric is shown: a faint curve for each seed
    and their median.
    """
    if list(logs) != [""]:
        lines = list(logs.values())
        key = f"{_EVAL}{primary_metric}"
        return [
            _chart_of_seeds("Training loss", "loss", lines, "loss"),
            _chart_of_seeds("Evaluations", primary_metric, lines, key),
        ]
    keys = {key for line in logs[""] for key in line if key.startswith(_EVAL)}
    names = sorted({key.removeprefix(_EVAL) for key in keys} - _NOT_SCORES)
    scores = {name: points(logs[""], f"{_EVAL}{name}") for name in names}
    loss = {"loss": points(logs[""], "loss")}
    return [
        Chart(title="Training loss", unit="loss", curves=loss),
        Chart(title="Evaluations", unit="score", curves=scores),
    ]


def _chart_of_seeds(
    title: str, unit: str, logs: Sequence[LogLines], key: str
) -> Chart:
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


def points(lines: LogLines, key: str) -> list[tuple[float, float]]:
    """Returns the values of a key in a run's log, by step.

    >>> points([{"step": 1, "loss": 2.5}, {"step": 2}], "loss")
    [(1, 2.5)]
    """
    return [(x["step"], x[key]) for x in lines if x.get(key) is not None]


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _draw_chart(chart: Chart) -> str:
    """Returns the SVG of a line chart, or a note that it is empty."""
    curves = {name: _finite(curve) for name, curve in chart.curves.items()}
    faint_curves = [_finite(curve) for curve in chart.faint_curves]
    if not any(steps for steps, _ in (*curves.values(), *faint_curves)):
        return _EMPTY
    figure, axes = _figure(chart.unit, chart.x_label)
    for steps, values in faint_curves:
        axes.plot(steps, values, "-", color=_INK, alpha=0.3, linewidth=1)
    axes.set_prop_cycle(color=_COLORS, linestyle=_DASHES)
    lines = []
    for steps, values in curves.values():
        marker = "o" if len(steps) == 1 else ""
        lines += axes.plot(steps, values, marker=marker, linewidth=1.8)
    longest = max(map(len, curves), default=0)
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
    for text, name in zip(legend.get_texts(), curves, strict=True):
        text.set(text=name, parse_math=False)
    return _svg(figure, chart.title)


def _draw_bars(chart: Bars) -> str:
    """Returns the SVG of a bar chart, or a note that it is empty."""
    names, values = list(chart.bars), list(chart.bars.values())
    if not names:
        return _EMPTY
    figure, axes = _figure(chart.unit, chart.x_label)
    axes.bar(range(len(names)), values, color=_COLORS[0])
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


def _finite(curve: Points) -> tuple[list[float], list[float]]:
    """Returns the steps and the values of the finite points."""
    kept = [point for point in curve if math.isfinite(point[1])]
    return [step for step, _ in kept], [value for _, value in kept]
