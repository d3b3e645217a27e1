"""A run as one web page: facts, charts, tables; no network, no scripts.

Data flow: log, scores and outputs of a run -> [this file] -> report.html.
NumPy; matplotlib and Jinja2 are imported when a page is written.
"""

import dataclasses
import io
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import special
from sklearn import metrics

from albert_tf import files
from albert_tf.checkpoints import run_checkpoints
from albert_tf.training import chance
from albert_tf.training.run_config import RunConfig

FILE_NAME = "report.html"
# In the results of several seeds: the scores of each seed, and for a seed
# without a result the reason.
SEEDS_KEY = "seeds"
FAILED_SEEDS_KEY = "failed_seeds"
MAX_ERRORS = 20

_TEMPLATE_FILE = "report.html.jinja2"
_MAX_TEXT_CHARACTERS = 300
_EVAL = "eval_"
_LOSS = "loss"
# Counts, thresholds, and scores of single classes, of which there are many.
_DETAILS = re.compile(r"_of_|threshold|^num_|_step$|_seed$|seeds$|_baseline$")
# Logged by evaluations, but not on the scale of the scores.
_NOT_SCORES = re.compile(rf"{_LOSS}$|error$|{_DETAILS.pattern}")
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
class Table:
    """Rows of plain text under a title."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


Section = Chart | Table


def write(
    path: files.Path,
    *,
    title: str,
    facts: Mapping[str, object],
    sections: Sequence[Section],
    results: Mapping[str, Any] | None = None,
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
        results=results or {},
        metric=metric,
        evaluated=evaluated,
        advice=chance.verdict(results or {}),
        is_detail=_DETAILS.search,
        draw=_draw,
        text=_text,
    )
    files.write_text(path, page)


def write_run(
    config: RunConfig,
    *,
    title: str,
    evaluated: str,
    results: Mapping[str, Any],
    logs: Mapping[str, LogLines],
    primary_metric: str,
    sections: Sequence[Section] = (),
) -> None:
    """Writes the report of a run, with scores on what was `evaluated`.

    The results of several seeds are medians, beside `SEEDS_KEY` (scores by
    seed) and `FAILED_SEEDS_KEY` (reasons by seed). `logs` are the lines of
    `metrics.jsonl` by seed; `{"": lines}` for a run without seeds.
    """
    if list(logs) == [""]:
        [lines] = logs.values()
        keys = sorted({key for line in lines for key in line})
        evaluations = {
            key.removeprefix(_EVAL): points(lines, key)
            for key in keys
            if key.startswith(_EVAL) and not _NOT_SCORES.search(key)
        }
        losses = {k: points(lines, k) for k in keys if k.endswith(_LOSS)}
        unit = "score"
    else:
        losses, evaluations = (
            {f"seed {seed}": points(lines, key) for seed, lines in logs.items()}
            for key in (_LOSS, f"{_EVAL}{primary_metric}")
        )
        unit = primary_metric
    facts = {"flags": config.flags_text}
    kept = run_checkpoints.flags_of(config.output_dir)
    if kept and kept != config.flags_text:
        facts["flags of the training"] = kept
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
    return Chart(**values) if "curves" in values else Table(**values)


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
        predictions = logits.reshape(-1)
        order = np.argsort(-np.abs(predictions - labels), kind="stable")
        columns = {
            name: [f"{value:.3f}" for value in values]
            for name, values in (("label", labels), ("prediction", predictions))
        }
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
    of_label = probabilities[np.arange(len(labels)), labels]
    (wrong,) = np.nonzero(predictions != labels)
    order = wrong[np.argsort(of_label[wrong], kind="stable")]
    columns = {
        "label": [names[label] for label in labels],
        "prediction": [names[label] for label in predictions],
        "label's probability": [f"{value:.4f}" for value in of_label],
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
