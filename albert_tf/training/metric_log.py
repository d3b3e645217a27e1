"""What a run reports: a JSON line a log step, TensorBoard, a progress bar.

Floor: training.
"""

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tqdm

from albert_tf import files

FILE_NAME = "metrics.jsonl"
TIMING_KEYS = ("sequences_per_second", "tokens_per_second")


class MetricLog:
    """Writes the log of a run, and goes on where a checkpoint left off.

    Args:
        output_dir: Folder of the run.
        last_step: Updates already done, None for a run that starts: later
            lines of an earlier process are dropped, because their steps will
            be done again.
        is_writer: False in all but one process of several; then nothing is
            written.
    """

    def __init__(
        self,
        output_dir: str,
        *,
        last_step: int | None,
        is_writer: bool = True,
    ) -> None:
        self._path = os.path.join(output_dir, FILE_NAME)
        self._is_writer = is_writer
        if is_writer:
            self.rewind(-1 if last_step is None else last_step)
            self._events = tf.summary.create_file_writer(output_dir)

    def rewind(self, step: int) -> None:
        """Drops the lines of all steps after `step`."""
        if not self._is_writer or not os.path.exists(self._path):
            return
        lines = files.read_text(self._path).splitlines(keepends=True)
        kept = [
            line
            for line in lines
            if line.endswith("\n") and json.loads(line)["step"] <= step
        ]
        if kept != lines:
            files.write_text(self._path, "".join(kept))

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """Adds a line, and a TensorBoard scalar for each number."""
        if not self._is_writer:
            return
        line = json.dumps({"step": step, **values})
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(line + "\n")
        with self._events.as_default():
            for name, value in values.items():
                if isinstance(value, int | float):
                    tf.summary.scalar(name, value, step)

    def close(self) -> None:
        """Flushes what TensorBoard reads."""
        if self._is_writer:
            self._events.close()


def read_lines(output_dir: str) -> list[dict[str, Any]]:
    """Returns the whole lines of a run's log; none if it has no log."""
    path = os.path.join(output_dir, FILE_NAME)
    if not os.path.exists(path):
        return []
    lines = files.read_text(path).splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def progress_bar(
    *, total: int, done: int, unit: str = "step"
) -> "tqdm.tqdm[Any]":
    """Returns a bar on stderr, silent if stderr is not a terminal."""
    return tqdm.tqdm(
        total=total,
        initial=done,
        unit=unit,
        disable=not sys.stderr.isatty(),
        dynamic_ncols=True,
    )
