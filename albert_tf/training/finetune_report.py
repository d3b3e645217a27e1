"""report.html of a fine-tuning run: curves, lengths, confusions, errors.

Data flow: log, scores and outputs of a run -> [this file] -> report.html.
Floor: training. NumPy.
"""

import collections
import dataclasses
import glob
import itertools
import os
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.metrics import classification
from albert_tf.tasks.task import Outputs
from albert_tf.training import collapse, metric_log, report
from albert_tf.training.records import RecordSet
from albert_tf.training.run_config import FinetuningJob

FILE_NAME = "report.html"
MAX_ERRORS = 20
NUM_BINS = 16
_TEXT_LIMIT = 300
_LOGITS, _LABELS = "logits", "label_ids"
# Setting of a task whose labels have names.
_LABEL_NAMES = "labels"
# Of the results of several seeds: scores by seed, and why a seed has none.
SEEDS_KEY = "seeds"
FAILED_KEY = "failed_seeds"
_EVAL = "eval_"
# What an evaluation logs beside scores that grow and have a common scale.
_OTHER_SCALES = {
    collapse.CONSTANT_KEY,
    "mean_squared_error",
    "null_threshold",
}

Section = report.Chart | report.Bars | report.Table


def write(
    job: FinetuningJob,
    *,
    results: Mapping[str, Any],
    records: RecordSet,
    outputs: Outputs,
) -> None:
    """Writes the report of a run to its folder.

    Args:
        job: The run.
        results: Its scores; of several seeds, their summary, with `SEEDS_KEY`
            and `FAILED_KEY`.
        records: The evaluation set.
        outputs: Of its records.
    """
    sections = [
        *curves(
            job.output_dir,
            job.data.primary_metric,
            seeds=[*results.get(SEEDS_KEY, ()), *results.get(FAILED_KEY, ())],
        ),
        length_histogram(records.columns.lengths),
        *seed_tables(results),
        *_confusions_and_errors(records, outputs),
        *_sections_of_task(records, outputs),
    ]
    report.write_report(
        os.path.join(job.output_dir, FILE_NAME),
        title=f"Fine-tuning: {job.data.name}",
        facts=_facts(job, records, results),
        charts=[s for s in sections if isinstance(s, report.Chart)],
        bars=[s for s in sections if isinstance(s, report.Bars)],
        tables=[s for s in sections if isinstance(s, report.Table)],
    )


def _facts(
    job: FinetuningJob, records: RecordSet, results: Mapping[str, Any]
) -> dict[str, str]:
    facts: dict[str, object] = {
        "task": job.data.name,
        "evaluated examples": len(records.examples),
        "evaluated records": records.columns.num_records,
        "initial checkpoint": job.init_checkpoint or "none",
    }
    if job.train_set:
        facts |= {
            "training examples": len(job.train_set.examples),
            "updates": job.training.num_train_steps,
            "batch size": job.training.train_batch_size,
            "learning rate": job.optimizer.learning_rate,
            "warm-up": job.optimizer.num_warmup_steps,
        }
    facts |= {
        _named(key, results): value
        for key, value in results.items()
        if not isinstance(value, Mapping)
    }
    return {name: _shown(value) for name, value in facts.items()}


def _named(key: str, results: Mapping[str, Any]) -> str:
    """Returns a score's name; of several seeds' scores, the median's."""
    return f"{key} (median)" if f"{key}_std" in results else key


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def seed_tables(results: Mapping[str, Any]) -> list[report.Table]:
    """Returns a row of scores for each seed; none if there was one.

    Seeds without a result stand below, with what went wrong.
    """
    seeds, failed = results.get(SEEDS_KEY), results.get(FAILED_KEY)
    if not seeds:
        return []
    names = list(next(iter(seeds.values())))
    tables = [
        report.Table(
            title="The seeds",
            header=("seed", *names),
            rows=[
                (seed, *(_shown(own[name]) for name in names))
                for seed, own in seeds.items()
            ],
        )
    ]
    if failed:
        tables.append(
            report.Table(
                title="Seeds without a result, which no score counts",
                header=("seed", "why"),
                rows=list(failed.items()),
            )
        )
    return tables


def curves(
    output_dir: str, primary_metric: str, *, seeds: Sequence[str] = ()
) -> list[report.Chart]:
    """Returns loss and scores over the steps.

    Of several seeds, there is the primary_metric score, and each curve is faint
    beside their median.

    Args:
        output_dir: Folder of the run.
        primary_metric: Key of the primary_metric score.
        seeds: Those of the run; without, all that are in the folder.
    """
    folders = [os.path.join(output_dir, f"seed-{seed}") for seed in seeds] or (
        sorted(glob.glob(os.path.join(glob.escape(output_dir), "seed-*")))
    )
    if folders:
        logs = [metric_log.read_lines(folder) for folder in folders]
        return [
            _chart_of_seeds("Training loss", "loss", logs, "loss"),
            _chart_of_seeds(
                "Evaluations", primary_metric, logs, f"eval_{primary_metric}"
            ),
        ]
    lines = metric_log.read_lines(output_dir)
    keys = {key: None for line in lines for key in line}
    names = [key.removeprefix(_EVAL) for key in keys if key.startswith(_EVAL)]
    scores = {
        name: _points(lines, f"{_EVAL}{name}")
        for name in sorted(names)
        if name not in _OTHER_SCALES
    }
    return [
        report.Chart(
            title="Training loss",
            unit="loss",
            curves={"loss": _points(lines, "loss")},
        ),
        report.Chart(title="Evaluations", unit="score", curves=scores),
    ]


def _chart_of_seeds(
    title: str, unit: str, logs: Sequence[Sequence[Mapping[str, Any]]], key: str
) -> report.Chart:
    every = [points for points in (_points(x, key) for x in logs) if points]
    values: dict[float, list[float]] = collections.defaultdict(list)
    for step, value in itertools.chain.from_iterable(every):
        values[step].append(value)
    median = [
        (step, statistics.median(values[step])) for step in sorted(values)
    ]
    return report.Chart(
        title=f"{title}: {len(every)} seeds and their median",
        unit=unit,
        curves={"median": median} if median else {},
        faint_curves=every,
    )


def _points(
    lines: Sequence[Mapping[str, Any]], key: str
) -> list[tuple[float, float]]:
    return [(x["step"], x[key]) for x in lines if x.get(key) is not None]


def length_histogram(lengths: np.ndarray) -> report.Bars:
    """Returns how many records have which number of tokens."""
    longest = int(lengths.max())
    width = max(1, -(-longest // NUM_BINS))
    counts = np.bincount((lengths - 1) // width)
    return report.Bars(
        title="Lengths of the evaluated records",
        unit="records",
        bars={
            str((number + 1) * width): float(count)
            for number, count in enumerate(counts)
        },
        x_label="tokens, at most",
    )


def confusion_matrix(
    labels: np.ndarray, predictions: np.ndarray, names: Sequence[str]
) -> report.Table:
    """Returns how often each label (rows) was taken for each (columns).

    Args:
        labels: int `[N]`.
        predictions: int `[N]`.
        names: Of the labels.
    """
    counts = np.zeros((len(names), len(names)), np.int64)
    np.add.at(counts, (labels, predictions), 1)
    return report.Table(
        title="Labels (rows) and predictions (columns)",
        header=("", *names),
        rows=[
            (name, *map(str, row))
            for name, row in zip(names, counts.tolist(), strict=True)
        ],
    )


def _confusions_and_errors(
    records: RecordSet, outputs: Outputs
) -> list[Section]:
    logits = outputs.get(_LOGITS)
    if (
        not isinstance(logits, np.ndarray)
        or _LABELS not in records.columns.values
        or len(records.examples) != records.columns.num_records
    ):
        return []
    labels = records.columns.field(_LABELS)
    if logits.ndim == 1 or logits.shape[-1] == 1:
        return [_worst_numbers(records, labels, logits.reshape(-1))]
    names = _label_names(records, logits.shape[-1])
    predictions = np.argmax(logits, axis=-1)
    return [
        confusion_matrix(labels, predictions, names),
        _worst_errors(records, labels, logits, names),
    ]


def _label_names(records: RecordSet, num_labels: int) -> list[str]:
    names = records.data.settings.get(_LABEL_NAMES)
    if isinstance(names, list | tuple) and len(names) == num_labels:
        return [str(name) for name in names]
    return [str(number) for number in range(num_labels)]


def _worst_errors(
    records: RecordSet,
    labels: np.ndarray,
    logits: np.ndarray,
    names: Sequence[str],
) -> report.Table:
    shares = classification.softmax(logits)
    predictions = np.argmax(logits, axis=-1)
    (wrong,) = np.nonzero(predictions != labels)
    own = shares[wrong, labels[wrong]]
    rows = []
    for place in np.argsort(own, kind="stable")[:MAX_ERRORS]:
        index = wrong[place]
        rows.append(
            (
                *_describe(records.examples[index]),
                names[labels[index]],
                names[predictions[index]],
                f"{own[place]:.4f}",
            )
        )
    return report.Table(
        title=f"The worst of {len(wrong)} errors",
        header=("id", "text", "label", "prediction", "share of the label"),
        rows=rows,
    )


def _worst_numbers(
    records: RecordSet, labels: np.ndarray, numbers: np.ndarray
) -> report.Table:
    errors = np.abs(numbers - labels)
    worst = np.argsort(-errors, kind="stable")[:MAX_ERRORS]
    return report.Table(
        title="The largest errors",
        header=("id", "text", "label", "prediction"),
        rows=[
            (
                *_describe(records.examples[index]),
                f"{labels[index]:.3f}",
                f"{numbers[index]:.3f}",
            )
            for index in worst
        ],
    )


def _describe(example: Any) -> tuple[str, str]:
    """Returns the id of an example and its text, cut short."""
    texts = []
    if dataclasses.is_dataclass(example):
        for field in dataclasses.fields(example):
            value = getattr(example, field.name)
            if isinstance(value, str) and field.name not in ("guid", "label"):
                texts.append(value)
    text = " | ".join(filter(None, texts))
    if len(text) > _TEXT_LIMIT:
        text = f"{text[: _TEXT_LIMIT - 1]}…"
    return str(example.guid), text


def _sections_of_task(records: RecordSet, outputs: Outputs) -> list[Section]:
    """Returns what the task itself has to show; see `TaskData`."""
    make = getattr(records.data, "report_sections", None)
    sections = make(records.examples, outputs) if make else []
    return [_section(values) for values in sections]


def _section(values: Mapping[str, Any]) -> Section:
    if "curves" in values:
        return report.Chart(**values)
    if "bars" in values:
        return report.Bars(**values)
    return report.Table(**values)
