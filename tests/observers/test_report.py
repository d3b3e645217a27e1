import json
import math
import pathlib
import re
import types
import xml.etree.ElementTree

import pytest

from albert_tf.metrics.scores import Role, Score, Scores
from albert_tf.observers import report
from albert_tf.tasks.task_data import ExampleSet, Sets
from albert_tf.training.callbacks import Result, Run
from albert_tf.training.run_config import FinetuningConfig
from tests.training import runs

ACCURACY = Scores(entries=(Score("accuracy", 0.75),))
EVALUATION = {
    "data": "--eval_file=rows.tsv",
    "examples": 9,
    "step": 30,
    "cautions": [],
}
SVG = "{http://www.w3.org/2000/svg}"


def _chart(**curves):
    return {"title": "Loss", "unit": "nats", "curves": curves}


@pytest.fixture
def page(tmp_path):
    """A function that writes a page and returns its HTML."""

    def write(*sections, title="A run", facts=None):
        path = tmp_path / "new_folder" / "report.html"
        report.write(path, title=title, facts=facts or {}, sections=sections)
        return path.read_text(encoding="utf-8")

    return write


def _lines(text):
    """Returns the points of each curve of a page's drawing, `[(x, y), ...]`."""
    svg = xml.etree.ElementTree.fromstring(
        re.search("<svg.*?</svg>", text, re.S)[0]
    )
    lines = [
        [
            tuple(map(float, point))
            for point in re.findall(r"[ML] (\S+) (\S+)", path.get("d"))
        ]
        for path in svg.iter(f"{SVG}path")
        if "stroke-width: 1.5" in path.get("style", "")
    ]
    # The legend's samples have a y of their own.
    return [line for line in lines if len({y for _, y in line}) > 1]


def test_a_page_asks_no_network_and_is_the_same_again(page):
    contents = (
        _chart(training=[(1, 8.0), (2, 7.5)], held_out=[(2, 7.0)]),
        {"title": "T", "header": ["a"], "rows": [["b"]]},
    )
    facts = {"steps": 300, "rate": 0.123456789}

    text = page(*contents, facts=facts)

    words = {word.strip() for word in re.findall(r">([^<]*)<", text)}
    assert {"A run", "steps", "300", "0.123457"} <= words
    assert {"Loss", "nats", "step", "held_out", "T", "a", "b"} <= words
    # Names of XML dialects are no addresses to fetch.
    plain = re.sub(r'xmlns(:xlink)?="[^"]*"', "", text)
    assert not re.search(r"https?:|//|<script|<link|@import|src=", plain)
    assert page(*contents, facts=facts) == text


def test_text_is_not_read_as_markup(page):
    text = page(
        {"title": '"<s>', "unit": "<a>", "curves": {"<p>": [(1, 1)]}},
        {"title": "<q>", "header": ["<em>"], "rows": [["<td>&"]]},
        title="<b>",
        facts={"<i>": "<u>"},
    )

    for tag in ["b", "i", "u", "s", "a", "p", "q", "em"]:
        assert f"<{tag}>" not in text
    assert "<td>&lt;td&gt;&amp;</td>" in text


def test_curves_share_the_axes_and_infinite_values_are_left_out(page):
    text = page(
        _chart(
            training=[(0, 8), (50, 7), (60, math.nan), (100, 4)],
            held_out=[(0, 8), (50, math.inf), (99, 6)],
        )
    )

    training, held_out = _lines(text)
    # Lower losses are drawn lower (SVG counts from the top), later steps
    # further to the right: step 50 of 0 to 100 lies half-way.
    (x0, y0), (x1, y1), (x2, y2) = training
    assert y0 < y1 < y2
    assert x1 == pytest.approx((x0 + x2) / 2)
    assert held_out[0] == training[0]
    assert len(held_out) == 2


def test_nothing_stands_for_an_empty_chart_or_table(page):
    chart = _chart(loss=[(1, math.nan)], other=[])
    table = {"title": "Errors", "header": ["id"], "rows": []}

    assert page(chart, table) == page()


def _log(loss, score):
    return [
        {"step": 5, "loss": loss},
        {"step": 5, "eval_accuracy": score, "eval_null_threshold": 9.0},
    ]


@pytest.fixture
def written(tmp_path):
    """A function that returns the rows of a run's tables, and its page."""

    def write(
        logs,
        scores,
        sections=(),
        best_metric=None,
        evaluation=EVALUATION,
        **others,
    ):
        config = runs.run_config(
            FinetuningConfig,
            output_dir=str(tmp_path),
            flags_text="--do_train\n",
            best_metric=best_metric,
            max_seq_length=runs.S,
            do_train=True,
            random_seed=1,
            num_seeds=max(map(int, logs)),
        )
        folders = {
            str(c.random_seed): c.output_dir for c in config.seed_configs()
        }
        for seed, lines in logs.items():
            path = pathlib.Path(folders.get(seed, tmp_path), "metrics.jsonl")
            path.parent.mkdir(exist_ok=True)
            path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        data = types.SimpleNamespace(
            report_sections=lambda *_: sections,
            predictions_of=lambda *_: None,
        )
        callback = report.Report()
        callback.run = Run(
            config=config,
            title="Words",
            metric="accuracy",
            sets=Sets(evaluation=(ExampleSet(examples=[], data=data),)),
        )
        callback.on_end(
            Result(scores=scores, evaluation=evaluation, **others), None
        )
        text = (tmp_path / "report.html").read_text("utf-8")
        rows = [
            re.findall("<t[hd][^>]*>([^<]*)</t[hd]>", row)
            for row in text.splitlines()
            if row.startswith("<tr>")
        ]
        return rows, text

    return write


def test_a_later_evaluation_shows_its_flags_and_those_of_the_training(
    written, tmp_path
):
    (tmp_path / "flags.txt").write_text("--learning_rate=0.1\n", "utf-8")

    _, text = written({"1": _log(0.7, 0.75)}, ACCURACY)

    assert "<td>flags</td><td>--do_train\n</td>" in text
    assert "flags of the training</td><td>--learning_rate=0.1\n</td>" in text


def test_the_settings_are_shown_without_digests(written, tmp_path):
    digest = "0123456789abcdef" * 4
    kept = {
        "records": digest,
        "settings": {"tokenizer": digest, "validation": [0.2, [digest[:20]]]},
        "init_checkpoint": "base",
    }
    (tmp_path / "run.json").write_text(json.dumps(kept))

    _, text = written({"1": []}, ACCURACY)

    assert digest[:20] not in text
    assert "<td>init_checkpoint</td><td>base</td>" in text
    assert "<td>settings</td>" in text and "[0.2, []]" in text


def test_a_run_begins_with_how_good_it_is_and_folds_its_settings(written):
    own = {"title": "Own", "header": ["x"], "rows": [["y"]]}
    scores = Scores(
        entries=(
            *ACCURACY.entries,
            Score.baseline("accuracy", 0.5),
            Score("accuracy_interval_low", 1 / 3, Role.INTERVAL, "accuracy"),
            Score("accuracy_interval_high", 0.9, Role.INTERVAL, "accuracy"),
            Score.of_label("f1", "ham", 0.25),
            Score("loss", 2.0, Role.LOSS),
        )
    )

    rows, text = written({"1": _log(0.7, 0.75)}, scores, [own])

    assert rows[:3] == [
        ["", "score", "baseline"],
        ["accuracy", "0.75", "0.5"],
        ["loss", "2", ""],
    ]
    assert ["y"] in rows
    verdict, _, rest = text.partition("<table>")
    assert 'class="verdict good"' in verdict
    words = "Better than the baseline: accuracy 0.75 (0.333 to 0.9) on 9 "
    words += "examples"
    assert f"{words}, against 0.5." in " ".join(verdict.split())
    shown, _, folded = rest.partition("<details>")
    assert "<td>flags</td><td>--do_train\n</td>" in folded
    assert "f1_of_ham" in folded and "f1_of_ham" not in shown
    # The threshold has another scale, so it is not drawn among the scores.
    assert ">accuracy<" in shown and "null_threshold" not in shown


@pytest.mark.parametrize(
    ("baseline", "others", "cautions", "verdict", "words"),
    [
        (0.75, {}, [], "bad", "No better than the baseline: "),
        (0.5, {"is_degenerate": True}, [], "bad", "The model is degenerate: "),
        # A doubtful score has no green banner.
        (0.5, {}, ["All are trained on."], "", "<p>All are trained on.</p>"),
    ],
)
def test_the_verdict_of_a_run_is_in_words(
    baseline, others, cautions, verdict, words, written
):
    entries = (*ACCURACY.entries, Score.baseline("accuracy", baseline))
    evaluation = EVALUATION | {"cautions": cautions}

    _, text = written(
        {"1": []}, Scores(entries=entries, **others), evaluation=evaluation
    )

    assert f'class="verdict {verdict}"' in text
    assert words in text
    assert "<p>Evaluated: 9 examples of --eval_file=rows.tsv, with" in text


def test_a_training_without_evaluation_has_curves_and_no_verdict(written):
    _, text = written(
        {"1": [{"step": 5, "loss": 0.7}]}, Scores(), evaluation=None
    )

    assert "Loss" in text and "Evaluations" not in text
    assert 'class="verdict' not in text


def test_of_several_seeds_each_has_a_curve_and_a_row(written):
    logs = {str(seed): _log(0.7 / seed, 0.5 * seed) for seed in (1, 2)}
    logs["4"] = []  # a failed seed without a log
    of_seed = Scores(entries=(Score("accuracy", 0.123456789),), step=9)

    rows, text = written(
        logs,
        Scores(entries=(*ACCURACY.entries, Score("accuracy_std", 0.1))),
        by_seed={1: of_seed},
        failures={4: "It stuck."},
    )

    assert "Median scores" in text
    assert ["accuracy_std", "0.1", ""] in rows
    assert {"seed 1", "seed 2", "seed 4"} <= {*re.findall(r">(seed \d)<", text)}
    assert ["1", "0", "0.123457"] in rows
    assert "<p>Seed 4 has failed, and is in no score: It stuck.</p>" in text


def test_the_metric_that_selects_the_weights_is_in_the_chart(written):
    key = "f1_of_ham"
    lines = [{"step": step, f"eval_{key}": step / 9} for step in (5, 6)]
    scores = Scores(
        entries=(*ACCURACY.entries, Score.of_label("f1", "ham", 0.5))
    )

    _, without = written({"1": lines}, scores)
    _, text = written({"1": lines}, scores, best_metric=key)

    assert f">{key}<" not in without.partition("<details>")[0]
    assert f">{key}<" in text.partition("<details>")[0]
