"""Writes the numbers of a run's log as scalars of TensorBoard."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from albert_tf.training.callbacks import Callback, Result


class TensorBoard(Callback):
    """Writes events into the output directory, once there are numbers."""

    _writer: tf.summary.SummaryWriter | None = None

    def on_log(self, step: int, numbers: Mapping[str, Any]) -> None:
        """Writes a scalar for each number."""
        if self._writer is None:
            output_dir = self.run.config.output_dir
            self._writer = tf.summary.create_file_writer(output_dir)
        with self._writer.as_default():
            for name, value in numbers.items():
                if isinstance(value, int | float):
                    tf.summary.scalar(name, value, step)

    def on_end(
        self, result: Result | None, error: BaseException | None
    ) -> None:
        """Closes the file of events."""
        if self._writer is not None:
            self._writer.close()
