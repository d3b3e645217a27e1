"""What the loop needs to know of a task that is fine-tuned and predicts.

A task has two halves: `TaskData` (text to records, outputs to scores) and
`FinetuningTask` (the model and its loss).

Floor: tasks.
"""

from typing import Protocol

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.tasks import task
from albert_tf.tasks.task_data import Examples, Outputs, Record, TaskData

__all__ = [
    "Examples",
    "FinetuningTask",
    "MakeTask",
    "Outputs",
    "Record",
    "TaskData",
]


class FinetuningTask(task.Task, Protocol):
    """A model with a head, its loss, and what it says of each record."""

    @property
    def sequence_outputs(self) -> frozenset[str]:
        """Names of the outputs whose second axis is the sequence."""
        ...

    def outputs(self, batch: task.Batch) -> dict[str, tf.Tensor]:
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
