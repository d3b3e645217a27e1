"""Scores of a model on a set of records, every example counted once.

Floor: training.
"""

from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from albert_tf.tasks import task as tasks


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
        total = np.zeros(len(self._task.sum_names))
        count = 0
        for batch in batches:
            total += self._batch_sums(batch).numpy().astype(np.float64)
            count += 1
        if not count:
            raise ValueError("There is nothing to evaluate: no records.")
        names = self._task.sum_names
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
        normalizers = {
            name: tf.ones([]) for name in self._task.normalizers(batch)
        }
        _, sums = self._task.loss(batch, normalizers, seed=None)
        return tf.stack([sums[name] for name in self._task.sum_names])
