"""Outputs of a fine-tuned model for every record, and files of predictions.

Data flow: records -> batches of similar length -> outputs of every record
-> prediction files, chunk by chunk, so that memory does not grow with the data.
On any backend of Keras, or on the devices of a strategy of TensorFlow.
"""

import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import auto

from albert_tf import registry
from albert_tf.data import record_columns
from albert_tf.data.record_columns import (
    EvaluationPlan,
    Padding,
    RecordColumns,
)
from albert_tf.devices import engine
from albert_tf.metrics.scores import Scores
from albert_tf.tasks import task as task_lib
from albert_tf.tasks.task_data import Examples, ExampleSet, Outputs

if TYPE_CHECKING:
    from albert_tf.devices.strategies import Workers

_LOGGER = logging.getLogger(__name__)

_BATCHES_AT_A_TIME = 2
# Examples whose records are in memory together.
CHUNK_SIZE = 16_384


class OutputComputer:
    """Computes a task's outputs for every record, in the order of the records.

    Batches are padded to the lengths that `padding` gives. `compute` is a
    method of the task, `final_outputs` by default. If the strategy of the
    `workers` has several replicas, each batch is divided among them.
    """

    def __init__(
        self,
        task: task_lib.AnswerTask,
        padding: Padding,
        *,
        compute: Callable[[task_lib.Batch], task_lib.Totals] | None = None,
        workers: "Workers | None" = None,
    ) -> None:
        self._task = task
        self._compute = compute or task.final_outputs
        self._padding = dataclasses.replace(
            padding,
            min_length=task.min_length,
            max_seq_length=max(padding.max_seq_length, task.min_length),
        )
        # Keys: specs of a batch's arrays, then ids of variables; or a strategy.
        self._compiled: dict[object, Callable[..., Any]] = {}
        self._compiling = threading.Lock()  # It changes the model meanwhile.
        self._workers: Any = None
        if workers:
            from albert_tf.devices import strategies

            is_one_device = strategies.is_default(workers.strategy)
            self._workers = None if is_one_device else workers

    def run_chunks(
        self, examples: ExampleSet, batch_size: int
    ) -> Iterator[tuple[Examples, Outputs]]:
        """Yields the examples of a set with their outputs, chunk by chunk."""
        data = examples.data
        for chunk in examples.chunks(CHUNK_SIZE):
            columns = record_columns.collect(
                data.records(chunk, is_training=False),
                data.array_specs,
                max_seq_length=self._padding.max_seq_length,
            )
            if self._workers:
                digest = {"records to predict": columns.digest}
                advice = "All workers need the same files."
                self._workers.check_same(digest, advice)
            outputs = self.run(columns, batch_size)
            if problem := find_not_finite(outputs):
                _LOGGER.warning("%s", problem)
            yield chunk, outputs

    def run(self, columns: RecordColumns, batch_size: int) -> Outputs:
        """Returns the outputs of N records by name.

        They are arrays `[N, ...]`; outputs of tokens are lists of N arrays.
        """
        compute, num_replicas = self._outputs, 1
        if self._workers:
            compute = self._outputs_of_replicas
            num_replicas = self._workers.strategy.num_replicas_in_sync
        plan = record_columns.plan_evaluation(
            columns.lengths,
            batch_size=batch_size,
            padding=self._padding,
            num_replicas=num_replicas,
        )
        results: dict[str, Any] = {}
        no_rows = [None] * columns.num_records
        # Off where stderr is not a terminal, or closed.
        is_off = None if sys.stderr else True
        with auto.tqdm(
            total=columns.num_records, unit="record", disable=is_off
        ) as bar:
            computed = compute(columns, plan)
            for batch, outputs in zip(plan, computed, strict=True):
                num_records = len(batch.indices)
                for name, values in outputs.items():
                    rows = results.setdefault(name, [*no_rows])
                    real = values[:num_records]  # others fill the batch
                    for index, row in zip(batch.indices, real, strict=True):
                        rows[index] = row
                bar.update(num_records)
        for name, rows in results.items():
            if name not in self._task.sequence_outputs:
                results[name] = np.stack(rows)
                continue
            pairs = zip(rows, columns.lengths.tolist(), strict=True)
            results[name] = [row[:length] for row, length in pairs]
        return results

    def _outputs(
        self, columns: RecordColumns, plan: EvaluationPlan
    ) -> Iterator[Outputs]:
        """Yields the outputs of the batches, in their order.

        Two batches are computed at a time, because parts of a model use a
        single core.
        """
        # LoRA and quantization replace variables: compile again then.
        variables = getattr(self._task.model, "variables", ())
        key = columns.specs, *map(id, variables)
        with self._compiling:
            compute = self._compiled.get(key) or engine.compiled(
                self._compute, self._task.model, columns.batch(plan[0])
            )
            self._compiled[key] = compute
        waiting: collections.deque[Any] = collections.deque()
        with concurrent.futures.ThreadPoolExecutor(_BATCHES_AT_A_TIME) as pool:
            for planned in plan:
                batch = columns.batch(planned)
                waiting.append(pool.submit(compute, batch))
                # One batch more than threads: none waits for the caller.
                if len(waiting) > _BATCHES_AT_A_TIME:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def _outputs_of_replicas(
        self, columns: RecordColumns, plan: EvaluationPlan
    ) -> Iterator[Outputs]:
        """Yields the same outputs, with batches divided among replicas."""
        import tensorflow as tf

        from albert_tf.data import bucketed_batches
        from albert_tf.devices import strategies

        strategy = self._workers.strategy
        workers_kind = tf.distribute.MultiWorkerMirroredStrategy
        has_workers = isinstance(strategy, workers_kind)

        def compute(batch: task_lib.Batch) -> task_lib.Totals:
            outputs = self._compute(batch)
            if not has_workers:
                return outputs
            # Every worker gets the rows of all replicas.
            context = tf.distribute.get_replica_context()
            return {n: context.all_gather(v, 0) for n, v in outputs.items()}

        kernels = registry.load(registry.COMPUTATION["kernels"])

        def compute_all(batches: Iterator[task_lib.Batch]) -> object:
            with kernels.casting_once(self._task.model):
                return strategy.run(compute, args=(next(batches),))

        if strategy not in self._compiled:
            self._compiled[strategy] = tf.function(compute_all, autograph=False)
        make_dataset = functools.partial(
            bucketed_batches.evaluation_dataset,
            columns,
            plan,
            padding=self._padding,
        )
        batches = iter(strategies.distribute(strategy, make_dataset))
        for _ in plan:
            merged = {}
            for name, values in self._compiled[strategy](batches).items():
                rows = strategy.experimental_local_results(values)
                merged[name] = np.concatenate(rows[:1] if has_workers else rows)
            yield merged


def find_not_finite(outputs: Outputs) -> str | None:
    """Describes records whose outputs are not finite; None without any."""
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
    workers: "Workers",
) -> None:
    """Writes the predictions of a set, each chunk as soon as it is computed.

    All workers compute and the chief writes; if it fails, all workers end.
    `scores` of an evaluation choose thresholds; they are empty without one.
    """
    # Other workers open no files.
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
    _LOGGER.info("Predictions of %d examples are in %s.", num_written, folder)
