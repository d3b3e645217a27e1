"""Fine-tuning and pretraining in Python: settings in, results out.

The commands call the same functions with their flags.
"""

import contextlib
import dataclasses
import functools
import html
import logging
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from albert_tf import files, registry
from albert_tf.checkpoints import discovery
from albert_tf.inference.predictor import Predictor, load_predictor
from albert_tf.metrics.scores import Scores
from albert_tf.tasks import example_files
from albert_tf.tasks import spec as specs
from albert_tf.tasks.spec import FinetuningSpec, HeadSpec
from albert_tf.tasks.task_data import SPLITS, ExampleSet
from albert_tf.training import finetune as finetune_lib
from albert_tf.training import flag_values, run_tables, several_runs
from albert_tf.training import plan as plans
from albert_tf.training import pretrain as pretrain_lib
from albert_tf.training.callbacks import Callback, Result
from albert_tf.training.plan import FinetuningPlan
from albert_tf.training.pretrain_config import PretrainingConfig

if TYPE_CHECKING:
    from typing import Unpack

    from albert_tf.export.saved_model import ExportSummary
    from albert_tf.training.keywords import (
        FinetuningSettings,
        PretrainingSettings,
    )

_LOGGER = logging.getLogger(__name__)

# Scores of fewer evaluated examples come with a warning.
_FEW_EXAMPLES = 50
_COLUMNS = ("score", "value", "baseline", "simple", "low", "high")
_PATHS = ("output_dir", "weights")
_STOPPED = "The run was stopped and has a checkpoint. The same call resumes it."


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RunResult(Result):
    """The result of a run.

    `dict(result.scores)` has all scores as floats; the keys are as in
    `eval_results.json`. Notebooks show the table.

    Args:
        head_spec: HeadSpec of `predictor`; default: the checkpoint's.
    """

    head_spec: HeadSpec | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Compiled functions cannot be pickled; a copy loads them anew.
        return {n: x for n, x in vars(self).items() if n != "predictor"}

    def __repr__(self) -> str:
        return f"RunResult({self.scores!r}, output_dir={self.output_dir!r})"

    def table(self) -> list[dict[str, str | float | None]]:
        """Returns a row for each main score, ready for `pandas.DataFrame`.

        A row has the `score`, its `value`, its `baseline`, the score of a
        `simple` model, and the bounds of its 95% interval, `low` and `high`;
        unknown numbers are None.
        """
        scores = self.scores
        rows: list[dict[str, str | float | None]] = []
        for key, value in scores.shown().items():
            low, high = scores.interval(key) or (None, None)
            others = scores.baselines.get(key), scores.simple.get(key)
            cells = (key, value, *others, low, high)
            rows.append(dict(zip(_COLUMNS, cells, strict=True)))
        return rows

    def __str__(self) -> str:
        cells = [
            ["" if x is None else _text(x) for x in row]
            for row in (_COLUMNS, *(row.values() for row in self.table()))
        ]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        rows = ("  ".join(map(str.ljust, row, widths)) for row in cells)
        return "\n".join([*map(str.rstrip, rows), self.output_dir])

    @functools.cached_property
    def predictions(self) -> run_tables.Rows:
        """The evaluated rows: `id`, texts, `label`, `prediction`.

        Where each has one label, also the `probability` of the prediction and
        `label_probability`. They are read from the files of the run.
        """
        if not self.scores:
            return []
        fold = os.path.join(self.output_dir, "fold-0")
        weights = fold if os.path.exists(fold) else self.weights
        metadata = discovery.open(weights).metadata
        return run_tables.predictions(self.output_dir, metadata)

    @property
    def errors(self) -> run_tables.Rows:
        """The predictions that are wrong, the worst first."""
        return run_tables.errors(self.predictions)

    @property
    def history(self) -> run_tables.Rows:
        """The lines of the log: `step`, `loss`, scores of evaluations."""
        return run_tables.log(self.output_dir)

    def plot(self) -> Any:
        """Returns charts of the losses and evaluations; notebooks show them.

        `str(result.plot())` is HTML with drawings in SVG.
        """
        return registry.load(registry.CHARTS["curves"])(
            self.history, self.scores
        )

    def _repr_html_(self) -> str:
        rows: list[Any] = [_COLUMNS, *(row.values() for row in self.table())]
        lines = ("".join(map(_html_cell, row)) for row in rows)
        table = "".join(f"<tr>{line}</tr>" for line in lines)
        return f"<table>{table}</table>{html.escape(self.output_dir)}"

    @property
    def baselines(self) -> dict[str, float]:
        """The baselines by the key of the model's score."""
        return self.scores.baselines

    @property
    def export(self) -> "ExportSummary | None":
        """Summary of the export, if `export_dir` was given."""
        return self.created.get("export")

    @property
    def comparison(self) -> Sequence[files.JsonObject]:
        """Tables that compare the runs if settings were lists; else empty."""
        tables: Sequence[files.JsonObject] = self.created.get("comparison", ())
        return tables

    @functools.cached_property
    def predictor(self) -> Predictor:
        """The trained model, loaded at first access; see `load_predictor`."""
        return load_predictor(self.weights, head=self.head_spec)


def _html_cell(content: str | float | None) -> str:
    return f"<td>{html.escape('' if content is None else _text(content))}</td>"


def _text(content: str | float) -> str:
    return content if isinstance(content, str) else f"{content:.4g}"


def finetune(
    task_name: str | FinetuningSpec | HeadSpec | type[HeadSpec],
    *,
    train_examples: object = None,
    eval_examples: object = None,
    predict_examples: object = None,
    callbacks: Sequence[Callback] = (),
    **settings: "Unpack[FinetuningSettings]",
) -> RunResult:
    """Fine-tunes a model, evaluates it and writes predictions.

        result = albert_tf.finetune(
            "custom", train_file="messages.csv", text_columns=["text"],
            label_column="kind", validation_share=0.2,
            init_checkpoint="albert_base", output_dir="messages")
        result.scores["accuracy"], result.baselines["accuracy"]
        result.predictor.predict("Where do I find my invoices?")

    The same call resumes a run that was stopped. Numeric settings may be lists,
    as `learning_rate=[1e-5, 2e-5]`: then every combination is a run, in a
    folder of its own in `output_dir`, and the result of the best is returned.

    Args:
        task_name: A task of GLUE, such as `mrpc`; `custom`, a table of your
            own; `similarity`; `squad`; or `race`. Or a `PooledHead`, or the
            `FinetuningSpec` of another task.
        train_examples: Rows to train on, in place of `train_file`: a list or
            other iterable of dicts, each as a line of a JSON file would be, or
            a data frame of pandas, polars or PyArrow.
        eval_examples: Rows to evaluate, in place of `eval_file`.
        predict_examples: Rows to predict, in place of `predict_file`.
        callbacks: Observers of the run, which may stop it; see `Callback`.
        **settings: The flags of the task's command, by name. docs/flags.md
            lists all with their meanings and defaults;
            albert_tf/training/keywords.pyi, for editors, with their types.
            Unless given, `do_train` is true; `do_eval` with `eval_examples`,
            `eval_file`, `validation_share` or `data_dir`; `do_predict` with
            `predict_examples` or `predict_file`.

    Raises:
        ValueError: A setting, a file or a row cannot be used.
        TrainingDiverged: The loss is not finite.
        KeyboardInterrupt: A signal or a callback stopped the training, after a
            checkpoint.
    """
    spec = specs.finetuning_spec_of(task_name)
    values = flag_values.checked(
        settings, plans.config_classes(spec), lists=plans.lists(spec)
    )
    if isinstance(task_name, str) and "task_name" in plans.defaults(spec):
        values["task_name"] = task_name
    given = train_examples, eval_examples, predict_examples
    examples = {
        use: example_files.rows_in_memory(f"{use}_examples", rows)
        for use, rows in zip(SPLITS, given, strict=True)
        if rows is not None
    }
    default_uses = {
        "do_train": True,
        "do_eval": "eval" in examples
        or any(map(values.get, ("eval_file", "data_dir", "validation_share"))),
        "do_predict": "predict" in examples or bool(values.get("predict_file")),
    }
    planned = plans.grid(spec, default_uses | values, examples)
    with _checked_and_reset(callbacks) as callbacks:
        result = run_finetunings(planned, callbacks)
    if result is None:
        raise KeyboardInterrupt(_STOPPED)
    warn_of_chance(result.scores, planned[0].evaluated)
    return result


@contextlib.contextmanager
def _checked_and_reset(
    user_callbacks: Iterable[Callback],
) -> Iterator[Sequence[Callback]]:
    """Checks callbacks; clears their requests to stop at the end."""
    callbacks = tuple(user_callbacks)
    for callback in callbacks:
        if not isinstance(callback, Callback):
            raise ValueError(
                "`callbacks` must be objects of subclasses of "
                f"albert_tf.Callback. Received: {callback!r}."
            )
    try:
        yield callbacks
    finally:
        for callback in callbacks:
            callback.stop_requested = False


def run_finetunings(
    planned: Sequence[FinetuningPlan], callbacks: Sequence[Callback] = ()
) -> RunResult | None:
    """Runs plans; compares several in the `report.html` of their parent folder.

    Returns:
        The result of the best run; None if a training was stopped.
    """
    if len(planned) == 1:
        return run_finetuning(planned[0], callbacks)
    plans_by_folder = {plan.config.output_dir: plan for plan in planned}
    outcome = several_runs.run_each(
        "run", plans_by_folder, lambda plan: run_finetuning(plan, callbacks)
    )
    if outcome is None:
        return None
    results, failures = outcome
    scores = {folder: result.scores for folder, result in results.items()}
    usable = {f: each for f, each in scores.items() if not each.is_degenerate}
    config, data = planned[0].config, planned[0].sets.data
    metric = config.best_metric or data.primary_metric
    best = several_runs.best_key(usable or scores, metric)
    summarize = registry.load(registry.SUMMARIES["grid"])
    result: RunResult = results[best]
    result.created["comparison"] = summarize(best, failures)
    return result


def run_finetuning(
    plan: FinetuningPlan, callbacks: Sequence[Callback] = ()
) -> RunResult | None:
    """Runs a plan; returns None if the training was stopped."""
    config, spec = plan.config, plan.task_spec
    plan_callbacks = [
        registry.load(reference)(plan)
        for name, reference in registry.PLAN_CALLBACKS.items()
        if getattr(config, name)
    ]
    make_task = spec.make_task(plan.task_config, plan.sets)
    all_callbacks = [*plan_callbacks, *callbacks]
    result = finetune_lib.run(
        config, plan.sets, make_task, plan.init_checkpoint, all_callbacks
    )
    if result is None:
        return None
    return _run_result(result, head_spec=spec.head_spec(plan.task_config))


def _run_result(result: Result, **fields: object) -> RunResult:
    paths = {n: os.path.abspath(getattr(result, n)) for n in _PATHS}
    return RunResult(**{**vars(result), **paths, **fields})


def pretrain(
    *,
    callbacks: Sequence[Callback] = (),
    **settings: "Unpack[PretrainingSettings]",
) -> RunResult:
    """Pretrains a model on records, and evaluates it.

        albert_tf.pretrain(
            albert_config_file="base_v2", input_file="records/train-*",
            eval_file="records/eval", do_eval=True, output_dir="run")

    Args:
        callbacks: Observers of the run, which may stop it; see `Callback`.
        **settings: The flags of `run_pretraining.py`, by name. docs/flags.md
            lists all with their meanings and defaults;
            albert_tf/training/keywords.pyi, for editors, with their types.

    Raises:
        ValueError: A setting or a file cannot be used.
        TrainingDiverged: The loss is not finite, or has jumped.
        KeyboardInterrupt: A signal or a callback stopped the training, after a
            checkpoint.
    """
    values = flag_values.checked(settings, [PretrainingConfig])
    config = plans.pretraining(values)
    with _checked_and_reset(callbacks) as callbacks:
        result = pretrain_lib.run(config, callbacks)
    if result is None:
        raise KeyboardInterrupt(_STOPPED)
    frequencies = registry.load(registry.FREQUENCIES["tokens"])
    if verdict := frequencies.verdict(result.scores):
        _LOGGER.log(*verdict)
    return _run_result(result, weights=os.path.abspath(config.output_dir))


def warn_of_chance(scores: Scores, evaluated: Sequence[ExampleSet]) -> None:
    """Warns if scores of the first set may be no better than baselines.

    The last line compares them with a simple model, if there is one.
    """
    if not evaluated:
        return
    num_examples = len(evaluated[0].examples)
    metric = evaluated[0].data.primary_metric
    if problem := scores.verdict():
        _LOGGER.warning("%s", problem)
    elif bounds := scores.interval(metric):
        baseline = scores.baselines.get(metric, -math.inf)
        if num_examples < _FEW_EXAMPLES or bounds[0] <= baseline:
            text = "Only %d examples were evaluated: on others, %s may be "
            text += "between %.3g and %.3g."
            _LOGGER.warning(text, num_examples, metric, *bounds)
    alternative = registry.load(registry.ALTERNATIVES["simple"])
    if verdict := alternative.verdict(scores, metric):
        _LOGGER.log(*verdict)
