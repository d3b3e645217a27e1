import html.parser
import math
import re
import xml.etree.ElementTree

import pytest

from albert_tf.training import report

VOID_TAGS = {"meta"}


class _Reader(html.parser.HTMLParser):
    """Checks that tags are closed in order; keeps the text."""

    def __init__(self):
        super().__init__()
        self.open_tags = []
        self.words = []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID_TAGS:
            self.open_tags.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open_tags.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def _chart(**curves):
    return report.Chart(title="Loss", unit="nats", curves=curves)


def _svg(chart):
    rendered = report.render_chart(chart)
    return xml.etree.ElementTree.fromstring(rendered[rendered.index("<svg") :])


def _points(svg):
    return [
        [tuple(map(float, pair.split(","))) for pair in line.split()]
        for line in (p.get("points") for p in svg.iter("polyline"))
    ]


def test_page_is_well_formed_and_asks_no_network(tmp_path):
    path = tmp_path / "new_folder" / "report.html"

    report.write_report(
        path,
        title="A run",
        facts={"steps": 300},
        charts=[_chart(training=[(1, 8.0), (2, 7.5)])],
        tables=[report.Table(title="T", header=["a"], rows=[["b"]])],
    )

    text = path.read_text(encoding="utf-8")
    reader = _Reader()
    reader.feed(text)
    assert reader.open_tags == []
    assert {"A run", "steps", "300", "Loss", "nats", "T", "a", "b"} <= {
        word.strip() for word in reader.words
    }
    assert not re.search(r"https?:|//|<script|<link|url\(|src=", text)


def test_text_from_the_corpus_is_not_read_as_markup(tmp_path):
    path = tmp_path / "report.html"

    report.write_report(
        path,
        title="<b>",
        facts={"<i>": "<u>"},
        charts=[
            report.Chart(title='"<s>', unit="<a>", curves={"<p>": [(1, 1)]})
        ],
        tables=[report.Table(title="<q>", header=["<em>"], rows=[["<td>&"]])],
    )

    text = path.read_text(encoding="utf-8")
    for tag in ("<b>", "<i>", "<u>", "<s>", "<a>", "<p>", "<q>", "<em>"):
        assert tag not in text
    assert "<td>&lt;td&gt;&amp;</td>" in text


def test_a_lower_loss_is_drawn_lower_and_a_later_step_further_right():
    (line,) = _points(_svg(_chart(training=[(0, 8.0), (50, 7.0), (100, 4.0)])))

    assert [x for x, _ in line] == sorted(x for x, _ in line)
    assert [y for _, y in line] == sorted(y for _, y in line)
    # Step 50 of 0 to 100 lies half-way.
    assert line[1][0] == pytest.approx((line[0][0] + line[2][0]) / 2)


def test_curves_share_the_axes_and_are_named_in_the_legend():
    svg = _svg(_chart(training=[(0, 8), (9, 4)], held_out=[(0, 8), (9, 6)]))

    training, held_out = _points(svg)
    assert training[0] == held_out[0]
    assert training[1][1] > held_out[1][1]
    labels = [text.text for text in svg.iter("text")]
    assert {"training", "held_out", "step", "nats"} <= set(labels)


def test_every_point_lies_inside_the_drawing():
    values = [(step, math.sin(step) * 1e-4) for step in range(37)]

    (line,) = _points(_svg(_chart(rate=values)))

    assert all(
        report.LEFT <= x <= report.WIDTH - report.RIGHT
        and report.TOP <= y <= report.HEIGHT - report.BOTTOM
        for x, y in line
    )


def test_a_single_evaluation_is_a_dot():
    svg = _svg(_chart(held_out=[(300, 5.0)]))

    assert len(list(svg.iter("circle"))) == 1
    assert not list(svg.iter("polyline"))


def test_values_that_are_not_finite_are_left_out():
    (line,) = _points(
        _svg(_chart(loss=[(1, 8.0), (2, math.nan), (3, math.inf), (4, 7.0)]))
    )

    assert len(line) == 2


def test_a_chart_without_values_says_so():
    rendered = report.render_chart(_chart(loss=[(1, math.nan)], other=[]))

    assert "No values were logged" in rendered
    assert "<svg" not in rendered


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (3.9, 8.1, [3, 4, 5, 6, 7, 8, 9]),
        (0, 0.00176, [0, 0.0005, 0.001, 0.0015, 0.002]),
        (-5, 5, [-6, -4, -2, 0, 2, 4, 6]),
    ],
)
def test_ticks_are_round_and_cover_the_range(low, high, expected):
    assert report.ticks(low, high) == expected


@pytest.mark.parametrize("value", [0, 7, -0.3])
def test_ticks_around_one_value_leave_room_on_both_sides(value):
    found = report.ticks(value, value)

    assert found[0] < value < found[-1]


def test_bars_rise_with_their_values():
    chart = report.Bars(
        title="Lengths", unit="records", bars={"to 16": 2.0, "to 32": 8.0}
    )
    rendered = report.render_bars(chart)
    svg = xml.etree.ElementTree.fromstring(rendered[rendered.index("<svg") :])

    first, second = (float(r.get("height")) for r in svg.iter("rect"))
    assert second == pytest.approx(4 * first, rel=0.01)
    words = [text.text for text in svg.iter("text")]
    assert "to 16" in words
    assert "records" in words


def test_of_many_bars_only_some_have_their_name_below():
    bars = {f"to {number}": 1.0 for number in range(40)}
    rendered = report.render_bars(
        report.Bars(title="Lengths", unit="records", bars=bars)
    )

    assert rendered.count("<rect") == 40
    assert rendered.count(">to ") - 40 <= report.MAX_BAR_NAMES


def test_no_bars_are_said_to_be_none():
    chart = report.Bars(title="Lengths", unit="records", bars={})

    assert "There is nothing to count" in report.render_bars(chart)


def test_a_chart_may_be_over_something_else_than_steps():
    chart = report.Chart(
        title="F1",
        unit="f1",
        curves={"f1": [(-1.0, 70.0), (1.0, 80.0)]},
        x_label="threshold",
    )

    assert ">threshold</text>" in report.render_chart(chart)
    assert ">step</text>" not in report.render_chart(chart)


def test_no_two_of_eight_curves_look_alike():
    names = [f"score {number}" for number in range(8)]
    svg = _svg(_chart(**{name: [(0, 1), (9, 2)] for name in names}))

    styles = [
        (line.get("stroke"), line.get("stroke-dasharray"))
        for line in svg.iter("polyline")
    ]
    assert len(set(styles)) == 8


def test_the_names_of_curves_stand_above_the_drawing():
    names = [f"score {number}" for number in range(7)]
    svg = _svg(_chart(**{name: [(0, 1), (9, 2)] for name in names}))

    _, top, _, height = map(float, svg.get("viewBox").split())
    found = {
        text.text: float(text.get("y"))
        for text in svg.iter("text")
        if text.text in names
    }
    assert all(top < found[name] <= report.TOP for name in names)
    assert top + height == report.HEIGHT
    # In rows of three.
    assert found[names[0]] == found[names[2]] < found[names[3]]


def test_faint_curves_have_no_name_and_share_the_axes():
    chart = report.Chart(
        title="Loss",
        unit="nats",
        curves={"median": [(0, 2), (9, 1)]},
        faint_curves=[[(0, 2), (9, math.nan)], [(0, 3), (9, 1)]],
    )

    first, second, median = _svg(chart).iter("polyline")

    assert "faint" in first.get("class")
    assert len(first.get("points").split()) == 1
    assert second.get("points").split()[1] == median.get("points").split()[1]
    assert "faint" not in median.get("class")


def test_bars_may_have_an_axis_with_a_name():
    chart = report.Bars(
        title="Lengths", unit="records", bars={"16": 2.0}, x_label="tokens"
    )

    assert ">tokens</text>" in report.render_bars(chart)
