"""A run as one web page: facts, curves, tables; no network, no scripts.

Data flow: metrics of a run -> [this file] -> report.html.
Floor: training. Plain Python.
"""

import dataclasses
import html
import math
from collections.abc import Iterator, Mapping, Sequence

from albert_tf import files

WIDTH, HEIGHT = 720, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 16, 44
# Of the names of the curves, which stand above them.
LEGEND_ROW, LEGEND_COLUMNS = 20, 3
NUM_TICKS = 5
MAX_BAR_NAMES = 16

# Okabe and Ito's colours, which colour-blind readers tell apart, with dashes
# for those who print in grey.
_STROKES = (
    ("#0072b2", ""),
    ("#d55e00", "7 4"),
    ("#009e73", "2 3"),
    ("#cc79a7", "9 3 2 3"),
    ("#e69f00", "12 4"),
    ("#56b4e9", "4 2"),
    ("#7f6a00", "6 2 2 2"),
    ("#888888", "1 2"),
)

_FAINT = 'class="curve faint"'

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1c; --paper: #fdfdfd;
  --rule: #d5d5d5; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6e6; --paper: #16181b; --rule: #44484d; } }
body { color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 46rem; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; font-size: 0.9rem; width: 100%; }
th, td { border-bottom: 1px solid var(--rule); padding: 0.3rem 0.6rem;
  text-align: left; vertical-align: top; overflow-wrap: anywhere; }
th { white-space: nowrap; }
td:first-child { min-width: 8rem; }
svg { width: 100%; height: auto; }
svg text { fill: var(--ink); font-size: 12px; }
svg .grid { stroke: var(--rule); stroke-width: 1; }
svg .curve { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
svg .faint { stroke: var(--ink); stroke-width: 1; opacity: 0.3; }
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chart:
    """Curves, over the steps of a run, that share one vertical axis.

    Args:
        title: What the curves show.
        unit: Name of the vertical axis.
        curves: Points `(step, value)` by name, in order of step. Values that
            are not finite are left out.
        x_label: Name of the horizontal axis, if it is not steps.
        faint_curves: Points of curves that stand behind them, without names.
    """

    title: str
    unit: str
    curves: Mapping[str, Sequence[tuple[float, float]]]
    x_label: str = "step"
    faint_curves: Sequence[Sequence[tuple[float, float]]] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bars:
    """A bar for each name, side by side.

    Args:
        title: What the bars show.
        unit: Name of the vertical axis.
        bars: Finite values of at least 0 by name, in this order.
        x_label: Name of the horizontal axis; "" for none.
    """

    title: str
    unit: str
    bars: Mapping[str, float]
    x_label: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
    """Rows under a title.

    Args:
        title: What the rows show.
        header: Names of the columns; empty for a table of facts.
        rows: Cells as plain text, as many as the header has (if any).
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def write_report(
    path: files.Path,
    *,
    title: str,
    facts: Mapping[str, object],
    charts: Sequence[Chart],
    tables: Sequence[Table] = (),
    bars: Sequence[Bars] = (),
) -> None:
    """Writes a page that opens without a network; whole or not at all.

    Args:
        path: Where to, usually `<output_dir>/report.html`.
        title: Heading of the page.
        facts: What was run and what came out, by name.
        charts: Shown below the facts, in this order.
        tables: Shown below the charts and bars.
        bars: Shown below the charts.
    """
    about = [(name, str(value)) for name, value in facts.items()]
    facts_table = Table(title="The run", header=(), rows=about)
    parts = [
        _render_table(facts_table),
        *map(render_chart, charts),
        *map(render_bars, bars),
        *map(_render_table, tables),
    ]
    page = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n"
        f"</head>\n<body>\n<h1>{html.escape(title)}</h1>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )
    files.write_text(path, page)


def render_chart(chart: Chart) -> str:
    """Returns a heading and an SVG line chart, or a note that it is empty."""
    heading = f"<h2>{html.escape(chart.title)}</h2>"
    curves = {name: _finite(points) for name, points in chart.curves.items()}
    faint_curves = [_finite(points) for points in chart.faint_curves]
    points = [p for curve in (*curves.values(), *faint_curves) for p in curve]
    if not points:
        return f"{heading}\n<p>No values were logged.</p>"
    frame = _Frame.around(points)
    described = f"{chart.title}: {', '.join(curves)}, by {chart.x_label}."
    above = LEGEND_ROW * -(-len(curves) // LEGEND_COLUMNS)
    return "\n".join(
        [
            heading,
            f'<svg viewBox="0 {-above} {WIDTH} {HEIGHT + above}" role="img" '
            f'aria-label="{html.escape(described)}">',
            *_axes(frame, chart.unit, chart.x_label),
            *(_curve(frame, points, _FAINT) for points in faint_curves),
            *_curves(frame, curves),
            *_legend(list(curves), above),
            "</svg>",
        ]
    )


def render_bars(chart: Bars) -> str:
    """Returns a heading and an SVG bar chart, or a note that it is empty."""
    heading = f"<h2>{html.escape(chart.title)}</h2>"
    if not chart.bars:
        return f"{heading}\n<p>There is nothing to count.</p>"
    top = [(0.0, max(chart.bars.values()))]
    frame = _Frame.around([(0.0, 0.0), *top, (float(len(chart.bars)), 0.0)])
    space = (WIDTH - LEFT - RIGHT) / len(chart.bars)
    every = -(-len(chart.bars) // MAX_BAR_NAMES)
    parts = []
    for number, (name, value) in enumerate(chart.bars.items()):
        x, y = LEFT + space * number, frame.y(value)
        parts.append(
            f'<rect x="{x + space / 10:.1f}" y="{y}" '
            f'width="{space * 0.8:.1f}" '
            f'height="{frame.y(0.0) - y:.1f}" fill="{_STROKES[0][0]}">'
            f"<title>{html.escape(name)}: {value:g}</title></rect>"
        )
        if number % every == 0:
            parts.append(_text(x + space / 2, HEIGHT - BOTTOM + 18, name))
    described = f"{chart.title}: {', '.join(chart.bars)}."
    return "\n".join(
        [
            heading,
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'aria-label="{html.escape(described)}">',
            *_value_axis(frame, chart.unit),
            *parts,
            *([_x_label(chart.x_label)] if chart.x_label else []),
            "</svg>",
        ]
    )


def ticks(low: float, high: float) -> list[float]:
    """Returns round numbers, evenly spaced, that cover `low` to `high`.

    >>> ticks(0, 300)
    [0.0, 100.0, 200.0, 300.0]
    """
    if low == high:
        low, high = low - (abs(low) or 1.0) / 2, high + (abs(high) or 1.0) / 2
    rough = (high - low) / NUM_TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    spacing = next(
        power * step for step in (1, 2, 5, 10) if power * step >= rough
    )
    first = math.floor(low / spacing + 1e-9)
    last = math.ceil(high / spacing - 1e-9)
    return [float(f"{n * spacing:.12g}") for n in range(first, last + 1)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Frame:
    # The ticks of both axes; they span the drawing, so they are its scale.
    steps: Sequence[float]
    values: Sequence[float]

    @classmethod
    def around(cls, points: Sequence[tuple[float, float]]) -> "_Frame":
        steps = [step for step, _ in points]
        values = [value for _, value in points]
        return cls(
            steps=ticks(min(steps), max(steps)),
            values=ticks(min(values), max(values)),
        )

    def x(self, step: float) -> float:
        share = (step - self.steps[0]) / (self.steps[-1] - self.steps[0])
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        share = (value - self.values[0]) / (self.values[-1] - self.values[0])
        return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 1)


def _value_axis(frame: _Frame, unit: str) -> Iterator[str]:
    bottom = HEIGHT - BOTTOM
    for value in frame.values:
        y = frame.y(value)
        yield (
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" '
            f'y1="{y}" y2="{y}"/>'
        )
        yield _text(LEFT - 8, y + 4, f"{value:g}", anchor="end")
    middle = (TOP + bottom) / 2
    yield (
        f'<text transform="translate(14 {middle}) rotate(-90)" '
        f'text-anchor="middle">{html.escape(unit)}</text>'
    )


def _axes(frame: _Frame, unit: str, x_label: str) -> Iterator[str]:
    yield from _value_axis(frame, unit)
    for step in frame.steps:
        yield _text(frame.x(step), HEIGHT - BOTTOM + 18, f"{step:g}")
    yield _x_label(x_label)


def _x_label(text: str) -> str:
    return _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, text)


def _curves(
    frame: _Frame, curves: Mapping[str, Sequence[tuple[float, float]]]
) -> Iterator[str]:
    for number, points in enumerate(curves.values()):
        color, dashes = _STROKES[number % len(_STROKES)]
        if len(points) == 1:
            x, y = frame.x(points[0][0]), frame.y(points[0][1])
            yield f'<circle cx="{x}" cy="{y}" r="3" fill="{color}"/>'
            continue
        style = f'class="curve" stroke="{color}" stroke-dasharray="{dashes}"'
        yield _curve(frame, points, style)


def _curve(
    frame: _Frame, points: Sequence[tuple[float, float]], style: str
) -> str:
    path = " ".join(f"{frame.x(s)},{frame.y(v)}" for s, v in points)
    return f'<polyline {style} points="{path}"/>'


def _finite(
    points: Sequence[tuple[float, float]],
) -> list[tuple[float, float]]:
    return [point for point in points if math.isfinite(point[1])]


def _legend(names: Sequence[str], above: float) -> Iterator[str]:
    width = (WIDTH - LEFT - RIGHT) / LEGEND_COLUMNS
    for number, name in enumerate(names):
        color, dashes = _STROKES[number % len(_STROKES)]
        row, column = divmod(number, LEGEND_COLUMNS)
        x = LEFT + width * column
        y = TOP - above + LEGEND_ROW * row
        yield (
            f'<line class="curve" stroke="{color}" '
            f'stroke-dasharray="{dashes}" x1="{x:.1f}" '
            f'x2="{x + 32:.1f}" y1="{y - 4}" y2="{y - 4}"/>'
        )
        yield _text(x + 40, y, name, anchor="start")


def _text(x: float, y: float, text: str, *, anchor: str = "middle") -> str:
    return (
        f'<text x="{x}" y="{y}" text-anchor="{anchor}">'
        f"{html.escape(text)}</text>"
    )


def _render_table(table: Table) -> str:
    header = "".join(f"<th>{html.escape(cell)}</th>" for cell in table.header)
    rows = [
        "<tr>"
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in row)
        + "</tr>"
        for row in table.rows
    ]
    return "\n".join(
        [
            f"<h2>{html.escape(table.title)}</h2>",
            "<table>",
            *([f"<tr>{header}</tr>"] if header else []),
            *rows,
            "</table>",
        ]
    )
