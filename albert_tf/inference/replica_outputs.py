"""Outputs of every record, computed by the replicas of a strategy."""

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.data import bucketed_batches
from albert_tf.data.record_columns import (
    EvaluationPlan,
    Padding,
    RecordColumns,
)
from albert_tf.devices import strategies
from albert_tf.devices.workers import Workers
from albert_tf.inference.record_outputs import OutputComputer
from albert_tf.tasks import task as task_lib
from albert_tf.tasks.task import Outputs


def computer(
    task: task_lib.AnswerTask,
    workers: Workers,
    padding: Padding,
    **options: Any,
) -> OutputComputer:
    """Returns what computes outputs on the devices of a strategy."""
    if strategies.is_default(workers.strategy):
        return OutputComputer(task, padding, **options)
    return ReplicaOutputs(task, workers, padding, **options)


class ReplicaOutputs(OutputComputer):
    """An `OutputComputer` whose batches are divided among replicas."""

    def __init__(
        self,
        task: task_lib.AnswerTask,
        workers: Workers,
        padding: Padding,
        **options: Any,
    ) -> None:
        super().__init__(task, padding, **options)
        self._workers = workers
        self._strategy = workers.strategy
        self.num_replicas = workers.strategy.num_replicas_in_sync
        self._has_workers = isinstance(
            self._strategy, tf.distribute.MultiWorkerMirroredStrategy
        )
        self._next_outputs = tf.function(
            lambda iterator: self._strategy.run(
                self._replica_outputs, args=(next(iterator),)
            ),
            autograph=False,
        )

    def _check(self, columns: RecordColumns) -> None:
        digest = {"records to predict": columns.digest}
        self._workers.check_same(digest, "All workers need the same files.")

    def _outputs(
        self, columns: RecordColumns, plan: EvaluationPlan
    ) -> Iterator[Outputs]:
        make_dataset = functools.partial(
            bucketed_batches.evaluation_dataset,
            columns,
            plan,
            padding=self._padding,
        )
        iterator = iter(strategies.distribute(self._strategy, make_dataset))
        for _ in plan:
            outputs = self._next_outputs(iterator)
            yield {name: self._rows(x) for name, x in outputs.items()}

    def _replica_outputs(self, batch: task_lib.Batch) -> dict[str, tf.Tensor]:
        outputs = self._compute(batch)
        if self._has_workers:
            # Every worker gets the rows of all replicas.
            context = tf.distribute.get_replica_context()
            return {n: context.all_gather(v, 0) for n, v in outputs.items()}
        return outputs

    def _rows(self, values: tf.Tensor) -> np.ndarray:
        """Returns the rows of all replicas in their order."""
        of_replicas = self._strategy.experimental_local_results(values)
        if self._has_workers:
            of_replicas = of_replicas[:1]  # each has all rows
        return np.concatenate([rows.numpy() for rows in of_replicas])
