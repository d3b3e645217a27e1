"""Scores of a model on a set of records, every example counted once.

Floor: training.

What a model says of every record of a set, in the order of the records.

Floor: training.

The sets of a run as its model sees them: outputs, scores, verdict, files.

Floor: training.
"""

import logging
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.data import bucketed_batches
from albert_tf.data.bucketed_batches import EvaluationBatch, Padding
from albert_tf.data.feature_cache import RecordColumns
from albert_tf.tasks import task as task_lib
from albert_tf.tasks import task as tasks
from albert_tf.tasks.task import Outputs
from albert_tf.training import (
    collapse,
    distribution,
    finetune_report,
    run_folder,
)
from albert_tf.training.records import RecordSet, RecordSets
from albert_tf.training.run_config import FinetuningJob


class Evaluator:
    """Computes a task's evaluation scores over the replicas of a strategy.

    Args:
        task: The model, its sums and its scores.
        strategy: The replicas.
    """

    def __init__(
        self, task: tasks.Task, strategy: tf.distribute.Strategy
    ) -> None:
        self._task = task
        self._strategy = strategy
        self._batch_sums = tf.function(self._sums_over_replicas)

    def run(self, batches: Iterable[tasks.Batch]) -> dict[str, float]:
        """Returns the scores over `batches`, which give each replica its own.

        Raises:
            ValueError: There is no batch.
        """
        total = np.zeros(len(self._task.total_names))
        count = 0
        for batch in batches:
            total += self._batch_sums(batch).numpy().astype(np.float64)
            count += 1
        if not count:
            raise ValueError("There is nothing to evaluate: no records.")
        names = self._task.total_names
        return self._task.evaluation_scores(
            dict(zip(names, total.tolist(), strict=True))
        )

    def _sums_over_replicas(self, batch: tasks.Batch) -> tf.Tensor:
        sums = self._strategy.run(self._replica_sums, args=(batch,))
        return self._strategy.reduce(
            tf.distribute.ReduceOp.SUM, sums, axis=None
        )

    def _replica_sums(self, batch: tasks.Batch) -> tf.Tensor:
        # The loss itself is not used, so what it is divided by is no matter.
        loss_denominators = {
            name: tf.ones([]) for name in self._task.loss_denominators(batch)
        }
        _, sums = self._task.loss(batch, loss_denominators, seed=None)
        return tf.stack([sums[name] for name in self._task.total_names])


class Predictor:
    """Computes a task's outputs over the replicas of a strategy.

    Args:
        task: The model and its outputs.
        strategy: The replicas.
        padding: To which lengths batches are padded.
    """

    def __init__(
        self,
        task: task_lib.FinetuningTask,
        strategy: tf.distribute.Strategy,
        padding: Padding,
    ) -> None:
        self._task = task
        self._strategy = strategy
        self._padding = padding
        self._next_outputs = tf.function(self._next_outputs_of_all)

    def run(
        self, columns: RecordColumns, *, batch_size: int
    ) -> dict[str, np.ndarray | list[np.ndarray]]:
        """Returns the outputs of all records.

        Args:
            columns: The records, N.
            batch_size: See `bucketed_batches.plan_evaluation`.

        Returns:
            By name of output an array `[N, ...]`; for outputs along the
            sequence, a list of N arrays, each of its record's own length.
        """
        plan = bucketed_batches.plan_evaluation(
            columns.lengths,
            batch_size=batch_size,
            padding=self._padding,
            num_replicas=self._strategy.num_replicas_in_sync,
        )
        iterator = iter(self._dataset(columns, plan))
        rows: dict[str, list[np.ndarray]] = {}
        for batch in plan:
            outputs = self._next_outputs(iterator)
            lengths = columns.lengths[batch.indices]
            for name, values in outputs.items():
                real = list(self._rows(values)[: len(batch.indices)])
                if name in self._task.sequence_outputs:
                    real = [
                        row[:length]
                        for row, length in zip(real, lengths, strict=True)
                    ]
                rows.setdefault(name, []).extend(real)
        order = np.argsort(np.concatenate([b.indices for b in plan]))
        return {
            name: in_order
            if name in self._task.sequence_outputs
            else np.stack(in_order)
            for name, in_order in (
                (name, [values[place] for place in order])
                for name, values in rows.items()
            )
        }

    def _dataset(
        self, columns: RecordColumns, plan: list[EvaluationBatch]
    ) -> tf.data.Dataset:
        def make(shards: int, index: int, replicas: int) -> tf.data.Dataset:
            return bucketed_batches.evaluation_dataset(
                columns,
                plan,
                padding=self._padding,
                num_input_shards=shards,
                shard_index=index,
                replicas_per_shard=replicas,
            )

        return distribution.distribute(self._strategy, make)

    def _next_outputs_of_all(
        self, iterator: Iterator[tasks.Batch]
    ) -> dict[str, tf.Tensor]:
        """Returns the outputs of the next batch, by replica."""
        return self._strategy.run(self._replica_outputs, args=(next(iterator),))

    def _replica_outputs(self, batch: tasks.Batch) -> dict[str, tf.Tensor]:
        outputs = self._task.outputs(batch)
        if not isinstance(
            self._strategy, tf.distribute.MultiWorkerMirroredStrategy
        ):
            return outputs
        return {name: _from_all(values) for name, values in outputs.items()}

    def _rows(self, values: tf.Tensor) -> np.ndarray:
        """Returns the rows of all replicas in their order."""
        parts = self._strategy.experimental_local_results(values)
        if isinstance(
            self._strategy, tf.distribute.MultiWorkerMirroredStrategy
        ):
            parts = parts[:1]  # each has all rows
        return np.concatenate([part.numpy() for part in parts])


def _from_all(values: tf.Tensor) -> tf.Tensor:
    """Returns the rows of the replicas of all workers, in each of them."""
    context = tf.distribute.get_replica_context()
    number = context.num_replicas_in_sync
    rows = tf.shape(values)[0]
    first = context.replica_id_in_sync_group * rows
    places = first + tf.range(rows)
    shape = tf.concat([[number * rows], tf.shape(values)[1:]], 0)
    # The sum of arrays that are 0 but for each replica's own rows: the one
    # collective operation that every strategy has on every device.
    scattered = tf.scatter_nd(places[:, None], values, shape)
    return context.all_reduce(tf.distribute.ReduceOp.SUM, scattered)


_LOGGER = logging.getLogger(__name__)

_LABELS = "label_ids"


class EvaluatedSets:
    """What the model of a predictor says of a job's sets.

    Outputs are computed once, until the weights are said to have changed.

    Args:
        job: The run.
        sets: Its records.
        predictor: Of the model.
    """

    def __init__(
        self,
        job: FinetuningJob,
        sets: RecordSets,
        predictor: Predictor,
    ) -> None:
        self._job = job
        self._sets = sets
        self._predictor = predictor
        self._outputs_by_set: dict[str, Outputs] = {}

    def forget(self) -> None:
        """Drops all outputs, because the weights have changed."""
        self._outputs_by_set.clear()

    def predict(self) -> None:
        """Computes the outputs of the sets to predict.

        All workers do, before one of them writes.
        """
        for one in self._sets.prediction:
            self._outputs(one, self._job.finetuning.predict_batch_size)

    def scores(self) -> dict[str, float]:
        """Returns the scores of all evaluation sets."""
        scores: dict[str, float] = {}
        for one in self._sets.evaluation:
            own = one.data.scores(one.examples, self._outputs(one))
            suffix = f"_{one.name}" if one.name else ""
            scores |= {
                f"{key}{suffix}": _defined(key, value)
                for key, value in own.items()
            }
        return scores

    @property
    def can_be_judged(self) -> bool:
        """Whether one prediction for all of the first set is a bad sign."""
        return bool(self._sets.evaluation) and _can_be_judged(
            self._sets.evaluation[0]
        )

    def verdict(self) -> str | None:
        """Says that the first set's predictions are constant, if they are.

        Returns:
            A sentence, or None; see `collapse.are_constant`.
        """
        if not self.can_be_judged:
            return None
        main = self._sets.evaluation[0]
        outputs = self._outputs(main)
        if not collapse.are_constant(outputs, labels_of(main)):
            return None
        which = "All" if collapse.are_constant(outputs) else "All but a few of"
        return (
            f"{which} {main.columns.num_records} records of the evaluation set "
            "got the same prediction."
        )

    def write(self, results: Mapping[str, Any]) -> None:
        """Writes the predictions, and `results` and the report.

        Without an evaluation set there are only the predictions.

        Args:
            results: For `eval_results.json` and the report; JSON values.
        """
        folder = self._job.output_dir
        for one in self._sets.evaluation:
            name = "_".join(filter(None, ("eval", one.name)))
            self._write_predictions(one, os.path.join(folder, name))
        for one in self._sets.prediction:
            paths = self._write_predictions(
                one, os.path.join(folder, one.name) if one.name else folder
            )
            _LOGGER.info("Predictions: %s.", ", ".join(paths))
        if self._sets.evaluation:
            main = self._sets.evaluation[0]
            run_folder.write_results(folder, results)
            finetune_report.write(
                self._job,
                results=results,
                records=main,
                outputs=self._outputs(main),
            )

    def _outputs(self, records: RecordSet, batch_size: int = 0) -> Outputs:
        """Returns the outputs of a set by the weights as they are.

        Of a set that is evaluated and predicted they are computed once.
        """
        if records.key not in self._outputs_by_set:
            self._outputs_by_set[records.key] = self._predictor.run(
                records.columns,
                batch_size=batch_size or self._job.training.eval_batch_size,
            )
        return self._outputs_by_set[records.key]

    def _write_predictions(self, records: RecordSet, folder: str) -> list[str]:
        os.makedirs(folder, exist_ok=True)
        return records.data.write_predictions(
            records.examples, self._outputs(records), folder
        )


def labels_of(records: RecordSet) -> np.ndarray | None:
    """Returns the labels of records, `[N]`; None if they have none."""
    columns = records.columns
    return columns.field(_LABELS) if _LABELS in columns.values else None


def _can_be_judged(records: RecordSet) -> bool:
    if records.columns.num_records < collapse.LEAST_RECORDS:
        return False
    labels = labels_of(records)
    return labels is None or bool((labels != labels[0]).any())


def _defined(key: str, value: float) -> float:
    if math.isfinite(value):
        return value
    _LOGGER.warning("%s is %s, which is taken for 0.", key, value)
    return 0.0
