"""Outputs of a fine-tuned model for every record.

Data flow: records -> batches of similar length -> outputs of every record.
Examples to predict become records chunk by chunk, so that any number of them
takes the same memory.
"""

import collections
import concurrent.futures
import functools
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from albert_tf.data import bucketed_batches
from albert_tf.data.bucketed_batches import Padding, RecordColumns
from albert_tf.tasks.task import (
    Batch,
    Examples,
    ExampleSet,
    FinetuningTask,
    Outputs,
)
from albert_tf.training import devices, metric_log
from albert_tf.training.workers import Workers

if TYPE_CHECKING:
    import tqdm

_LOGGER = logging.getLogger(__name__)

_BATCHES_AT_A_TIME = 2
# Examples whose records are in memory together.
CHUNK_SIZE = 16_384


class Predictor:
    """Computes a task's outputs for every record, in the order of the records.

    Batches are padded to the lengths that `padding` gives. With `is_final`, the
    outputs are the `final_outputs` of the task.
    """

    def __init__(
        self,
        task: FinetuningTask,
        workers: Workers,
        padding: Padding,
        *,
        is_final: bool = False,
    ) -> None:
        self._task = task
        self._compute = task.final_outputs if is_final else task.outputs
        self._workers = workers
        self._strategy = workers.strategy
        self._padding = padding
        self._has_workers = isinstance(
            self._strategy, tf.distribute.MultiWorkerMirroredStrategy
        )
        self._is_one_cpu = devices.is_default(self._strategy) and (
            devices.device_type(self._strategy) == "CPU"
        )
        self._next_outputs = tf.function(
            self._outputs_of_replicas, autograph=False
        )
        self._outputs_of_one = tf.function(
            self._replica_outputs, autograph=False
        )

    def predict(
        self, examples: ExampleSet, *, batch_size: int
    ) -> Iterator[tuple[Examples, Outputs]]:
        """Yields the examples of a set with their outputs, chunk by chunk."""
        data = examples.data
        with metric_log.progress_bar(total=None, unit="record") as bar:
            for chunk in examples.chunks(CHUNK_SIZE):
                columns = bucketed_batches.collect(
                    data.records(chunk, is_training=False),
                    data.array_specs,
                    max_seq_length=self._padding.max_seq_length,
                )
                self._workers.check_same(
                    {"records to predict": columns.digest},
                    "All workers need the same files.",
                )
                # The total is known as soon as windows are.
                bar.total = bar.total or round(
                    len(examples.examples) * columns.num_records / len(chunk)
                )
                yield chunk, self._run(columns, batch_size, bar)

    def run(self, columns: RecordColumns, *, batch_size: int) -> Outputs:
        """Returns the outputs of N records by name.

        They are arrays `[N, ...]`; outputs along the sequence are lists of N
        arrays, each of its record's length.
        """
        total = columns.num_records
        with metric_log.progress_bar(total=total, unit="record") as bar:
            return self._run(columns, batch_size, bar)

    def _run(
        self, columns: RecordColumns, batch_size: int, bar: "tqdm.tqdm[Any]"
    ) -> Outputs:
        plan = bucketed_batches.plan_evaluation(
            columns.lengths,
            batch_size=batch_size,
            padding=self._padding,
            num_replicas=self._strategy.num_replicas_in_sync,
        )
        dataset = devices.distribute(
            self._strategy,
            functools.partial(
                bucketed_batches.evaluation_dataset,
                columns,
                plan,
                padding=self._padding,
            ),
        )
        rows: dict[str, list[np.ndarray]] = {}
        for batch, outputs in zip(
            plan, self._outputs(dataset, len(plan)), strict=True
        ):
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
        _report_not_finite(results)
        return results

    def _outputs(
        self, dataset: tf.data.Dataset, num_batches: int
    ) -> Iterator[dict[str, tf.Tensor]]:
        """Yields the outputs of the batches, in their order.

        One CPU computes two batches at a time, because parts of a model use a
        single core. Calls of several replicas must not overtake each other.
        """
        iterator = iter(dataset)
        if not self._is_one_cpu:
            for _ in range(num_batches):
                yield self._next_outputs(iterator)
            return
        compute = self._outputs_of_one.get_concrete_function(
            iterator.element_spec
        )
        waiting: collections.deque[Any] = collections.deque()
        with concurrent.futures.ThreadPoolExecutor(_BATCHES_AT_A_TIME) as pool:
            for batch in iterator:
                waiting.append(pool.submit(compute, batch))
                # One more, so that no thread waits for the caller.
                if len(waiting) > _BATCHES_AT_A_TIME:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def _outputs_of_replicas(
        self, iterator: Iterator[Batch]
    ) -> dict[str, tf.Tensor]:
        return self._strategy.run(self._replica_outputs, args=(next(iterator),))

    def _replica_outputs(self, batch: Batch) -> dict[str, tf.Tensor]:
        outputs = self._compute(batch)
        if self._has_workers:
            return {name: _from_all(rows) for name, rows in outputs.items()}
        return outputs

    def _rows(self, values: tf.Tensor) -> np.ndarray:
        """Returns the rows of all replicas in their order."""
        parts = self._strategy.experimental_local_results(values)
        if self._has_workers:
            parts = parts[:1]  # each has all rows
        return np.concatenate([part.numpy() for part in parts])


def _report_not_finite(outputs: Outputs) -> None:
    """Warns of records that have no answer, such as by overflows."""
    bad = [
        index
        for index, rows in enumerate(zip(*outputs.values(), strict=True))
        if not all(np.isfinite(row).all() for row in rows)
    ]
    if bad:
        _LOGGER.warning(
            "%d of %d records, the first is number %d, have outputs that are "
            "not numbers, so their predictions mean nothing. Pass "
            "--precision=float32.",
            len(bad),
            len(next(iter(outputs.values()))),
            bad[0] + 1,
        )


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
