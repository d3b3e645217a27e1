"""What a model says of every record of a set, in the order of the records.

Floor: training.
"""

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from albert_tf.data import bucketed_batches
from albert_tf.data.bucketed_batches import EvaluationBatch, Padding
from albert_tf.data.record_columns import RecordColumns
from albert_tf.tasks import finetuning
from albert_tf.tasks import task as tasks
from albert_tf.training import distribution


class Predictor:
    """Computes a task's outputs over the replicas of a strategy.

    Args:
        task: The model and its outputs.
        strategy: The replicas.
        padding: To which lengths batches are padded.
    """

    def __init__(
        self,
        task: finetuning.FinetuningTask,
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
