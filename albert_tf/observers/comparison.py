"""Runs side by side: scores, settings, answers, and whether chance decides.

Data flow: folders of evaluated runs -> [this file] -> tables -> report.html.
"""

import glob
import logging
import os
import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from albert_tf import files
from albert_tf.checkpoints import run_checkpoints
from albert_tf.metrics import classification
from albert_tf.observers import report, simple_alternative
from albert_tf.observers.report import Section
from albert_tf.tasks.error_tables import MAX_ERRORS
from albert_tf.training import run_folder, run_tables

_LOGGER = logging.getLogger(__name__)

_SIMPLE = "|".join(simple_alternative.MODELS)
_DETAILS = re.compile(
    f"_of_|_interval_|_baseline$|_({_SIMPLE})(_p)?$|^global_step$"
)
# Of text: columns of a terminal, and runs side by side.
_WIDTH = 100
_RUNS_AT_A_TIME = 3
_RIGHT = "answers that are right"
_VERDICT = "against the first"
_DIFFERENCE = "difference"
# These come first, in this order.
_FIRST = (
    _VERDICT,
    _DIFFERENCE,
    "p",
    "only it is right",
    "only the first",
    _RIGHT,
)
# By id: text and label (None where it is not known); and the prediction.
_Rows: TypeAlias = dict[str, tuple[str, str | None]]
_Answers: TypeAlias = dict[str, str]


def summarize(best: str, failures: Mapping[str, str]) -> list[Section]:
    """Compares the runs of lists of numbers, the best one first.

    Runs of earlier calls with other numbers are in the same folder, and are
    compared, too. The page, `report.html`, is above the runs.
    """
    above = os.path.dirname(best)
    pattern = os.path.join(glob.escape(above), "*=*", run_folder.RESULTS_FILE)
    others = map(os.path.dirname, sorted(glob.glob(pattern)))
    paths = [*dict.fromkeys([best, *others])]
    tables = sections(paths, failures)
    page = os.path.join(above, report.FILE_NAME)
    write(page, paths, tables)
    _LOGGER.info("The runs are compared in %s.", page)
    return tables


def sections(
    paths: Sequence[str], failures: Mapping[str, str] | None = None
) -> list[Section]:
    """Returns a table of runs, and one of answers that differ.

    Each run is compared with the first. `failures` say why others have failed.
    """
    if len({*map(os.path.realpath, paths)}) < len(paths):
        raise ValueError("Pass each run once.")
    parents = [os.path.dirname(os.path.abspath(path)) for path in paths]
    above = os.path.commonpath(parents)
    flags = [{*run_checkpoints.flags_of(path).splitlines()} for path in paths]
    shared = set.intersection(*flags)
    table: dict[str, dict[str, str]] = {}
    answers: dict[str, _Answers] = {}
    for path, lines in zip(paths, flags, strict=True):
        own = dict(x.partition("=")[::2] for x in sorted(lines - shared))
        own.pop("--output_dir", None)
        run = os.path.relpath(path, above)
        results = _results(path)
        table[run] = _scores(results) | {n: own[n] or "yes" for n in own}
        found, predictions = _answers(path, results)
        if not answers:
            rows, first, reference = found, predictions, results
        elif found != rows:
            table[run][_VERDICT] = "not compared: other ids, labels or texts"
            continue
        else:
            table[run] |= _mcnemar(rows, predictions, first)
            table[run] |= _difference(results, reference)
        if predictions and all(label is not None for _, label in rows.values()):
            # The accuracy above is of the likelier labels, without thresholds.
            right = sum(predictions[guid] == rows[guid][1] for guid in rows)
            table[run][_RIGHT] = f"{right} of {len(rows)}"
        answers[run] = predictions
    for path, why in (failures or {}).items():
        table[os.path.relpath(path, above)] = {_VERDICT: why}
    all_names = [name for row in table.values() for name in row]
    names = [name for name in _FIRST if name in all_names]
    names = [*dict.fromkeys(names + all_names)]
    differing = [
        (guid, text, label or "", *given)
        for guid, (text, label) in rows.items()
        if all(answers.values())
        and len({*(given := [own[guid] for own in answers.values()])}) > 1
    ]
    title = f"{len(differing)} of {len(rows)} answers differ"
    tables: list[Section] = [
        {
            "title": f"Runs of {above}, and McNemar's test against the first",
            "header": ("run", *names),
            "rows": [
                (run, *(row.get(name, "") for name in names))
                for run, row in table.items()
            ],
        },
        {
            "title": f"{title} (at most {MAX_ERRORS} are listed)",
            "header": ("id", "text", "label", *answers),
            "rows": differing[:MAX_ERRORS],
        },
    ]
    has_answers = len(answers) > 1 and all(answers.values())
    return tables if has_answers else tables[:1]


def as_text(tables: Sequence[Section]) -> str:
    """Returns tables as lines of text; a line of the runs' has a name."""
    runs, *others = tables
    lines = [f"{runs['title']}:"]
    for i in range(0, len(runs["rows"]), _RUNS_AT_A_TIME):
        some = runs["rows"][i : i + _RUNS_AT_A_TIME]
        columns = zip(runs["header"], *some, strict=True)
        lines += _lines([row for row in columns if any(row[1:])])
    for table in others:
        lines += [f"{table['title']}:"]
        lines += _lines([table["header"], *table["rows"]])
    return "\n".join(lines)


def _lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligns cells; cuts the longest of them so that a line fits."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    space = _WIDTH - 2 * (len(widths) - 1)
    while sum(widths) > space and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1
    lines = []
    for row in rows:
        cells = (
            cell if len(cell) <= width else f"{cell[: width - 1]}…"
            for cell, width in zip(row, widths, strict=True)
        )
        lines.append("  ".join(map(str.ljust, cells, widths)).rstrip())
    return [*lines, ""]


def write(path: str, runs: Sequence[str], tables: Sequence[Section]) -> None:
    """Writes the tables of runs as a page."""
    flags = {run: run_checkpoints.flags_of(run) for run in runs}
    report.write(path, title="Runs compared", facts=flags, sections=tables)


def _results(path: str) -> files.JsonObject:
    file = os.path.join(path, run_folder.RESULTS_FILE)
    results = files.read_json_object(file, missing_ok=True)
    if not results:
        raise ValueError(f"{path!r} is not a run that has been evaluated.")
    return results | {"evaluated": files.object_of(results, "evaluated", file)}


def _scores(results: files.JsonObject) -> dict[str, str]:
    """Returns the scores of a run, the main one first, with its interval."""
    evaluated = results["evaluated"]
    main = evaluated.get("metric", "")
    values = {main: results[main]} if main in results else {}
    values |= {k: v for k, v in results.items() if not _DETAILS.search(k)}
    row = {k: f"{v:.4g}" for k, v in values.items() if isinstance(v, float)}
    keys = (f"{main}_interval_{end}" for end in ("low", "high"))
    if ends := [results[key] for key in keys if key in results]:
        row[main] += " ({:.4g} to {:.4g})".format(*ends)
    keys = (f"{main}_{name}" for name in simple_alternative.MODELS)
    row |= {key: f"{results[key]:.4g}" for key in keys if key in results}
    return {**row, "examples": str(evaluated.get("examples", ""))}


def _answers(path: str, results: files.JsonObject) -> tuple[_Rows, _Answers]:
    """Returns what a run was evaluated on, and its answers.

    There are no answers where they are no labels, or where the files of a task
    have none.
    """
    has_numbers = results["evaluated"].get("has_numbers")
    rows: _Rows = {}
    answers: _Answers = {}
    for one in run_tables.evaluated_rows(path):
        names = ("text_a", "text_b", "question", "text")
        texts = filter(None, map(one.get, names))
        rows[one["id"]] = " | ".join(texts), one.get("label")
        if "prediction" in one and not has_numbers:
            answers[one["id"]] = one["prediction"]
    return rows, answers


def _difference(
    results: files.JsonObject, reference: files.JsonObject
) -> dict[str, str]:
    """Returns how far the main score is from that of the reference."""
    main = reference["evaluated"].get("metric")
    if main not in results or main not in reference:
        return {}
    return {_DIFFERENCE: f"{results[main] - reference[main]:+.4g} {main}"}


def _mcnemar(rows: _Rows, ours: _Answers, first: _Answers) -> dict[str, str]:
    """Returns the test of a run against the first, and what it means."""
    if not (ours and first) or any(label is None for _, label in rows.values()):
        return {_VERDICT: "not tested: no labels beside answers"}
    gains, losses = (
        sum(a[guid] == label != b[guid] for guid, (_, label) in rows.items())
        for a, b in ((ours, first), (first, ours))
    )
    p = classification.mcnemar(gains, losses)
    verdict = "better" if gains > losses else "worse"
    verdict = (
        f"{verdict}, more than chance at 5%" if p < 0.05 else "may be chance"
    )
    return {
        "only it is right": str(gains),
        "only the first": str(losses),
        "p": f"{p:.3g}",
        _VERDICT: verdict,
    }
