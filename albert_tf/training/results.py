"""Results of a fine-tuned model: outputs, scores, verdict, files, report.

Data flow: records -> outputs of every record -> scores, files.
Floor: training.
"""

import contextlib
import functools
import logging
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import tensorflow as tf

from albert_tf.data import bucketed_batches
from albert_tf.data.bucketed_batches import Padding
from albert_tf.data.feature_cache import RecordColumns
from albert_tf.tasks.task import (
    Batch,
    ExampleSet,
    FinetuningTask,
    Outputs,
    Sets,
    StreamedData,
)
from albert_tf.training import (
    collapse,
    distribution,
    metric_log,
    records,
    report,
    run_folder,
)
from albert_tf.training.records import RecordSet
from albert_tf.training.run_config import FinetuningConfig

if TYPE_CHECKING:
    import tqdm

_LOGGER = logging.getLogger(__name__)

# Outputs by the fingerprint of the records, so that a set that is evaluated
# and predicted is computed once.
OutputsByRecords = dict[str, Outputs]


class Predictor:
    """Computes a task's outputs for every record, in the order of the records.

    Batches are padded to the lengths that `padding` gives.
    """

    def __init__(
        self,
        task: FinetuningTask,
        strategy: tf.distribute.Strategy,
        padding: Padding,
    ) -> None:
        self._task = task
        self._strategy = strategy
        self._padding = padding
        self._has_workers = isinstance(
            strategy, tf.distribute.MultiWorkerMirroredStrategy
        )
        self._next_outputs = tf.function(self._outputs_of_replicas)

    def run(
        self,
        columns: RecordColumns,
        *,
        batch_size: int,
        bar: "tqdm.tqdm[Any] | None" = None,
    ) -> dict[str, np.ndarray | list[np.ndarray]]:
        """Returns the outputs of N records by name.

        They are arrays `[N, ...]`; outputs along the sequence are lists of N
        arrays, each of its record's length. `bar` counts records; None for a
        bar of these alone.
        """
        if bar is None:
            with metric_log.progress_bar(
                total=columns.num_records, unit="record"
            ) as bar:
                return self.run(columns, batch_size=batch_size, bar=bar)
        plan = bucketed_batches.plan_evaluation(
            columns.lengths,
            batch_size=batch_size,
            padding=self._padding,
            num_replicas=self._strategy.num_replicas_in_sync,
        )
        dataset = distribution.distribute(
            self._strategy,
            functools.partial(
                bucketed_batches.evaluation_dataset,
                columns,
                plan,
                padding=self._padding,
            ),
        )
        iterator = iter(dataset)
        rows: dict[str, list[np.ndarray]] = {}
        for batch in plan:
            outputs = self._next_outputs(iterator)
            lengths = columns.lengths[batch.indices]
            for name, values in outputs.items():
                # Without the rows that only fill the batch.
                own = list(self._rows(values)[: len(batch.indices)])
                if name in self._task.sequence_outputs:
                    own = [
                        row[:length]
                        for row, length in zip(own, lengths, strict=True)
                    ]
                rows.setdefault(name, []).extend(own)
            bar.update(len(batch.indices))
        order = np.argsort(np.concatenate([b.indices for b in plan]))
        results: dict[str, np.ndarray | list[np.ndarray]] = {}
        for name, values in rows.items():
            in_order = [values[position] for position in order]
            is_ragged = name in self._task.sequence_outputs
            results[name] = in_order if is_ragged else np.stack(in_order)
        return results

    def _outputs_of_replicas(
        self, iterator: Iterator[Batch]
    ) -> dict[str, tf.Tensor]:
        return self._strategy.run(self._replica_outputs, args=(next(iterator),))

    def _replica_outputs(self, batch: Batch) -> dict[str, tf.Tensor]:
        outputs = self._task.outputs(batch)
        if self._has_workers:
            return {name: _from_all(rows) for name, rows in outputs.items()}
        return outputs

    def _rows(self, values: tf.Tensor) -> np.ndarray:
        """Returns the rows of all replicas in their order."""
        parts = self._strategy.experimental_local_results(values)
        if self._has_workers:
            parts = parts[:1]  # each has all rows
        return np.concatenate([part.numpy() for part in parts])


def _from_all(values: tf.Tensor) -> tf.Tensor:
    """Returns the rows of the replicas of all workers, in each of them."""
    context = tf.distribute.get_replica_context()
    number = context.num_replicas_in_sync
    rows = tf.shape(values)[0]
    first = context.replica_id_in_sync_group * rows
    positions = first + tf.range(rows)
    shape = tf.concat([[number * rows], tf.shape(values)[1:]], 0)
    # The sum of arrays that are 0 but for each replica's own rows: the one
    # collective operation that every strategy has on every device.
    scattered = tf.scatter_nd(positions[:, None], values, shape)
    return context.all_reduce(tf.distribute.ReduceOp.SUM, scattered)


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
        # A short trial run may well predict a constant.
        is_trial = config.num_train_steps < collapse.LEAST_STEPS
        self.disqualifying_metric = "" if is_trial else collapse.CONSTANT_KEY

    def evaluate(self) -> dict[str, float]:
        """Returns the scores of the current weights, and the verdict on them.

        The verdict is `collapse.CONSTANT_KEY`, 1 if the predictions of the
        first set are constant; there is none if it is too small to judge.
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
    *,
    is_chief: bool,
) -> None:
    """Predicts examples part by part, in constant memory; the chief writes.

    `scores` are those of the main evaluation set, empty without one.
    """
    for one in streams:
        data = cast(StreamedData, one.data)
        folder = os.path.join(config.output_dir, one.name)
        with contextlib.ExitStack() as stack:
            write = None
            if is_chief:
                os.makedirs(folder, exist_ok=True)
                write = stack.enter_context(
                    data.open_predictions(folder, scores)
                )
            bar = stack.enter_context(
                metric_log.progress_bar(total=len(one.examples), unit="row")
            )
            for examples, columns in records.parts_of_stream(config, one):
                outputs = predictor.run(
                    columns, batch_size=config.predict_batch_size, bar=bar
                )
                if write:
                    write(examples, outputs)
        if is_chief:
            _LOGGER.info("%d predictions are in %s.", len(one.examples), folder)


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

    `scores` are those that `scores_of` returns; `results`, JSON values, are the
    content of `eval_results.json` and of the report.
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
