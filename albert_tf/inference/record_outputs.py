"""Outputs of a fine-tuned model for every record, and files of predictions.

Data flow: records -> batches of similar length -> outputs of every record
-> files of the task, chunk by chunk, so that any number takes the same memory.
"""

import collections
import concurrent.futures
import contextlib
import functools
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf import progress
from albert_tf.data import bucketed_batches
from albert_tf.data.bucketed_batches import Padding, RecordColumns
from albert_tf.devices import strategies
from albert_tf.devices.workers import Workers
from albert_tf.metrics.scores import Scores
from albert_tf.tasks import task as task_lib
from albert_tf.tasks.task import Examples, ExampleSet, Outputs

_LOGGER = logging.getLogger(__name__)

_BATCHES_AT_A_TIME = 2
# Examples whose records are in memory together.
CHUNK_SIZE = 16_384


class OutputComputer:
    """Computes a task's outputs for every record, in the order of the records.

    Batches are padded to the lengths that `padding` gives. The outputs are the
    `final_outputs` of the task, unless `compute` is another function of it.
    """

    def __init__(
        self,
        task: task_lib.AnswerTask,
        workers: Workers,
        padding: Padding,
        *,
        compute: Callable[[task_lib.Batch], task_lib.Totals] | None = None,
    ) -> None:
        self._task = task
        self._compute = compute or task.final_outputs
        self._workers = workers
        self._strategy = workers.strategy
        self._padding = padding
        self._has_workers = isinstance(
            self._strategy, tf.distribute.MultiWorkerMirroredStrategy
        )
        self._is_one_cpu = strategies.is_default(self._strategy) and (
            strategies.device_type(self._strategy) == "CPU"
        )
        self._next_outputs = tf.function(
            lambda iterator: self._strategy.run(
                self._replica_outputs, args=(next(iterator),)
            ),
            autograph=False,
        )
        self._batch_outputs = tf.function(
            self._replica_outputs, autograph=False
        )

    def run_chunks(
        self, examples: ExampleSet, batch_size: int
    ) -> Iterator[tuple[Examples, Outputs]]:
        """Yields the examples of a set with their outputs, chunk by chunk."""
        data = examples.data
        for chunk in examples.chunks(CHUNK_SIZE):
            columns = bucketed_batches.collect(
                data.records(chunk, is_training=False),
                data.array_specs,
                max_seq_length=self._padding.max_seq_length,
            )
            digest = {"records to predict": columns.digest}
            self._workers.check_same(digest, "All workers need the same files.")
            outputs = self.run(columns, batch_size)
            if problem := find_not_finite(outputs):
                _LOGGER.warning("%s", problem)
            yield chunk, outputs

    def run(self, columns: RecordColumns, batch_size: int) -> Outputs:
        """Returns the outputs of N records by name.

        They are arrays `[N, ...]`, or, along the sequence, lists of N arrays.
        """
        plan = bucketed_batches.plan_evaluation(
            columns.lengths,
            batch_size=batch_size,
            padding=self._padding,
            num_replicas=self._strategy.num_replicas_in_sync,
        )
        make_dataset = functools.partial(
            bucketed_batches.evaluation_dataset,
            columns,
            plan,
            padding=self._padding,
        )
        dataset = strategies.distribute(self._strategy, make_dataset)
        results: dict[str, Any] = {}
        lengths = columns.lengths.tolist()
        nothing = [None] * columns.num_records
        with progress.bar(total=columns.num_records, unit="record") as bar:
            computed = self._outputs(dataset, len(plan))
            for batch, outputs in zip(plan, computed, strict=True):
                # Without the rows that only fill the batch.
                num_records = len(batch.indices)
                for name, values in outputs.items():
                    rows = results.setdefault(name, [*nothing])
                    real = self._rows(values)[:num_records]
                    for index, row in zip(batch.indices, real, strict=True):
                        rows[index] = row
                bar.update(num_records)
        for name, rows in results.items():
            if name not in self._task.sequence_outputs:
                results[name] = np.stack(rows)
                continue
            pairs = zip(rows, lengths, strict=True)
            results[name] = [row[:length] for row, length in pairs]
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
        spec = iterator.element_spec
        compute = self._batch_outputs.get_concrete_function(spec)
        waiting: collections.deque[Any] = collections.deque()
        with concurrent.futures.ThreadPoolExecutor(_BATCHES_AT_A_TIME) as pool:
            for batch in iterator:
                waiting.append(pool.submit(compute, batch))
                # One more, so that no thread waits for the caller.
                if len(waiting) > _BATCHES_AT_A_TIME:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

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


def find_not_finite(outputs: Outputs) -> str | None:
    """Names records that have no answer, such as by overflows, if any."""
    bad = [
        not all(np.isfinite(row).all() for row in rows)
        for rows in zip(*outputs.values(), strict=True)
    ]
    if not any(bad):
        return None
    return (
        f"{sum(bad)} of {len(bad)} records, the first is number "
        f"{bad.index(True) + 1}, have outputs that are not numbers, so their "
        "predictions mean nothing. Pass --precision=float32, or weights that "
        "were trained with a lower --learning_rate."
    )


def write_predictions(
    examples: ExampleSet,
    chunks: Iterable[tuple[Examples, Outputs]],
    folder: str,
    scores: Scores,
    workers: Workers,
) -> None:
    """Writes the predictions of a set, each chunk as soon as it is computed.

    All workers compute, the chief writes; if it cannot, all end. `scores` are
    those of the evaluation, empty without one.
    """
    # Other workers have no files.
    opened: Any = contextlib.nullcontext(lambda *_: None)
    if workers.is_chief:
        os.makedirs(folder, exist_ok=True)
        opened = examples.data.open_predictions(folder, scores)
    num_written = 0
    with opened as write_chunk:
        for chunk, outputs in chunks:
            workers.run_in_chief(functools.partial(write_chunk, chunk, outputs))
            num_written += len(chunk)
        if num_written != len(examples.examples):
            raise ValueError(
                f"The file to predict has changed: it has {num_written} "
                f"examples, and had {len(examples.examples)}."
            )
    _LOGGER.info(
        "Predictions of %d examples are in %s.", len(examples.examples), folder
    )
