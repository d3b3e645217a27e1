"""Results of a fine-tuned model: outputs, scores, files, report.

Data flow: records -> outputs of every record -> scores, files.
"""

import contextlib
import dataclasses
import functools
import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from albert_tf import files
from albert_tf.tasks.task import (
    ExampleSet,
    Outputs,
    Sets,
    StreamedData,
)
from albert_tf.training import (
    collapse,
    metric_log,
    records,
    report,
    run_folder,
)
from albert_tf.training.prediction import Predictor
from albert_tf.training.records import RecordSet
from albert_tf.training.run_config import FinetuningConfig
from albert_tf.training.workers import Workers

_LOGGER = logging.getLogger(__name__)

# Outputs by the fingerprint of the records, so that a set that is evaluated
# and predicted is computed once.
OutputsByRecords = dict[str, Outputs]


class FinetuningEvaluator:
    """Predicts and scores the evaluation sets; a `loop.Evaluator`."""

    def __init__(
        self,
        config: FinetuningConfig,
        sets: Sequence[RecordSet],
        predictor: Predictor,
    ) -> None:
        self._config = config
        self._sets = sets
        self._predictor = predictor
        self.primary_metric = sets[0].data.primary_metric

    def evaluate(self) -> dict[str, float]:
        """Returns the scores of the current weights.

        Where the first set can be judged, there are also its `loss` and
        `collapse.ABOVE_CHANCE`.
        """
        outputs = predict(
            self._predictor, self._sets, self._config.eval_batch_size
        )
        scores = scores_of(self._sets, outputs)
        judgement = judge(self._sets, outputs)
        if judgement:
            is_above = {
                collapse.ABOVE_CHANCE: float(not judgement.is_degenerate)
            }
            scores |= judgement.scores | is_above
        return scores


def predict(
    predictor: Predictor,
    sets: Sequence[RecordSet],
    batch_size: int,
    known: OutputsByRecords | None = None,
) -> OutputsByRecords:
    """Returns the outputs of sets, and those of the same weights known before.

    The size of a batch is that of records of the maximum length.
    """
    outputs = dict(known or {})
    for one in sets:
        if one.fingerprint not in outputs:
            outputs[one.fingerprint] = predictor.run(
                one.columns, batch_size=batch_size
            )
    return outputs


def write_streams(
    config: FinetuningConfig,
    streams: Sequence[ExampleSet],
    predictor: Predictor,
    scores: Mapping[str, float],
    workers: Workers,
) -> None:
    """Predicts examples part by part, in constant memory; the chief writes.

    If it cannot, all workers end. `scores` are those of the main evaluation
    set, empty without one.
    """
    for one in streams:
        folder = os.path.join(config.output_dir, one.name)
        _write_stream(config, one, folder, predictor, scores, workers)
        _LOGGER.info("%d predictions are in %s.", len(one.examples), folder)


def _write_stream(
    config: FinetuningConfig,
    one: ExampleSet,
    folder: str,
    predictor: Predictor,
    scores: Mapping[str, float],
    workers: Workers,
) -> None:
    with contextlib.ExitStack() as stack:

        def open_files() -> Callable[..., None]:
            os.makedirs(folder, exist_ok=True)
            data = cast(StreamedData, one.data)
            return stack.enter_context(data.open_predictions(folder, scores))

        # Other workers have no files.
        write = workers.run_in_chief(open_files) or _write_nothing
        bar = stack.enter_context(
            metric_log.progress_bar(total=len(one.examples), unit="row")
        )
        for examples, columns in records.parts_of_stream(config, one):
            outputs = predictor.run(
                columns, batch_size=config.predict_batch_size, bar=bar
            )
            workers.run_in_chief(functools.partial(write, examples, outputs))


def _write_nothing(*_: Any) -> None:
    pass


def scores_of(
    sets: Sequence[RecordSet], outputs: OutputsByRecords
) -> dict[str, float]:
    """Returns the scores of all sets; `_<name>` follows those of named ones.

    A score that is not a number, as a correlation of constant values, is 0.
    With early exit, `mean_layers` is the mean number of layers of an example.
    """
    scores: dict[str, float] = {}
    for one in sets:
        own = one.data.scores(one.examples, outputs[one.fingerprint])
        num_layers = outputs[one.fingerprint].get("num_layers")
        if num_layers is not None:
            own = own | {"mean_layers": float(np.mean(num_layers))}
        suffix = f"_{one.name}" if one.name else ""
        for key, value in own.items():
            if not math.isfinite(value):
                _LOGGER.warning("%s is %s; it is reported as 0.", key, value)
                value = 0.0
            scores[f"{key}{suffix}"] = value
    return scores


def judge(
    sets: Sequence[RecordSet], outputs: OutputsByRecords
) -> collapse.Judgement | None:
    """Compares a model with chance on the first set; see `collapse.judge`."""
    if not sets:
        return None
    first = sets[0]
    return collapse.judge(first.columns, outputs[first.fingerprint])


def write(
    config: FinetuningConfig,
    sets: Sets[RecordSet],
    outputs: OutputsByRecords,
    scores: Mapping[str, float],
    results: Mapping[str, Any],
) -> None:
    """Writes predictions and, if there was an evaluation, its results.

    Those of a set that is evaluated and predicted are written once.
    `scores` are those that `scores_of` returns; `results`, JSON values, are the
    content of `eval_results.json` and of the report.
    """
    folders = [("", one) for one in sets.prediction]
    predicted = {one.fingerprint for one in sets.prediction}
    folders += [
        ("eval", one)
        for one in sets.evaluation
        if one.fingerprint not in predicted
    ]
    for use, one in folders:
        name = "_".join(filter(None, (use, one.name)))
        folder = os.path.join(config.output_dir, name)
        os.makedirs(folder, exist_ok=True)
        paths = one.data.write_predictions(
            one.examples, outputs[one.fingerprint], folder, scores
        )
        if not use:
            _LOGGER.info("Predictions: %s.", ", ".join(paths))
    if not sets.evaluation:
        return
    path = os.path.join(config.output_dir, run_folder.RESULTS_FILE)
    kept = files.read_json_object(path, missing_ok=True)
    if report.SEEDS_KEY in kept and report.SEEDS_KEY not in results:
        _LOGGER.warning("%s has the results of all seeds and is kept.", path)
        return
    run_folder.write_results(config.output_dir, results)
    _write_report(config, sets, outputs, scores, results)


def _write_report(
    config: FinetuningConfig,
    sets: Sets[RecordSet],
    outputs: OutputsByRecords,
    scores: Mapping[str, float],
    results: Mapping[str, Any],
) -> None:
    main = sets.evaluation[0]
    own = outputs[main.fingerprint]
    labels, logits = main.labels, own.get("logits")
    sections: list[report.Section] = [
        report.length_histogram(main.columns.lengths)
    ]
    if isinstance(logits, np.ndarray) and labels is not None:
        settings = main.data.settings
        scale = settings.get("target_scale", 1.0)
        mean = settings.get("target_mean", 0.0)
        if np.issubdtype(labels.dtype, np.floating):
            labels, logits = (x * scale + mean for x in (labels, logits))
        sections += report.prediction_sections(
            main.examples, labels, logits, settings.get("labels") or ()
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
            **_facts_of_training(config, is_training=sets.train is not None),
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


def _facts_of_training(
    config: FinetuningConfig, *, is_training: bool
) -> dict[str, object]:
    """Returns the settings of the run that trained the model, by their names.

    Without training, they are those of the run in the output directory.
    """
    run = run_folder.read_fingerprint(config.output_dir)
    settings = dataclasses.asdict(config)
    if not is_training and config.num_seeds == 1:
        start = {"init_checkpoint": config.init_checkpoint}
        settings = run or start
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
