"""Evaluates a model: scores from metric totals, or outputs of every record.

Floor: training.
"""

import functools
from collections.abc import Iterable, Iterator

import numpy as np
import tensorflow as tf

from albert_tf.data import bucketed_batches
from albert_tf.data.bucketed_batches import Padding
from albert_tf.data.feature_cache import RecordColumns
from albert_tf.tasks.task import Batch, FinetuningTask, Task
from albert_tf.training import distribution, metric_log


class Evaluator:
    """Adds up a task's metric totals over batches; a `loop.Evaluator`.

    Args:
        task: Provides the model, its totals and its scores.
        strategy: The replicas.
        batches: Yields the same batches, one per replica, each time it is
            iterated over.
        primary_metric: See `loop.Evaluator`.
    """

    disqualifying_metric = ""

    def __init__(
        self,
        task: Task,
        strategy: tf.distribute.Strategy,
        *,
        batches: Iterable[Batch],
        primary_metric: str,
    ) -> None:
        self._task = task
        self._strategy = strategy
        self._batches = batches
        self.primary_metric = primary_metric
        self._batch_totals = tf.function(self._totals_over_replicas)

    def evaluate(self) -> dict[str, float]:
        """Returns the scores over all batches.

        Raises:
            ValueError: There is no batch.
        """
        names = self._task.total_names
        totals = np.zeros(len(names))
        count = 0
        for batch in self._batches:
            totals += self._batch_totals(batch).numpy().astype(np.float64)
            count += 1
        if not count:
            raise ValueError("There are no records to evaluate.")
        return self._task.evaluation_scores(
            dict(zip(names, totals.tolist(), strict=True))
        )

    def _totals_over_replicas(self, batch: Batch) -> tf.Tensor:
        totals = self._strategy.run(self._replica_totals, args=(batch,))
        return self._strategy.reduce(
            tf.distribute.ReduceOp.SUM, totals, axis=None
        )

    def _replica_totals(self, batch: Batch) -> tf.Tensor:
        # Only the totals are used, so the denominators do not matter.
        loss_denominators = {
            name: tf.ones([]) for name in self._task.loss_denominators(batch)
        }
        _, totals = self._task.loss(batch, loss_denominators, seed=None)
        return tf.stack([totals[name] for name in self._task.total_names])


class Predictor:
    """Computes a task's outputs for every record, in the order of the records.

    Args:
        task: Provides the model and its outputs.
        strategy: The replicas.
        padding: Lengths that batches are padded to.
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
        self, columns: RecordColumns, *, batch_size: int
    ) -> dict[str, np.ndarray | list[np.ndarray]]:
        """Returns the outputs of all records.

        Args:
            columns: The records, N.
            batch_size: See `bucketed_batches.plan_evaluation`.

        Returns:
            By name of the output, an array `[N, ...]`; for outputs along the
            sequence, a list of N arrays, each of its record's length.
        """
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
        with metric_log.progress_bar(total=len(plan), unit="batch") as bar:
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
                bar.update()
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
