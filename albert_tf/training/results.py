"""Results of a fine-tuned model: scores, files of predictions, report.

Data flow: records -> outputs of every record -> scores, files.
"""

import contextlib
import dataclasses
import functools
import logging
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf import files
from albert_tf.tasks.task import Examples, ExampleSet, Outputs, Sets
from albert_tf.training import (
    chance,
    metric_log,
    report,
    run_folder,
)
from albert_tf.training.chance import Comparison
from albert_tf.training.prediction import Predictor
from albert_tf.training.records import RecordSet
from albert_tf.training.run_config import FinetuningConfig
from albert_tf.training.workers import Workers

_LOGGER = logging.getLogger(__name__)


class Evaluation(NamedTuple):
    """What a model gives for the evaluation sets.

    `outputs` has an item for each set; `scores` are the task's, of all sets;
    `comparison` is that of the first set with chance, where it is possible.
    """

    outputs: Sequence[Outputs]
    scores: dict[str, float]
    comparison: Comparison | None

    @property
    def scores_and_loss(self) -> dict[str, float]:
        """The scores, and the `loss` on the first set if it is known."""
        loss = self.comparison.loss if self.comparison else math.nan
        return self.scores | ({"loss": loss} if math.isfinite(loss) else {})


def evaluate(
    predictor: Predictor, sets: Sequence[RecordSet], batch_size: int
) -> Evaluation:
    """Predicts and scores sets; `_<name>` follows the scores of named ones.

    A score that is not a number, as a correlation of constant values, is 0.
    With early exit, `mean_layers` is the mean number of layers of an example.
    """
    outputs, scores = [], {}
    for one in sets:
        outputs.append(predictor.run(one.columns, batch_size=batch_size))
        own = one.data.scores(one.examples, outputs[-1])
        if "num_layers" in outputs[-1]:
            own["mean_layers"] = float(np.mean(outputs[-1]["num_layers"]))
        suffix = f"_{one.name}" if one.name else ""
        for key, value in own.items():
            if not math.isfinite(value):
                _LOGGER.warning("%s is %s; it is reported as 0.", key, value)
                value = 0.0
            scores[f"{key}{suffix}"] = value
    comparison = None
    if sets:
        comparison = chance.compare_with_chance(sets[0].columns, outputs[0])
    return Evaluation(outputs, scores, comparison)


class FinetuningEvaluator:
    """Predicts and scores the evaluation sets; a `loop.Evaluator`."""

    def __init__(
        self,
        config: FinetuningConfig,
        sets: Sequence[RecordSet],
        predictor: Predictor,
    ) -> None:
        self._batch_size = config.eval_batch_size
        self._sets = sets
        self._predictor = predictor
        self.primary_metric = sets[0].data.primary_metric

    def evaluate(self) -> dict[str, float]:
        """Returns the scores of the current weights, and the `loss`."""
        return evaluate(
            self._predictor, self._sets, self._batch_size
        ).scores_and_loss


def write_predictions(
    examples: ExampleSet,
    chunks: Iterable[tuple[Examples, Outputs]],
    folder: str,
    scores: Mapping[str, float],
    workers: Workers,
) -> None:
    """Writes the predictions of a set, each chunk as soon as it is computed.

    All workers compute, the chief writes; if it cannot, all end. `scores` are
    those of the evaluation, empty without one.
    """
    with contextlib.ExitStack() as stack:

        def open_files() -> Callable[[Examples, Outputs], None]:
            os.makedirs(folder, exist_ok=True)
            return stack.enter_context(
                examples.data.open_predictions(folder, scores)
            )

        # Other workers have no files.
        write = workers.run_in_chief(open_files) or _write_nothing
        for chunk, outputs in chunks:
            workers.run_in_chief(functools.partial(write, chunk, outputs))
    _LOGGER.info(
        "Predictions of %d examples are in %s.", len(examples.examples), folder
    )


def _write_nothing(chunk: Examples, outputs: Outputs) -> None:
    pass


def write_results(
    config: FinetuningConfig,
    sets: Sets[RecordSet],
    evaluation: Evaluation,
    results: Mapping[str, Any],
) -> None:
    """Writes results, JSON values, to `eval_results.json` and the report."""
    path = os.path.join(config.output_dir, run_folder.RESULTS_FILE)
    kept = files.read_json_object(path, missing_ok=True)
    if report.SEEDS_KEY in kept and report.SEEDS_KEY not in results:
        _LOGGER.warning("%s has the results of all seeds and is kept.", path)
        return
    run_folder.write_results(config.output_dir, results)
    main, outputs = sets.evaluation[0], evaluation.outputs[0]
    report.write_finetuning(
        config.output_dir,
        task_name=main.data.name,
        facts={
            "evaluated examples": len(main.examples),
            **_facts_of_training(config, is_training=sets.train is not None),
        },
        results=results,
        logs={
            str(one.random_seed): metric_log.read_lines(one.output_dir)
            for one in config.seed_configs()
        }
        or {"": metric_log.read_lines(config.output_dir)},
        primary_metric=main.data.primary_metric,
        sections=_sections(main, outputs, evaluation.scores),
    )


def _sections(
    main: RecordSet, outputs: Outputs, scores: Mapping[str, float]
) -> list[report.Section]:
    """Returns the sections of the report that the main set gives."""
    sections: list[report.Section] = []
    labels, logits = main.labels, outputs.get("logits")
    if isinstance(logits, np.ndarray) and labels is not None:
        settings = main.data.settings
        if np.issubdtype(labels.dtype, np.floating):
            scale = settings.get("target_scale", 1.0)
            mean = settings.get("target_mean", 0.0)
            labels, logits = (x * scale + mean for x in (labels, logits))
        sections += report.prediction_sections(
            main.examples, labels, logits, settings.get("labels") or ()
        )
    described = main.data.report_sections(main.examples, outputs, scores)
    return [*sections, *map(report.section_of, described)]


def _facts_of_training(
    config: FinetuningConfig, *, is_training: bool
) -> dict[str, object]:
    """Returns the settings of the run that trained the model, by their names.

    Without training, they are those of the run in the output directory.
    """
    settings = dataclasses.asdict(config)
    if not is_training and config.num_seeds == 1:
        settings = run_folder.read_fingerprint(config.output_dir) or {
            "init_checkpoint": config.init_checkpoint
        }
    names = {
        "initial checkpoint": "init_checkpoint",
        "training steps": "num_train_steps",
        "batch size": "train_batch_size",
        "learning rate": "learning_rate",
    }
    return {
        shown: "none" if settings[name] is None else settings[name]
        for shown, name in names.items()
        if name in settings
    }
