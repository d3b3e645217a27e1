"""What the training loop needs to know of a task, and nothing more.

Floor: tasks.

What fine-tuning needs of a task's data half: plain Python and NumPy.

Data flow: examples -> records -> [model] -> outputs -> scores, files.
Floor: tasks. No TensorFlow, so that a script reads and checks its files
before it pays for the import.

What the loop needs to know of a task that is fine-tuned and predicts.

A task has two halves: `TaskData` (text to records, outputs to scores) and
`FinetuningTask` (the model and its loss).

Floor: tasks.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import keras
import numpy as np
import tensorflow as tf

from albert_tf import features
from albert_tf.config import AlbertConfig

Batch = Mapping[str, tf.Tensor]
Totals = dict[str, tf.Tensor]


class Task(Protocol):
    """A model with a loss that is a sum over targets, and its scores.

    The loop adds `loss_denominators` over all replicas and micro-batches of a step
    before it asks for a loss, so that every target of the global batch weighs
    the same wherever it is computed.
    """

    model: keras.Model

    @property
    def total_names(self) -> tuple[str, ...]:
        """Keys of the sums that `loss` returns."""
        ...

    def loss_denominators(self, batch: Batch) -> Totals:
        """Returns, by loss, the float32 `[]` weight of the batch's targets."""
        ...

    def loss(
        self, batch: Batch, loss_denominators: Totals, *, seed: tf.Tensor | None
    ) -> tuple[tf.Tensor, Totals]:
        """Returns this batch's share of the loss, and sums to be reported.

        Args:
            batch: Tensors of one micro-batch.
            loss_denominators: As `loss_denominators` returns them, of the global batch.
            seed: int32 `[2]` for dropout when training; None to evaluate.
        """
        ...

    def training_scores(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Turns the sums over a step's global batch into the log's values."""
        ...

    def evaluation_scores(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Turns the sums over an evaluation set into its scores."""
        ...


def example_weights(batch: Batch) -> tf.Tensor:
    """Returns float32 `[B]`: 0 for rows that only fill up a batch, else 1.

    Args:
        batch: Has `input_ids` `[B, ...]`, and `example_weights` if any row
            may be a filling one.
    """
    if "example_weights" in batch:
        return batch["example_weights"]
    return tf.ones(tf.shape(batch["input_ids"])[:1])


# The task's own dataclass; each has a `guid: str` that no other one has.
Examples = Sequence[Any]
Record = dict[str, np.ndarray]
# By name, one row per record in the order of the records: arrays `[N, ...]`;
# for outputs along the sequence, N arrays of the records' own lengths.
Outputs = Mapping[str, np.ndarray | list[np.ndarray]]


class TaskData(Protocol):
    """Examples to records, and outputs to scores and files.

    It may offer `report_sections(examples, outputs) -> list[dict]` as well:
    each dict is a table (`title`, `header`, `rows` of text), a chart (`title`,
    `unit`, `curves` of points by name, `x_label`) or bars (`title`, `unit`,
    `bars` by name) of `report.html`.
    """

    @property
    def name(self) -> str:
        """Name of the task, such as `cola`."""
        ...

    @property
    def primary_metric(self) -> str:
        """Key of the score that chooses the best weights; high is good."""
        ...

    @property
    def vocab_size(self) -> int:
        """Tokens of the vocabulary that the records are made with."""
        ...

    @property
    def array_specs(self) -> tuple[features.ArraySpec, ...]:
        """The arrays of a record."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """JSON values: everything that makes the records of an example.

        Task, lengths, stride, labels, hash of the tokenizer: records that are
        stored are used again only where all of it is the same.
        """
        ...

    def records(
        self, examples: Examples, *, is_training: bool
    ) -> Iterator[Record]:
        """Yields the records of the examples; one may have several."""
        ...

    def scores(self, examples: Examples, outputs: Outputs) -> dict[str, float]:
        """Returns the official scores of labelled examples."""
        ...

    def write_predictions(
        self, examples: Examples, outputs: Outputs, output_dir: str
    ) -> list[str]:
        """Writes the task's files; returns their paths."""
        ...


__all__ = [
    "Examples",
    "FinetuningTask",
    "MakeTask",
    "Outputs",
    "Record",
    "TaskData",
]


class FinetuningTask(Task, Protocol):
    """A model with a head, its loss, and what it says of each record."""

    @property
    def sequence_outputs(self) -> frozenset[str]:
        """Names of the outputs whose second axis is the sequence."""
        ...

    def outputs(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns what the model says of a batch, without dropout.

        Returns:
            Float32 or int32 tensors whose first axis is the batch's rows.
        """
        ...


class MakeTask(Protocol):
    """Makes the TensorFlow half; called in the scope of the strategy."""

    def __call__(
        self, config: AlbertConfig, *, seed: int, dtype: str
    ) -> FinetuningTask:
        """Makes the task, with a model of that config, seed and policy."""
        ...
