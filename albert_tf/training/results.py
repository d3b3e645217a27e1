"""Results of a fine-tuned model: outputs, scores, verdict, files, report.

Data flow: outputs of every record -> [this file] -> scores, files.
Floor: training.
"""

import logging
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.tasks.task import Outputs, Sets
from albert_tf.training import (
    collapse,
    evaluation,
    metric_log,
    report,
    run_folder,
)
from albert_tf.training.records import RecordSet
from albert_tf.training.run_config import FinetuningConfig

_LOGGER = logging.getLogger(__name__)

# Outputs by the fingerprint of the records, so that a set that is evaluated
# and predicted is computed once.
OutputsByRecords = dict[str, Outputs]


class FinetuningEvaluator:
    """Predicts and scores the evaluation sets; a `loop.Evaluator`.

    Args:
        config: Settings of the run.
        sets: The evaluation sets, at least one.
        predictor: Computes the outputs of the model that is trained.
    """

    def __init__(
        self,
        config: FinetuningConfig,
        sets: Sequence[RecordSet],
        predictor: evaluation.Predictor,
    ) -> None:
        self._config = config
        self._sets = sets
        self._predictor = predictor
        self.primary_metric = sets[0].data.primary_metric
        # A short trial run may well predict a constant.
        is_trial = config.num_train_steps < collapse.LEAST_STEPS
        self.disqualifying_metric = "" if is_trial else collapse.CONSTANT_KEY

    def evaluate(self) -> dict[str, float]:
        """Returns the scores of the current weights, and the verdict on them.

        Returns:
            Scores of all sets; and `collapse.CONSTANT_KEY`, 1 if the
            predictions of the first set are constant, unless it is too small
            to judge.
        """
        outputs = predict(
            self._predictor, self._sets, self._config.eval_batch_size
        )
        scores = scores_of(self._sets, outputs)
        if can_be_judged(self._sets[0]):
            problem = constant_predictions(self._sets[0], outputs)
            scores[collapse.CONSTANT_KEY] = float(problem is not None)
        return scores


def predict(
    predictor: evaluation.Predictor,
    sets: Sequence[RecordSet],
    batch_size: int,
    known: Mapping[str, Outputs] = {},  # noqa: B006
) -> OutputsByRecords:
    """Returns the outputs of sets, and those already known.

    Args:
        predictor: Computes them.
        sets: Sets of records.
        batch_size: Records of the maximum length per batch.
        known: Outputs of the same weights, not computed again.
    """
    outputs = dict(known)
    for one in sets:
        if one.fingerprint not in outputs:
            outputs[one.fingerprint] = predictor.run(
                one.columns, batch_size=batch_size
            )
    return outputs


def scores_of(
    sets: Sequence[RecordSet], outputs: OutputsByRecords
) -> dict[str, float]:
    """Returns the scores of all sets; `_<name>` follows those of named ones.

    A score that is not a number, as a correlation of constant values, is 0.
    """
    scores: dict[str, float] = {}
    for one in sets:
        own = one.data.scores(one.examples, outputs[one.fingerprint])
        suffix = f"_{one.name}" if one.name else ""
        for key, value in own.items():
            if not math.isfinite(value):
                _LOGGER.warning("%s is %s; it is reported as 0.", key, value)
                value = 0.0
            scores[f"{key}{suffix}"] = value
    return scores


def constant_predictions(
    records: RecordSet, outputs: OutputsByRecords
) -> str | None:
    """Returns a sentence if a set's predictions are constant, else None.

    See `collapse.are_constant`. A set that is too small is not judged.
    """
    if not can_be_judged(records):
        return None
    own = outputs[records.fingerprint]
    if not collapse.are_constant(own, records.labels):
        return None
    which = "All" if collapse.are_constant(own) else "All but a few of"
    return (
        f"{which} {records.columns.num_records} records of the evaluation set "
        "got the same prediction."
    )


def can_be_judged(records: RecordSet) -> bool:
    """Returns whether constant predictions of a set are a bad sign."""
    if records.columns.num_records < collapse.LEAST_RECORDS:
        return False
    labels = records.labels
    return labels is None or bool((labels != labels[0]).any())


def write(
    config: FinetuningConfig,
    sets: Sets[RecordSet],
    outputs: OutputsByRecords,
    scores: Mapping[str, float],
    results: Mapping[str, Any],
) -> None:
    """Writes predictions and, if there was an evaluation, its results.

    Args:
        config: Settings of the run.
        sets: Sets of records.
        outputs: Outputs of the sets to evaluate and to predict.
        scores: Scores of the evaluation sets, as `scores_of` returns them.
        results: Content of `eval_results.json` and of the report; JSON values.
    """
    folders = [("eval", one) for one in sets.evaluation]
    folders += [("", one) for one in sets.prediction]
    for use, one in folders:
        name = "_".join(filter(None, (use, one.name)))
        folder = os.path.join(config.output_dir, name)
        os.makedirs(folder, exist_ok=True)
        paths = one.data.write_predictions(
            one.examples, outputs[one.fingerprint], folder, scores
        )
        if not use:
            _LOGGER.info("Predictions: %s.", ", ".join(paths))
    if sets.evaluation:
        run_folder.write_results(config.output_dir, results)
        _write_report(config, sets.evaluation[0], outputs, scores, results)


def _write_report(
    config: FinetuningConfig,
    main: RecordSet,
    outputs: OutputsByRecords,
    scores: Mapping[str, float],
    results: Mapping[str, Any],
) -> None:
    own = outputs[main.fingerprint]
    labels, logits = main.labels, own.get("logits")
    sections: list[report.Section] = [
        report.length_histogram(main.columns.lengths)
    ]
    if isinstance(logits, np.ndarray) and labels is not None:
        sections += report.prediction_sections(
            main.examples,
            labels,
            logits,
            main.data.settings.get("labels") or (),
        )
    sections += map(
        report.section_of,
        main.data.report_sections(main.examples, own, scores),
    )
    report.write_finetuning(
        config.output_dir,
        task_name=main.data.name,
        facts={
            "evaluated examples": len(main.examples),
            "initial checkpoint": config.init_checkpoint or "none",
            "training steps": config.num_train_steps,
            "batch size": config.train_batch_size,
            "learning rate": config.learning_rate,
        },
        results=results,
        logs={
            str(one.random_seed): metric_log.read_lines(one.output_dir)
            for one in config.seed_configs()
        }
        or {"": metric_log.read_lines(config.output_dir)},
        primary_metric=main.data.primary_metric,
        sections=sections,
    )
