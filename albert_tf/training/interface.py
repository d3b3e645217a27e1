"""Fine-tuning and pretraining in Python: settings in, results out.

The commands call the same functions with their flags.
"""

import dataclasses
import functools
import glob
import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from albert_tf import settings as settings_lib
from albert_tf.checkpoints import run_checkpoints
from albert_tf.export import saved_model
from albert_tf.export.export_config import ExportConfig
from albert_tf.export.saved_model import ExportSummary
from albert_tf.inference.predictor import Predictor, load_predictor
from albert_tf.metrics.scores import Scores
from albert_tf.tasks import example_files
from albert_tf.tasks import spec as specs
from albert_tf.tasks.spec import FinetuningSpec, HeadSpec
from albert_tf.tasks.task import SPLITS
from albert_tf.text.tokenizer import VocabularyBeside
from albert_tf.training import (
    baselines,
    comparison,
    report,
)
from albert_tf.training import finetune as finetune_lib
from albert_tf.training import plan as plans
from albert_tf.training import pretrain as pretrain_lib
from albert_tf.training.plan import FinetuningPlan
from albert_tf.training.pretrain_config import PretrainingConfig

if TYPE_CHECKING:
    from typing import Unpack

    from albert_tf.training.keywords import (
        FinetuningSettings,
        PretrainingSettings,
    )

_LOGGER = logging.getLogger(__name__)

_STOPPED = "A signal stopped the run. Call it again to go on."


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunResult:
    """What a run has given.

    Args:
        scores: Of the evaluation, by their names in `eval_results.json`; none
            without one.
        output_dir: The output directory of the run.
        weights: The folder of the weights that have the scores.
        export: What was exported, if `export_dir` was given.
        head: What is done with the head; None for that of the checkpoint.
        comparison: Of the best of several runs, tables of all of them.
    """

    scores: Scores
    output_dir: str
    weights: str
    export: ExportSummary | None = None
    head: HeadSpec | None = None
    comparison: Sequence[report.Section] = ()

    @property
    def baselines(self) -> dict[str, float]:
        """What a score is without a model, by its name."""
        return self.scores.baselines

    @functools.cached_property
    def predictor(self) -> Predictor:
        """The trained model, which takes texts; see `load_predictor`.

        It is loaded when it is first asked for.
        """
        return load_predictor(self.weights, head=self.head)


def finetune(
    task_name: str | FinetuningSpec,
    *,
    train_examples: Any = None,
    eval_examples: Any = None,
    predict_examples: Any = None,
    **settings: "Unpack[FinetuningSettings]",
) -> RunResult:
    """Fine-tunes a model, evaluates it and writes predictions.

        result = albert_tf.finetune(
            "custom", train_file="messages.csv", text_columns=["text"],
            label_column="kind", validation_share=0.2,
            init_checkpoint="albert_base", output_dir="messages")
        result.scores["accuracy"], result.baselines["accuracy"]
        result.predictor.predict("Where do I find my invoices?")

    Called again with the same settings, it goes on where it stopped. Numbers
    may be lists, as `learning_rate=[1e-5, 2e-5]`: then every combination is a
    run, in a folder of its own below `output_dir`, and the result is the best.

    Args:
        task_name: A task of GLUE, such as `mrpc`; `custom`, a table of your
            own; `similarity`; `squad`; or `race`. Or the record of another
            task.
        train_examples: Rows to train on in place of `train_file`: what a line
            of a JSON file would hold, as a list of dicts, any iterable of
            them, or a DataFrame of pandas.
        eval_examples: Rows to evaluate, in place of `eval_file`.
        predict_examples: Rows to predict, in place of `predict_file`.
        **settings: The flags of the task's command, by name. docs/flags.md
            lists all with their meanings and defaults;
            albert_tf/training/keywords.pyi, for editors, with their types.
            Unless given, `do_train` is true; `do_eval` with `eval_examples`,
            `eval_file`, `validation_share` or `data_dir`; `do_predict` with
            `predict_examples` or `predict_file`.

    Raises:
        ValueError: A setting, a file or a row cannot be used.
        KeyboardInterrupt: A signal stopped the training, after a checkpoint.
    """
    spec = specs.finetuning_spec_of(task_name)
    values = settings_lib.checked(
        settings, plans.config_classes(spec), lists=plans.lists(spec)
    )
    if isinstance(task_name, str) and "task_name" in plans.defaults(spec):
        values["task_name"] = task_name
    examples = {
        use: example_files.rows_in_memory(f"{use}_examples", rows)
        for use, rows in zip(
            SPLITS,
            (train_examples, eval_examples, predict_examples),
            strict=True,
        )
        if rows is not None
    }
    uses = {
        "do_train": True,
        "do_eval": "eval" in examples
        or any(map(values.get, ("eval_file", "data_dir", "validation_share"))),
        "do_predict": "predict" in examples or bool(values.get("predict_file")),
    }
    plan, *others = plans.grid(spec, uses | values, examples)
    result = run_finetunings([plan, *others])
    if result is None:
        raise KeyboardInterrupt(_STOPPED)
    baselines.warn_of(result.scores, plan.sets.evaluation)
    return result


def run_finetunings(planned: Sequence[FinetuningPlan]) -> RunResult | None:
    """Does what plans say; of several, writes `report.html` above their runs.

    Returns:
        The best run, with its comparison with the others that have not
        diverged; None if a signal stopped a training.
    """
    if len(planned) == 1:
        return run_finetuning(planned[0])
    by_folder = {plan.config.output_dir: plan for plan in planned}
    found = finetune_lib.run_each("run", by_folder, run_finetuning)
    if found is None:
        return None
    results, failures = found
    scores = {folder: one.scores for folder, one in results.items()}
    sound = {f: one for f, one in scores.items() if not one.is_degenerate}
    config, data = planned[0].config, planned[0].sets.data
    metric = config.best_metric or data.primary_metric
    best = finetune_lib.best_seed(sound or scores, metric)
    above = os.path.dirname(best)
    # Those of earlier calls with other numbers, too.
    files = os.path.join(
        glob.escape(above), "*=*", run_checkpoints.RESULTS_FILE
    )
    others = map(os.path.dirname, sorted(glob.glob(files)))
    paths = [*dict.fromkeys([best, *others])]
    tables = comparison.sections(paths, failures)
    page = os.path.join(above, report.FILE_NAME)
    comparison.write(page, paths, tables)
    _LOGGER.info("The runs are compared in %s.", page)
    result: RunResult = results[best]
    return dataclasses.replace(result, comparison=tables)


def run_finetuning(plan: FinetuningPlan) -> RunResult | None:
    """Does what a plan says; returns None if a signal stopped the training."""
    config, spec = plan.config, plan.spec
    export = None
    if config.export_dir:
        # An export that cannot succeed is refused before hours of training.
        export = _export_config(plan, config.output_dir, Scores())
        saved_model.check(export, plan.source)
    make_task = spec.make_task(plan.task_config, plan.sets)
    result = finetune_lib.run(config, plan.sets, make_task, plan.start)
    if result is None:
        return None
    summary = None
    if export:
        export = _export_config(plan, result.weights, result.scores)
        summary = saved_model.export(export)
    return RunResult(
        scores=result.scores,
        output_dir=os.path.abspath(config.output_dir),
        weights=os.path.abspath(result.weights),
        export=summary,
        head=spec.head_spec(plan.task_config),
    )


def _export_config(
    plan: FinetuningPlan, weights: str, scores: Scores
) -> ExportConfig:
    config, sets = plan.config, plan.sets
    head = plan.spec.head_spec(plan.task_config)
    # Of different numbers of options, that of the set to predict.
    values = vars(plan.task_config) | vars(sets.all[-1].data)
    values |= plan.spec.chosen(sets.data, scores)
    # A run that was trained has its config and vocabulary in its folder.
    given = [*settings_lib.fields_of(VocabularyBeside), "albert_config_file"]
    return ExportConfig(
        init_checkpoint=weights,
        export_dir=config.export_dir or "",
        **{n: getattr(config, n) for n in given if not config.do_train},
        head=head,
        max_seq_length=config.max_seq_length,
        settings={
            name: values[name]
            for name in head.serving_settings.names()
            if name in values
        },
    )


def pretrain(**settings: "Unpack[PretrainingSettings]") -> RunResult:
    """Pretrains a model on records, and evaluates it.

        albert_tf.pretrain(
            albert_config_file="base_v2", input_file="records/train-*",
            eval_file="records/eval", do_eval=True, output_dir="run")

    Args:
        **settings: The flags of `run_pretraining.py`, by name. docs/flags.md
            lists all with their meanings and defaults;
            albert_tf/training/keywords.pyi, for editors, with their types.

    Raises:
        ValueError: A setting or a file cannot be used.
        KeyboardInterrupt: A signal stopped the training, after a checkpoint.
    """
    values = settings_lib.checked(settings, [PretrainingConfig])
    config = plans.pretraining(values)
    scores = pretrain_lib.run(config)
    if scores is None:
        raise KeyboardInterrupt(_STOPPED)
    return RunResult(
        scores=scores,
        output_dir=os.path.abspath(config.output_dir),
        weights=os.path.abspath(config.output_dir),
    )
